"""Which fields have an index, and whether these indexes serve a query.

Firestore keeps an index of each field, for the queries of one collection, unless a setting exempts the field. A setting
of a map also applies to the fields in it, and one of ``*`` to all fields of the collections with a name. The most
specific setting counts. A query of all collections with a name needs a setting that adds such an index.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.records.queries import ID, Condition, Field, Order

ALL = ("*",)
"""The field of a setting for all fields of a collection."""

Use = Literal["ordered", "contains", "of a group"]
"""What an index serves: equalities, ranges and orders; members of lists; the same as the first, in a whole group."""

AUTOMATIC: Collection[Use] = ("ordered", "contains")


@dataclass(frozen=True, slots=True)
class FieldIndexes:
    """The settings: what the indexes of a field serve, by the last name of its collection and the field."""

    settings: Mapping[tuple[str, Field], Collection[Use]]

    def lacking(
        self, collection: str, where: Sequence[Condition], order_by: Sequence[Order], *, group: bool = False
    ) -> Field | None:
        """Return a field whose index a query needs and that has none, or None."""
        name = collection.rpartition("/")[2]
        for field, use in _needed(where, order_by):
            if field != ID and ("of a group" if group else use) not in self._served(name, field):
                return field
        return None

    def _served(self, collection: str, field: Field) -> Collection[Use]:
        for length in range(len(field), 0, -1):
            if (setting := self.settings.get((collection, field[:length]))) is not None:
                return setting
        return self.settings.get((collection, ALL), AUTOMATIC)


def _needed(where: Sequence[Condition], order_by: Sequence[Order]) -> Iterator[tuple[Field, Use]]:
    for condition in where:
        yield condition.field, "contains" if condition.operator == "array_contains" else "ordered"
    for order in order_by:
        yield order.field, "ordered"
