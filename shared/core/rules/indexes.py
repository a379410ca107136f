"""Which queries Firestore serves from its automatic indexes, and which need a composite index to be declared.

Firestore scans indexes only. By itself it keeps one for each field, in both directions, and one for each list's
members. Those serve equalities and one ``contains`` on any fields, merged by record, and a range or an order on
one field. Whatever sorts by a field and also filters by another needs a composite index: the fields of the equalities
first, in any order and direction, then the sorted ones in the query's order, with all their directions as in the query
or all turned round. Several composite indexes that end in the same sorted fields are merged for equalities. What
merging does with ``in`` is not documented in full, so there one index must serve alone: better refused here than in the
cloud only.

Source: Firestore's documentation, "Index types in Cloud Firestore" (merging) and "Query with range and inequality
filters on multiple fields"; the implied order is `queries.with_implied`.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from shared.core.rules.queries import ID, INEQUALITIES, Condition, Field, Order

Kind = Literal["ascending", "descending", "contains"]

INDEX_FIELDS_MAX = 100
"""Of one index: Firestore's bound."""

_KINDS: dict[bool, Kind] = {False: "ascending", True: "descending"}


@dataclass(frozen=True, slots=True)
class IndexField:
    """One field of an index. Written ``name``, ``-name`` (descending) or ``name[]`` (a list's members)."""

    field: Field
    kind: Kind = "ascending"

    def __str__(self) -> str:
        sign, brackets = "-" * (self.kind == "descending"), "[]" * (self.kind == "contains")
        return sign + ".".join(self.field) + brackets


@dataclass(frozen=True, slots=True)
class Index:
    """A composite index of the collections with this id, wherever they lie."""

    collection: str
    fields: tuple[IndexField, ...]

    def __str__(self) -> str:
        words = re.findall("[a-z0-9]+", " ".join((self.collection, *map(str, self.fields))).lower())
        fields = json.dumps(list(map(str, self.fields)), ensure_ascii=False)
        return f"{'-'.join(words)[:63].strip('-')}: {{collection: {self.collection}, fields: {fields}}}"


def parse(collection: str, fields: Sequence[str]) -> Index:
    """Parse an index as the catalogue declares it. Raises `ValueError` with what to change."""
    index = Index(collection, tuple(map(_field, fields)))
    if not 2 <= len(fields) <= INDEX_FIELDS_MAX:
        raise ValueError(f"an index has 2 to {INDEX_FIELDS_MAX} fields: Firestore keeps those of one field by itself")
    if [field.kind for field in index.fields].count("contains") > 1:
        raise ValueError("an index has one field with []")
    if len(set(index.fields)) < len(index.fields):
        raise ValueError("an index names a field once")
    return index


def _field(text: str) -> IndexField:
    field = tuple(text.removeprefix("-").removesuffix("[]").split("."))
    if not all(field) or (text.startswith("-") and text.endswith("[]")):
        raise ValueError(f"fields is {text!r}; write name.name, -name.name (descending) or name.name[] (contains)")
    return IndexField(field, "contains" if text.endswith("[]") else _KINDS[text.startswith("-")])


def lacking(
    collection: str, where: Sequence[Condition], order_by: Sequence[Order], declared: Collection[Index] = ()
) -> Index | None:
    """Return the index that a query needs and that is not declared, or None. `order_by` is the full order."""
    id_ = collection.rpartition("/")[2]
    asked = _asked(where)
    ranked = _ranked(where, order_by)
    asked -= {IndexField(field.field) for field in ranked}
    if not ranked or (len(ranked) == 1 and not asked):
        return None
    fitting = [index.fields for index in declared if index.collection == id_]
    alone = any(one.operator == "in" for one in where)
    if any(_serve(fitting, asked, wanted, alone) for wanted in (ranked, tuple(map(_turned, ranked)))):
        return None
    return Index(id_, (*sorted(asked, key=str), *ranked))


def _asked(where: Sequence[Condition]) -> set[IndexField]:
    """List what an index is entered by: fields that must equal something, and a list that must contain it."""
    equal = {IndexField(one.field) for one in where if one.operator in ("==", "in") and one.field != ID}
    return equal | {IndexField(one.field, "contains") for one in where if one.operator == "array_contains"}


def _ranked(where: Sequence[Condition], order_by: Sequence[Order]) -> tuple[IndexField, ...]:
    """List the sorted fields; one that must equal a single value sorts nothing, unless it is also compared by size."""
    unequal = {one.field for one in where if one.operator in INEQUALITIES}
    fixed = {one.field for one in where if one.operator == "=="} - unequal
    return tuple(IndexField(order.field, _KINDS[order.descending]) for order in order_by if order.field not in fixed)


def _turned(field: IndexField) -> IndexField:
    return IndexField(field.field, _KINDS[field.kind == "ascending"])


def _serve(
    indexes: Collection[tuple[IndexField, ...]],
    asked: set[IndexField],
    ranked: tuple[IndexField, ...],
    alone: bool,
) -> bool:
    """Return whether indexes that end in `ranked` cover all equalities, merged or each `alone`."""
    ending = [fields[: -len(ranked)] for fields in indexes if fields[-len(ranked) :] == ranked]
    entered = [{_undirected(field) for field in fields} for fields in ending]
    usable = [fields for fields in entered if fields <= asked]
    return asked in usable or (not alone and bool(usable) and set().union(*usable) == asked)


def _undirected(field: IndexField) -> IndexField:
    return field if field.kind == "contains" else IndexField(field.field)
