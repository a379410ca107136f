"""The cost of a step, as the functions counted it, at Google's list prices.

Pure. The counts come from the line that every function logs for each handled call. A killed function has not logged the
calls in progress, so the counts of such a run are slightly low.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

DOLLARS_PER_READ = 0.06 / 100_000
DOLLARS_PER_WRITE = 0.18 / 100_000
DOLLARS_PER_DELETE = 0.02 / 100_000
DOLLARS_PER_TASK_OPERATION = 0.40 / 1_000_000
"""List prices: Firestore in a multi-region (a region takes about half), Cloud Tasks beyond the free million a month."""

OPERATIONS_PER_TASK = 2
"""Cloud Tasks bills a task's creation and each delivery."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Firestore's billed reads, writes and deletes; tasks created; events delivered."""

    reads: int = 0
    writes: int = 0
    deletes: int = 0
    tasks: int = 0
    events: int = 0

    @classmethod
    def of(cls, values: Mapping[str, int]) -> Self:
        """Read the counts from a mapping that may hold more."""
        return cls(**{field.name: values.get(field.name, 0) for field in fields(cls)})

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Counts)))

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, field.name) - getattr(other, field.name) for field in fields(Counts)))

    @property
    def price_dollars(self) -> float:
        """Estimate its price at list prices, without the free tiers and the functions' own computing time."""
        firestore = self.reads * DOLLARS_PER_READ + self.writes * DOLLARS_PER_WRITE + self.deletes * DOLLARS_PER_DELETE
        return firestore + self.tasks * OPERATIONS_PER_TASK * DOLLARS_PER_TASK_OPERATION


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds and counts: a reading of a clock and of the counters, or the difference of two readings."""

    seconds: float = 0.0
    counts: Counts = Counts()

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.seconds + other.seconds, self.counts + other.counts)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.seconds - other.seconds, self.counts - other.counts)
