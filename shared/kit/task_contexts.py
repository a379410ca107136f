"""The `TaskContext` of a delivery."""

import time

from shared.adapters.cloud_tasks import DISPATCH_SECONDS_MAX
from shared.adapters.settings import settings
from shared.batches.rules.units import PlacedUnit
from shared.core.rules.task_context import TaskContext
from shared.kit.batch_liveness_cache import is_live
from shared.tasks.rules.attempts import Attempt, RetryLimits, Start


def task_context(attempt: Attempt, start: Start, limits: RetryLimits, received_at: float) -> TaskContext:
    """Return the context of an attempt that was received at a time of this process's monotonic clock."""

    def seconds_left() -> float:
        return received_at + min(settings().timeout_seconds, DISPATCH_SECONDS_MAX) - time.monotonic()

    def cancelled() -> bool:
        unit = attempt.context.get("unit")
        return unit is not None and not is_live(PlacedUnit.from_record(unit))

    return TaskContext(attempt.operation, start.number, limits.attempts_max, attempt.trace, seconds_left, cancelled)
