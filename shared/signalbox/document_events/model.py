"""An event that is handled in order, and the record of the event that a handler has begun last.

document_events/{name}    one for each handler `in_order` and document: the newest event that was begun
"""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Self

from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass

COLLECTION = "document_events"
BEGUN_AT = "begun_at"
"""The field that the store's expiry policy reads."""


def path_of(function: str, handler: str, document: str) -> str:
    """Return the path of the record of a handler and a document."""
    return f"{COLLECTION}/{name_of(function, handler, document)}"


@dataclass(frozen=True, slots=True)
class OrderedEvent:
    """An event that a handler handles in order: the paths of record and document, the event's id, and its place.

    `each` is whether no event is left out. `after` is the place of the event before, if it is known and the handler
    receives it; an event that `creates` the document may follow a deletion. `skips` is whether the event is left out
    while another one is being handled. A planned time of a schedule is such an event, too.
    """

    path: str
    document: str
    id: str
    place: int | None
    each: bool = False
    after: int | None = None
    skips: bool = False
    creates: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """The newest event of a document that a handler has begun.

    `holder` is the delivery that handles it until `ends_at`, or empty. `handled`: the handler has returned.
    """

    event: str
    place: int
    handled: bool
    holder: str
    ends_at: datetime

    def is_held(self, now: datetime) -> bool:
        """Return whether a delivery may be running the handler."""
        return bool(self.holder) and now < self.ends_at

    def to_record(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        if record is None:
            return None
        return cls(**{part.name: record[part.name] for part in fields(cls)})
