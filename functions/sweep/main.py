"""Once a minute: finish what a process that died left behind."""

from contextlib import ExitStack

from shared.adapters import runtime
from shared.adapters.clock import time_budget
from shared.adapters.http.tasks import schedule_entry
from shared.batches.operations import sweep as batch_sweep
from shared.core.operations import outbox
from shared.core.rules.limits import LIMITS
from shared.semaphores.operations import semaphores


@schedule_entry("sweep")
def sweep() -> None:
    with ExitStack() as parts:  # it runs all of them, the last first, whatever one raises
        parts.callback(batch_sweep.sweep, runtime.ports())
        parts.callback(semaphores.sweep, runtime.ports(), time_budget(LIMITS.sweep_part_seconds))
        parts.callback(outbox.sweep, runtime.ports(), time_budget(LIMITS.sweep_part_seconds))
