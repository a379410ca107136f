"""A lane: the waits of one key and one priority.

A wait may name a key (a tenant, a user) and a priority. A wait with neither is in the plain lane, whose waiters have
the records of a semaphore without lanes. A waiter of another lane has `lane` and, instead of `since`, the map `places`
with one field that is named after its lane: a query ordered by that field finds the queue of this lane. While there are
such waiters, `lanes` in the semaphore's record lists the lanes (`machine/lanes.py`); then the mode is `closed`, and
each lane has its own mode.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, Self

from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.semaphores.model.known_head import NOTHING_KNOWN, KnownHead

Mode = Literal["open", "opening", "closed"]

PLAIN = ""
"""The lane of waits without a key, with the normal priority."""


def lane_id(key: str, priority: str) -> str:
    """Return the lane that one key and priority use alone."""
    return PLAIN if (key, priority) == ("", "normal") else f"{priority}:{key}"


def shared_lane_id(number: int, priority: str) -> str:
    """Return a lane that several keys share, because the semaphore's record has no room for their own lanes."""
    return f"{priority}#{number}"


def place_field(lane: str) -> str:
    """Return the field of the map `places` that orders the waiters of a lane."""
    return f"s{name_of('lane', lane)[:24]}"


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane in the semaphore's record. The free permits go to the lane with the least tag, which then grows.

    Tags count from the tag of the lane that was served last. `mode` is the mode of this lane's queue: `open` if the
    queue is empty. A lane with an empty queue is kept for its tag only.

    `keys` are the keys of a shared lane that have been given a weight while they may have had waits here: they stay
    until the queue is empty, so that a later wait of a key does not overtake an earlier one.
    """

    id: str
    tag: int = 0
    mode: Mode = "closed"
    known: KnownHead = field(default=NOTHING_KNOWN, compare=False)
    keys: tuple[str, ...] = ()

    @property
    def priority(self) -> str:
        """The priority of the lane's waits."""
        return self.id.partition(":")[0].partition("#")[0] or "normal"

    @property
    def key(self) -> str | None:
        """The key of the lane's waits; None if several keys share the lane."""
        return None if "#" in self.id.partition(":")[0] else self.id.partition(":")[2]

    def to_record(self) -> dict[str, Any]:
        keys = {"keys": list(self.keys)} if self.keys else {}
        return {"id": self.id, "tag": self.tag, "mode": self.mode, **self.known.to_record(), **keys}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        known, keys = KnownHead.from_record(record), tuple(record.get("keys", ()))
        return cls(record["id"], record["tag"], record["mode"], known, keys)
