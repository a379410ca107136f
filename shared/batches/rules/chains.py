"""Which unit follows which in a batch that runs at most `concurrency` units at once.

Its units are dealt to so many chains, as cards are to players:

    concurrency 3     chain 0: 0 ─► 3 ─► 6      chain 1: 1 ─► 4 ─► 7      chain 2: 2 ─► 5 ─► 8

The first of each chain is enqueued with its page, each later one by the unit before it, once that has an outcome. So of
a chain one unit at most is under way, and there is no record of who runs that all of them would write.

Retries are in chains too. Those of named units hold their indexes; those of all that failed hold a range of the ids of
units' records, which lie scattered over it (`batch_run.spread`), and look for the next failure there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Self

IDS = 1 << 32
"""The numbers that the eight hexadecimal digits of a unit's record have."""


@dataclass(frozen=True, slots=True)
class FirstRuns:
    """A chain of units that run for the first time: each is followed by the one `concurrency` indexes on."""

    concurrency: int

    def to_record(self) -> dict[str, Any]:
        """Return the chain for a task's envelope."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Retries:
    """A chain of retries: of the units `rest`, or of those behind the record `after` and up to the record `until`.

    Retried is what failed up to `called_at`, in microseconds: so no failure of this very call is retried again.
    """

    call: str
    called_at: int
    payload: Mapping[str, Any]
    rest: tuple[int, ...] | None = None
    after: str = ""
    until: str = ""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_record` returned."""
        rest = record["rest"]
        return cls(**{**record, "rest": None if rest is None else tuple(rest)})

    def to_record(self) -> dict[str, Any]:
        """Return the chain for a task's envelope."""
        return asdict(self) | {"rest": None if self.rest is None else list(self.rest), "payload": dict(self.payload)}

    def shortened(self) -> Self:
        """Return the chain of named units without its first."""
        return replace(self, rest=(self.rest or ())[1:])

    def behind(self, unit_id: str) -> Self:
        """Return the chain behind a unit that was found in its range."""
        return replace(self, after=unit_id)


Chain = FirstRuns | Retries


def chain_of(record: Mapping[str, Any] | None) -> Chain | None:
    """Read the chain of a unit's task; None for a unit of a batch without a limit."""
    if record is None:
        return None
    return FirstRuns(record["concurrency"]) if "concurrency" in record else Retries.from_record(record)


def first_runs(concurrency: int | None) -> FirstRuns | None:
    """Return the chain of the units of a batch."""
    return None if concurrency is None else FirstRuns(concurrency)


def retries_of(chain: Retries, concurrency: int, indexes: Sequence[int]) -> list[Retries]:
    """Deal named units to chains."""
    return [replace(chain, rest=tuple(indexes[at::concurrency])) for at in range(min(concurrency, len(indexes)))]


def retries_in_ranges(chain: Retries, incarnation: str, chains: int) -> list[Retries]:
    """Cut the ids of all units' records into ranges of about as many units."""
    ends = ["", *(f"{end * IDS // chains - 1:08x}" for end in range(1, chains + 1))]
    return [
        replace(chain, after=f"{incarnation}-{after}", until=f"{incarnation}-{until}")
        for after, until in pairwise(ends)
    ]
