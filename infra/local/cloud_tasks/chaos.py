"""Faults on demand: what Cloud Tasks may do to anybody, as often as wanted.

Written `twice=0.1,late=0.1,reorder=0.1,lose_answers=0.05,seed=7`: each a probability from 0 to 1. A seed makes the
draws repeatable; which task gets which draw still depends on timing.
"""

import random
from dataclasses import dataclass, field

LATE_SECONDS_MAX = 3.0
REORDER_SECONDS_MAX = 0.3
TWICE_SECONDS_MAX = 1.0

FAULTS = ("twice", "late", "reorder", "lose_answers")


@dataclass(frozen=True, slots=True)
class Chaos:
    """How often which fault happens.

    twice: a task is delivered once more, up to a second after its delivery began (also when it is done by then).
    late: a delivery comes up to 3 s after its time. reorder: a delivery is put behind its neighbours, up to 0.3 s.
    lose_answers: a worker's success goes unheard, so that the task comes again; or a created task is not acknowledged.
    """

    twice: float = 0.0
    late: float = 0.0
    reorder: float = 0.0
    lose_answers: float = 0.0
    draw: random.Random = field(default_factory=random.Random, compare=False)

    def __post_init__(self) -> None:
        for name in FAULTS:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability from 0 to 1")

    def delay_seconds(self) -> float:
        """Draw what is added to a task's time."""
        late = self._happens(self.late) and self.draw.uniform(0, LATE_SECONDS_MAX)
        behind = self._happens(self.reorder) and self.draw.uniform(0, REORDER_SECONDS_MAX)
        return float(late + behind)

    def second_delivery_seconds(self) -> float | None:
        """Draw whether a task is delivered once more, and how long after."""
        return self.draw.uniform(0, TWICE_SECONDS_MAX) if self._happens(self.twice) else None

    def loses_answer(self) -> bool:
        return self._happens(self.lose_answers)

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self.draw.random() < probability


def parse(text: str) -> Chaos:
    """Read the text form; an empty text means no faults. Raises `ValueError` for what it does not know."""
    values = dict(part.strip().partition("=")[::2] for part in text.split(",") if part.strip())
    seed = values.pop("seed", None)
    unknown = sorted(values.keys() - set(FAULTS))
    if unknown:
        raise ValueError(f"unknown fault {unknown[0]!r}: choose from {', '.join(FAULTS)}, seed")
    draw = random.Random(int(seed) if seed is not None else None)  # noqa: S311  faults, not secrets
    return Chaos(**{name: float(value) for name, value in values.items()}, draw=draw)
