"""How often the platform misbehaves in a simulated world."""

from dataclasses import dataclass

from tests.simulation.lengths import faults


@dataclass(slots=True)
class FaultRates:
    """The probability of each fault at each opportunity, and how many faults a world has `left` in all.

    Few faults a seed keep the trace of a violation short, and let every world come to rest. `refuse_task` is that of a
    task in a world whose installation is incomplete (`PassingRefusals`).
    """

    abort: float = 0.02
    lose_answer: float = 0.03
    kill: float = 0.02
    duplicate: float = 0.1
    without_data: float = 0.03
    delay_event: float = 0.05
    refuse_task: float = 0.2
    left: int = 5

    def __post_init__(self) -> None:
        self.left = faults(self.left)
