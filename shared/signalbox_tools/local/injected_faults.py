"""Fault injection for queues and events: rare behaviour of Cloud Tasks and Eventarc becomes frequent.

Written ``twice=0.1,late=0.1,reorder=0.1,lose_answers=0.05,seed=7``: each a probability from 0 to 1. A seed makes the
draws repeatable; which delivery gets which draw still depends on timing.
"""

import random
from dataclasses import dataclass, field

LATE_SECONDS_MAX = 3.0
REORDER_SECONDS_MAX = 0.3
TWICE_SECONDS_MAX = 1.0

FAULTS = ("twice", "late", "reorder", "lose_answers")


@dataclass(frozen=True, slots=True)
class Chaos:
    """The probability of each fault.

    - `twice`: deliver once more (a task up to one second after its first delivery began, even if that has ended).
    - `late`: delay a delivery by up to 3 s.
    - `reorder`: delay a delivery by up to 0.3 s, behind its neighbours.
    - `lose_answers`: drop a worker's success response, so that the delivery is repeated, or the response to a
      CreateTask that was carried out.
    """

    twice: float = 0.0
    late: float = 0.0
    reorder: float = 0.0
    lose_answers: float = 0.0
    draw: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in FAULTS:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability from 0 to 1")

    def delay_seconds(self) -> float:
        """Draw the delay of a delivery."""
        late = self._happens(self.late) and self.draw.uniform(0, LATE_SECONDS_MAX)
        behind = self._happens(self.reorder) and self.draw.uniform(0, REORDER_SECONDS_MAX)
        return float(late + behind)

    def second_delivery_seconds(self) -> float | None:
        """Return the seconds until a delivery is repeated, or None if it is not."""
        return self.draw.uniform(0, TWICE_SECONDS_MAX) if self._happens(self.twice) else None

    def loses_answer(self) -> bool:
        """Draw whether a response is lost."""
        return self._happens(self.lose_answers)

    def delivers_again(self) -> bool:
        """Draw whether an event that succeeded is delivered once more, as after a lost response."""
        return self._happens(self.twice) or self._happens(self.lose_answers)

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self.draw.random() < probability


def parse(text: str) -> Chaos:
    """Parse the text form, which is empty for no faults.

    Raises `ValueError` for an unknown fault or an invalid probability.
    """
    values = dict(part.strip().partition("=")[::2] for part in text.split(",") if part.strip())
    seed = values.pop("seed", None)
    unknown = sorted(values.keys() - set(FAULTS))
    if unknown:
        raise ValueError(f"unknown fault {unknown[0]!r}: choose from {', '.join(FAULTS)}, seed")
    draw = random.Random(int(seed) if seed is not None else None)  # noqa: S311  faults, not secrets
    return Chaos(**{name: float(value) for name, value in values.items()}, draw=draw)
