"""Conditions and orders of a query in Firestore's terms.

Firestore orders an inequality by its own field, so fields with inequalities are an implied part of the order.
Source: Firestore's documentation, "Query with range and inequality filters on multiple fields".
"""

from collections.abc import Sequence
from typing import Any, Literal

from signalbox.core.lazy_dataclasses import dataclass

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "array_contains"]

Field = tuple[str, ...]

ID: Field = ("__name__",)
"""Firestore's name for the id of a record."""


INEQUALITIES = frozenset(("!=", "<", "<=", ">", ">="))


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a field, given as its path of names."""

    field: Field
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class Order:
    """One field to order by."""

    field: Field
    descending: bool = False


def with_implied(named: tuple[Order, ...], conditions: Sequence[Condition]) -> tuple[Order, ...]:
    """Return the order plus the fields of inequalities, as Firestore does: a cursor needs a value for each field."""
    unequal = {condition.field for condition in conditions if condition.operator in INEQUALITIES}
    if not unequal:
        return named
    descending = bool(named) and named[-1].descending
    implied = sorted(unequal - {order.field for order in named} - {ID})
    return (*named, *(Order(field, descending) for field in implied))


Kind = Literal["ascending", "descending", "contains"]

ALTERNATIVES_MAX = 30
"""Alternatives of all `in` conditions of a query together: Firestore's limit."""

INDEX_FIELDS_MAX = 100
"""Fields of one index: Firestore's limit."""


_KINDS: dict[bool, Kind] = {False: "ascending", True: "descending"}
