"""Where a flow's code is in its log: the time, random numbers and patches there, the same in every replay."""

from dataclasses import dataclass, field
from datetime import datetime

from shared.core.rules.effects import name_of
from shared.core.rules.times import EPOCH

HEX_DIGITS = 13
"""Of a random number: 52 bits."""


@dataclass(eq=False, slots=True)
class Position:
    """The position `number`, of which the start is 1 and each entry of the log one more.

    `seed` is the life's; `known` is how many positions earlier commits hold; `patches` are the positions from which
    each patch holds, by name. `at` is the server's time there, None if nobody has read it; `needs_time`: it was missed.
    """

    seed: str = ""
    known: int = 0
    patches: dict[str, int] = field(default_factory=dict)
    number: int = 0
    at: datetime | None = None
    needs_time: bool = False
    draws: int = 0

    def advance(self, at: datetime | None) -> None:
        """Go on to the next position."""
        self.number += 1
        self.at, self.draws = at, 0

    def time(self) -> datetime:
        """Return the time of what the code was told last."""
        if self.at is None:
            self.needs_time = True
        return self.at or EPOCH

    def random(self) -> float:
        """Return a number from 0 to 1, the same in every replay."""
        return int(self.draw()[:HEX_DIGITS], 16) / float(16**HEX_DIGITS)

    def draw(self) -> str:
        """Return random hexadecimal digits, the same in every replay."""
        self.draws += 1
        return name_of("random", self.seed, self.number, self.draws)

    def patched(self, name: str) -> bool:
        """Return whether new code may be taken here: from the first position on that was new when it was met first."""
        if name not in self.patches and self.number > self.known:
            self.patches[name] = self.number
        return self.number >= self.patches.get(name, self.number + 1)
