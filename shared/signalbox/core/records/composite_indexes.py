"""The composite indexes that queries need, and whether the declared ones serve a query.

Firestore scans indexes only. It keeps one for each field automatically, in both directions, and one for each list's
members. Those serve equalities and one ``contains`` on any fields, merged by record, and a range or an order on one
field. A query that sorts by a field and also filters by another needs a composite index: the fields of the equalities
first, in any order and direction, then the sorted fields in the query's order, with all their directions as in the
query or all reversed. Several composite indexes that end in the same sorted fields are merged for equalities. How
merging works with ``in`` is not fully documented, so in that case a single index must serve the query: it is better to
refuse it here than in the cloud only.

Source: Firestore's documentation, "Index types in Cloud Firestore" (merging).
"""

import json
import re
from collections.abc import Collection, Sequence

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.records.queries import _KINDS, ID, INDEX_FIELDS_MAX, INEQUALITIES, Condition, Field, Kind, Order


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
    """A composite index of all collections with this id."""

    collection: str
    fields: tuple[IndexField, ...]

    def __str__(self) -> str:
        words = re.findall("[a-z0-9]+", " ".join((self.collection, *map(str, self.fields))).lower())
        fields = json.dumps(list(map(str, self.fields)), ensure_ascii=False)
        return f"{'-'.join(words)[:63].strip('-')}: {{collection: {self.collection}, fields: {fields}}}"


def parse(collection: str, fields: Sequence[str]) -> Index:
    """Parse an index as the catalogue declares it. Raises `ValueError` with the change to make."""
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
    """Return the index that a query needs and that is not declared, or None. `order_by` is the query's full order."""
    id_ = collection.rpartition("/")[2]
    entered_by = _entered_by(where)
    sorted_by = _sorted_by(where, order_by)
    entered_by -= {IndexField(field.field) for field in sorted_by}
    if not sorted_by or (len(sorted_by) == 1 and not entered_by):
        return None
    fitting = [index.fields for index in declared if index.collection == id_]
    alone = any(condition.operator == "in" for condition in where)
    turned = tuple(IndexField(field.field, _KINDS[field.kind == "ascending"]) for field in sorted_by)
    if any(_serve(fitting, entered_by, wanted, alone) for wanted in (sorted_by, turned)):
        return None
    return Index(id_, (*sorted(entered_by, key=str), *sorted_by))


def _entered_by(where: Sequence[Condition]) -> set[IndexField]:
    """Return the fields by which a query enters an index: fields with an equality, and a list with a ``contains``."""
    equal = {
        IndexField(condition.field)
        for condition in where
        if condition.operator in ("==", "in") and condition.field != ID
    }
    return equal | {
        IndexField(condition.field, "contains") for condition in where if condition.operator == "array_contains"
    }


def _sorted_by(where: Sequence[Condition], order_by: Sequence[Order]) -> tuple[IndexField, ...]:
    """Return the fields to sort by, except fields with an equality and no inequality."""
    unequal = {condition.field for condition in where if condition.operator in INEQUALITIES}
    fixed = {condition.field for condition in where if condition.operator == "=="} - unequal
    return tuple(IndexField(order.field, _KINDS[order.descending]) for order in order_by if order.field not in fixed)


def _serve(
    indexes: Collection[tuple[IndexField, ...]],
    entered_by: set[IndexField],
    sorted_by: tuple[IndexField, ...],
    alone: bool,
) -> bool:
    """Return whether the indexes that end in `sorted_by` together cover all equalities.

    With `alone`, a single index must cover them.
    """
    ending = [fields[: -len(sorted_by)] for fields in indexes if fields[-len(sorted_by) :] == sorted_by]
    entered = [
        {field if field.kind == "contains" else IndexField(field.field) for field in fields} for fields in ending
    ]
    usable = [fields for fields in entered if fields <= entered_by]
    return entered_by in usable or (not alone and bool(usable) and set().union(*usable) == entered_by)
