"""An event that is handled in order, and the record of the event that a handler has begun last.

document_events/{name}    one for each handler `in_order` and document: the newest event that was begun

A scheduled task with a rule for an overlap also has such a record, with the tasks of the planned times that wait.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Self

from signalbox.core.effects import Effect, name_of
from signalbox.core.given import given
from signalbox.core.lazy_dataclasses import dataclass

COLLECTION = "document_events"
BEGUN_AT = "begun_at"
"""The field that the store's expiry policy reads."""

SCHEDULES = "its schedules"
"""The name, in place of a document's, under which a task with a rule for an overlap has its record."""

WAITING_BYTES = 400
"""Bytes of a waiting time in the record, without its arguments and its context."""


def path_of(function: str, handler: str, document: str) -> str:
    """Return the path of the record of a handler and a document."""
    return f"{COLLECTION}/{name_of(function, handler, document)}"


@dataclass(frozen=True, slots=True)
class OrderedEvent:
    """An event that a handler handles in order: the paths of record and document, the event's id, and its place.

    `each` is whether no event is left out. `after` is the place of the event before, if it is known and the handler
    receives it; an event that `creates` the document may follow a deletion. `skips` is whether the event is left out
    while another one is being handled. A planned time of a schedule is also such an event.

    `task` enqueues a planned time again when its turn comes, if it must wait, and `turn` is the number of that turn. An
    event has none: it is delivered until its turn.
    """

    path: str
    document: str
    id: str
    place: int | None
    each: bool = False
    after: int | None = None
    skips: bool = False
    creates: bool = False
    task: Effect | None = None
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A planned time that waits for its turn, with the task that enqueues it again.

    `turn` is the number of the turn for which the task is enqueued: one more than that of the task that it follows.
    """

    event: str
    place: int
    task: Effect
    turn: int

    @property
    def order(self) -> tuple[int, str]:
        """The key by which waiting times are sorted, oldest first. Several schedules of a task may have equal times."""
        return self.place, self.event

    @property
    def size_bytes(self) -> int:
        """About the number of bytes in the record."""
        return len(json.dumps([self.task.payload, self.task.context])) + WAITING_BYTES

    def to_record(self) -> dict[str, Any]:
        return {"event": self.event, "place": self.place, "task": self.task.to_record(), "turn": self.turn}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["event"], record["place"], Effect.from_record(record["task"]), record["turn"])


@dataclass(frozen=True, slots=True)
class Ended:
    """A planned time that has ended or was left out, and when: if it was begun, the time to which its hold lasted."""

    event: str
    at: datetime

    def to_record(self) -> dict[str, Any]:
        return {"event": self.event, "at": self.at}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["event"], record["at"])


@dataclass(frozen=True, slots=True)
class Begun:
    """The newest event of a document that a handler has begun.

    `holder` is the delivery that handles it until `ends_at`, or empty. `handled`: the handler has returned. `waiting`
    are the planned times that wait, oldest first, and `ended` are those that have ended last.
    """

    event: str
    place: int
    handled: bool
    holder: str
    ends_at: datetime
    waiting: tuple[Waiting, ...] = ()
    ended: tuple[Ended, ...] = ()

    def is_held(self, now: datetime) -> bool:
        """Return whether a delivery may be running the handler."""
        return bool(self.holder) and now < self.ends_at

    def to_record(self) -> dict[str, Any]:
        record = {name: getattr(self, name) for name in self.__slots__}
        lists = {name: [each.to_record() for each in record.pop(name)] or None for name in ("waiting", "ended")}
        return record | given(**lists)

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        if record is None:
            return None
        waiting = tuple(map(Waiting.from_record, record.get("waiting", ())))
        ended = tuple(map(Ended.from_record, record.get("ended", ())))
        rest = {part.name: record[part.name] for part in fields(cls) if part.name not in ("waiting", "ended")}
        return cls(**rest, waiting=waiting, ended=ended)
