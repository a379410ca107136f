"""How often the platform and the users' code fail in a simulated world."""

from dataclasses import dataclass

from tests.simulation.world_lengths import faults

STEP_FAILS_RATE, STEP_FAILS_OFTEN_RATE, STEP_ERROR_PASSES_RATE = 0.25, 0.7, 0.1
"""The shares of a flow step's runs that fail (in most worlds, and in those of retries) or raise a transient error."""

INLINE_STEP_FAILS_RATE, INLINE_STEP_RAISES_RATE = 0.2, 0.1
"""The shares of an inline step's runs that raise a `Problem`, and that raise another error."""

ARCHIVE_FAILS_RATE = 0.4
"""The share of attempts to write a flow's archive that fail."""

TRANSACTION_FAILS_RATE, ENQUEUE_FAILS_RATE = 0.4, 0.3
"""The shares of transactions, and of tasks that enqueue others, whose code fails after its calls."""


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
