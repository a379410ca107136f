"""Plans of queries: which indexes a query needs, and the SQL that scans them. Needs no store.

A query becomes a scan of one index in the query's order. Its key consists of the fields with an equality and then the
sorted fields. Each further equality is a lookup in a separate index. Conditions on further fields with an inequality
are checked on the records.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

from signalbox.adapters.sqlite.values import (
    AFTER_ALL,
    AFTER_NULL,
    NAN_KEY,
    NULL_KEY,
    after_prefix,
    inverted,
    order_preserving_key,
)
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import Data, Query
from signalbox.core.query_checks import full_order, is_descending, operands
from signalbox.core.records.composite_indexes import IndexField
from signalbox.core.records.queries import ID, INEQUALITIES, Condition, Field, Order
from signalbox.core.write_effects import MISSING, value_at

Span = tuple[bytes, bytes]
"""The keys from the first one up to, but not including, the second one."""

Check = Callable[[str, Data], bool]
"""Returns whether a query finds a record, given by its id and data."""

GROUP = "*/"
"""The prefix of an entry's place if the index contains all collections of one name."""

RECORD_COLUMNS = "r.collection, r.id, r.data, r.created_at, r.updated_at"


@dataclass(frozen=True, slots=True)
class IndexKey:
    """An index of all collections with one name: of each collection separately, or (`of_a_group`) of all together.

    An index without fields lists the records of a group by their paths.
    """

    collection: str
    fields: tuple[IndexField, ...]
    of_a_group: bool = False

    def keys(self, data: Data) -> Collection[bytes]:
        """Return the keys of a record's entries: none if the record lacks a field, one for each member of a list."""
        parts: list[Collection[bytes]] = []
        for index_field in self.fields:
            value = value_at(data, index_field.field)
            if value is MISSING:
                return ()
            parts.append(_keys_of(value, index_field.kind))
        return parts[0] if len(parts) == 1 else {b"".join(part) for part in product(*parts)}

    def place(self, collection: str) -> str:
        """Return the place of the entries of a collection's records."""
        return GROUP + self.collection if self.of_a_group else collection

    def entry_id(self, collection: str, id_: str) -> str:
        """Return the id of a record's entries: in a group a path, a text ordered id by id (`a` before `a!`)."""
        if not self.of_a_group:
            return id_
        return f"{collection}/{id_}".replace("\0", "\0\1").replace("/", "\0\0")

    def columns(self) -> tuple[str, str, int]:
        """Return the columns of the index's definition."""
        fields = json.dumps([[field.kind, *field.field] for field in self.fields])
        return self.collection, fields, int(self.of_a_group)

    @classmethod
    @lru_cache(maxsize=4_096)  # all definitions are read again when one is added
    def from_columns(cls, collection: str, fields: str, of_a_group: int) -> "IndexKey":
        """Return the index of a stored definition."""
        parsed = tuple(IndexField(tuple(names), kind) for kind, *names in json.loads(fields))
        return cls(collection, parsed, bool(of_a_group))


def _keys_of(value: Any, kind: str) -> Collection[bytes]:
    if kind == "contains":
        return {order_preserving_key(member) for member in value} if type(value) is list else ()
    key = order_preserving_key(value)
    return (inverted(key) if kind == "descending" else key,)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query is answered: by SQL, in the query's order, and by checks of each record that SQL returns.

    An `IndexKey` among the values stands for the index's number, which is known when the index has been made.
    """

    needs: tuple[IndexKey, ...]
    sql: str
    values: tuple[Any, ...]
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class _Spans:
    """A condition: the key of the field, or of one of its members, is in one of the spans.

    `keys` are all keys in the spans if the condition is an equality, else empty.
    """

    field: Field
    of_members: bool
    spans: tuple[Span, ...]
    keys: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, condition: Condition) -> "_Spans":
        """Translate a condition that is not one on ids."""
        keys = tuple(map(order_preserving_key, operands(condition)))
        if condition.operator == "in":
            keys = tuple(key for key in dict.fromkeys(keys) if key not in (NULL_KEY, NAN_KEY))
        if condition.operator in ("==", "in", "array_contains"):
            of_members = condition.operator == "array_contains"
            return cls(condition.field, of_members, tuple((key, after_prefix(key)) for key in keys), keys)
        return cls(condition.field, False, _compared(condition.operator, keys[0]))

    def hold(self, _: str, data: Data) -> bool:
        """Return whether the condition holds for a record."""
        value = value_at(data, self.field)
        if value is MISSING:
            return False
        values = (value if type(value) is list else ()) if self.of_members else (value,)
        return any(low <= key < high for key in map(order_preserving_key, values) for low, high in self.spans)

    @property
    def index_field(self) -> IndexField:
        return IndexField(self.field, "contains" if self.of_members else "ascending")


def _compared(operator: str, key: bytes) -> tuple[Span, ...]:
    rank, after = key[:1], after_prefix(key)
    match operator:
        case "<":
            return ((rank, key),)
        case "<=":
            return ((rank, after),)
        case ">":
            return ((after, after_prefix(rank)),)
        case ">=":
            return ((key, after_prefix(rank)),)
        case _:  # "!=", which does not find null
            return ((AFTER_NULL, max(key, AFTER_NULL)), (max(after, AFTER_NULL), AFTER_ALL))


def _in_both(spans: Iterable[Span], others: Sequence[Span]) -> list[Span]:
    """Return the spans of the keys that are in both."""
    pairs = ((max(low, other_low), min(high, other_high)) for low, high in spans for other_low, other_high in others)
    return [(low, high) for low, high in pairs if low < high]


def plan(query: Query, *, counted: bool = False) -> Plan:
    """Return the plan of a query that `check_query` accepts, or of counting its records."""
    return _Planner(query, counted=counted).plan()


class _Planner:
    def __init__(self, query: Query, *, counted: bool) -> None:
        self._query = query
        self._counted = counted
        self._name = query.collection.rpartition("/")[2]
        self._order = full_order(query)
        self._descending = is_descending(query)
        self._conditions = [(each, _Spans.of(each)) for each in query.where if each.field != ID]
        self._unequal = {each.field for each in query.where if each.operator in INEQUALITIES}
        self._fixed = {
            spans.field: spans.keys[0]
            for each, spans in self._conditions
            if each.operator == "==" and each.field not in self._unequal
        }
        self._sorted_by = [order for order in self._order if order.field not in self._fixed]
        self._prefix = b"".join(self._fixed[field] for field in sorted(self._fixed))
        self._needs: list[IndexKey] = []
        self._tests: list[str] = []
        self._values: list[Any] = []
        self._checks: list[Check] = []
        self._id = "r.id"

    def plan(self) -> Plan:
        if self._sorted_by:
            self._scan(self._sorted_by[0])
        self._lookups()
        self._ids()
        if not self._needs:
            self._whole_collection()
        if self._query.after:
            self._continue_after()
        return self._written()

    @property
    def _backward(self) -> bool:
        """Whether the index is scanned backward: the order's first field is ascending in every index."""
        return bool(self._sorted_by) and self._sorted_by[0].descending

    def _entries_of(self, *fields: IndexField) -> str:
        """Join the entries of an index, and return their alias."""
        alias = f"e{len(self._needs)}"
        index = IndexKey(self._name, fields, self._query.group)
        self._needs.append(index)
        self._test(f"{alias}.index_number = ?", index)
        self._test(f"{alias}.place = ?", index.place(self._query.collection))
        if len(self._needs) == 1:
            self._id = f"{alias}.id"
        else:
            self._test(f"{alias}.id = {self._id}")
        return alias

    def _test(self, sql: str, *values: Any) -> None:
        self._tests.append(sql)
        self._values += values

    def _scan(self, first: Order) -> None:
        """Scan an index in the query's order, in the spans of all conditions on the first sorted field."""
        alias = self._entries_of(
            *map(IndexField, sorted(self._fixed)),
            *(IndexField(by.field, self._kind(by)) for by in self._sorted_by),
        )
        spans: list[Span] = [(NULL_KEY, AFTER_ALL)]
        for condition, wanted in self._conditions:
            if wanted.field == first.field and not wanted.of_members:
                spans = _in_both(spans, wanted.spans)
            elif condition.operator in INEQUALITIES:
                self._checks.append(wanted.hold)
        self._within(alias, [(self._prefix + low, self._prefix + high) for low, high in spans])

    def _kind(self, order: Order) -> Any:
        return "descending" if order.descending != self._backward else "ascending"

    def _within(self, alias: str, spans: Sequence[Span]) -> None:
        if not spans:
            self._test("0")
            return
        low, high = min(low for low, _ in spans), max(high for _, high in spans)
        self._test(f"{alias}.key >= ? AND {alias}.key < ?", low, high)
        if len(spans) > 1:
            either = " OR ".join([f"({alias}.key >= ? AND {alias}.key < ?)"] * len(spans))
            self._test(f"({either})", *(key for span in spans for key in span))

    def _lookups(self) -> None:
        """Join the index of each equality that the prefix of the scan does not cover."""
        covered = dict(self._fixed) if self._sorted_by else {}
        for condition, wanted in self._conditions:
            if condition.operator in INEQUALITIES:
                continue
            if condition.operator == "==" and covered.get(wanted.field) == wanted.keys[0]:
                del covered[wanted.field]
            elif condition.field in self._unequal and not wanted.of_members:
                self._checks.append(wanted.hold)
            else:
                alias = self._entries_of(wanted.index_field)
                self._test(_one_of(f"{alias}.key", len(wanted.keys)), *wanted.keys)

    def _ids(self) -> None:
        for condition in self._query.where:
            if condition.field == ID and condition.operator == "in":
                self._test(_one_of(self._id, len(operands(condition))), *operands(condition))
            elif condition.field == ID:
                self._test(f"{self._id} {condition.operator} ?", condition.value)

    def _whole_collection(self) -> None:
        if self._query.group:
            self._test(f"{self._entries_of()}.key = ?", b"")
        else:
            self._test("r.collection = ?", self._query.collection)

    def _continue_after(self) -> None:
        *values, id_ = self._query.after
        keys = {order.field: order_preserving_key(value) for order, value in zip(self._order, values, strict=True)}
        if any(keys.get(field, key) != key for field, key in self._fixed.items()):
            self._checks.append(self._behind(keys, id_))
            return
        ids = f"{self._id} {'<' if self._descending else '>'} ?"
        if not self._sorted_by:
            self._test(ids, id_)
            return
        tail = (
            inverted(keys[by.field]) if self._kind(by) == "descending" else keys[by.field] for by in self._sorted_by
        )
        key, beyond = self._prefix + b"".join(tail), "<" if self._backward else ">"
        self._test(f"e0.key {beyond}= ? AND (e0.key {beyond} ? OR {ids})", key, key, id_)

    def _behind(self, keys: Mapping[Field, bytes], last_id: str) -> Check:
        """Return the check whether a record is after a cursor that differs from the query's own equalities."""

        def is_behind(id_: str, data: Data) -> bool:
            for order in self._order:
                key, last = order_preserving_key(value_at(data, order.field)), keys[order.field]
                if key != last:
                    return key < last if order.descending else key > last
            return id_ < last_id if self._descending else id_ > last_id

        return is_behind

    def _written(self) -> Plan:
        entries = [f"entries AS e{number}" for number in range(len(self._needs))]
        counted = self._counted and not self._checks
        tables, tests = entries, self._tests
        if not counted or not entries:
            tables = [*entries, "records AS r"]
            tests = [*tests, "r.number = e0.record"] if entries else tests
        columns = "count(*)" if counted else RECORD_COLUMNS
        # CROSS JOIN keeps the order of the tables: SQLite's own choice would need statistics.
        sql = f"SELECT {columns} FROM {' CROSS JOIN '.join(tables)} WHERE {' AND '.join(tests)}"  # noqa: S608 (no values)
        order = "" if self._counted else f" ORDER BY {self._order_by()}"
        return Plan(tuple(self._needs), sql + order, tuple(self._values), tuple(self._checks))

    def _order_by(self) -> str:
        ids = f"{self._id} {_direction(self._descending)}"
        return f"e0.key {_direction(self._backward)}, {ids}" if self._sorted_by else ids


def _one_of(column: str, count: int) -> str:
    return f"{column} = ?" if count == 1 else f"{column} IN ({', '.join('?' * count)})"


def _direction(descending: bool) -> str:
    return "DESC" if descending else "ASC"
