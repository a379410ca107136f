"""How often the platform and the users' code fail in a simulated world."""

from dataclasses import dataclass

from tests.simulation.lengths import faults

STEP_FAILS_RATE, STEP_FAILS_OFTEN_RATE, STEP_ERROR_PASSES_RATE = 0.25, 0.7, 0.1
"""The shares of the runs of a flow's step that fail, in most worlds and in those of retries, and whose error passes."""

INLINE_STEP_FAILS_RATE, INLINE_STEP_RAISES_RATE = 0.2, 0.1
"""The shares of the runs of an inline step that fail, and that raise another error than a `Problem`."""

ARCHIVE_FAILS_RATE = 0.4
"""The share of a flow's archives that cannot be written at once."""

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
