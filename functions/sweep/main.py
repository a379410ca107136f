"""Once a minute: finish what a process that died left behind."""

from shared.adapters import runtime
from shared.adapters.http.tasks import schedule_entry
from shared.batches.operations import sweep as batch_sweep
from shared.core.operations import outbox
from shared.semaphores.operations import semaphores


@schedule_entry("sweep")
def sweep() -> None:
    outbox.sweep(runtime.ports())
    semaphores.sweep(runtime.ports())
    batch_sweep.sweep(runtime.ports())
