"""Once a minute: finish what a process that died left behind."""

from contextlib import ExitStack

from shared.adapters import runtime
from shared.adapters.clock import time_budget
from shared.adapters.http.tasks import schedule_entry
from shared.batches.operations import sweep as batch_sweep
from shared.core.operations import outbox
from shared.core.rules.limits import LIMITS
from shared.flows.operations import sweep as flow_sweep
from shared.semaphores.operations import semaphores


@schedule_entry("sweep")
def sweep() -> None:
    budget = time_budget(LIMITS.sweep_part_seconds)
    with ExitStack() as parts:  # it runs all of them, the last first, whatever one raises
        for part in (batch_sweep.sweep, semaphores.sweep, flow_sweep.sweep, outbox.sweep):
            parts.callback(part, runtime.ports(), budget)
