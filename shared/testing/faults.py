"""Faults of deliveries that Cloud Tasks and Eventarc document."""

from dataclasses import dataclass, field
from random import Random


@dataclass(slots=True)
class Faults:
    """Shares of deliveries, from 0 to 1, that a run meets with; the same `seed` makes the same choices.

    - duplicate: it is delivered twice.
    - late: it comes `late_seconds` after it is due.
    - lose_answer: the function has run, but its answer gets lost, so that it is delivered again.
    - unavailable: it is answered with 503 before the function runs, and delivered again.
    - reorder: anything due may come next, not the oldest.

    A task is late, loses an answer and meets a 503 at most once each, so every run ends.

        harness.run(Faults(duplicate=0.3, lose_answer=0.1, reorder=True, seed=7))
    """

    duplicate: float = 0
    late: float = 0
    lose_answer: float = 0
    unavailable: float = 0
    reorder: bool = False
    late_seconds: float = 3600
    seed: int = 0
    _random: Random = field(init=False, repr=False)
    _met: set[tuple[str, str]] = field(init=False, repr=False, default_factory=set)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311  choices that a seed repeats, no secrets

    def duplicates(self) -> bool:
        """Return whether this delivery happens twice."""
        return self._random.random() < self.duplicate

    def once(self, kind: str, name: str) -> bool:
        """Return whether the fault of this kind (a field's name) happens now to the task `name`."""
        happens = self._random.random() < getattr(self, kind) and (kind, name) not in self._met
        if happens:
            self._met.add((kind, name))
        return happens

    def index(self, count: int) -> int:
        """Return which of so many comes next."""
        return self._random.randrange(count) if self.reorder else 0
