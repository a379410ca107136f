"""Faults on demand, from a text such as ``twice=0.1,late=0.05,seed=7``: what the cloud does seldom, done often.

Each number but the seed is the share of deliveries that it happens to.
"""

from dataclasses import dataclass, field, fields
from random import Random

LATE_SECONDS_MAX = 3.0
REORDER_SECONDS_MAX = 0.3


@dataclass(frozen=True, slots=True)
class Chaos:
    """Shares from 0 to 1: delivered twice, late, out of order, or delivered with the answer lost."""

    twice: float = 0.0
    late: float = 0.0
    reorder: float = 0.0
    lose_answers: float = 0.0
    seed: int = 0
    draws: Random = field(default_factory=Random, repr=False, compare=False)

    def delay_seconds(self) -> float:
        """Draw how long to hold an event back before its first delivery."""
        held_back = LATE_SECONDS_MAX if self._happens(self.late) else 0.0
        shuffled = REORDER_SECONDS_MAX if self._happens(self.reorder) else 0.0
        return self.draws.uniform(0, held_back) + self.draws.uniform(0, shuffled)

    def delivers_again(self) -> bool:
        """Draw whether an event that was delivered is delivered once more, as if nobody had heard the answer."""
        return self._happens(self.twice) or self._happens(self.lose_answers)

    def _happens(self, share: float) -> bool:
        return share > 0 and self.draws.random() < share


def chaos(text: str) -> Chaos:
    """Read the text; empty is no chaos. Raises `ValueError` with what is wrong."""
    shares: dict[str, float] = {}
    known = {entry.name for entry in fields(Chaos)} - {"draws"}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        if name not in known:
            raise ValueError(f"chaos {name!r} is unknown; choose from {', '.join(sorted(known))}")
        shares[name] = float(value)
        if name != "seed" and not 0 <= shares[name] <= 1:
            raise ValueError(f"chaos {name} is a share from 0 to 1, not {value}")
    seed = int(shares.pop("seed", 0))
    return Chaos(**shares, seed=seed, draws=Random(seed or None))  # noqa: S311 (faults, not secrets)
