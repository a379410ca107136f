"""Once a minute: finish what a process that died left behind."""

from shared.adapters import runtime
from shared.adapters.web.tasks import schedule_entry
from shared.operations import batches, outbox, semaphores


@schedule_entry("sweep")
def sweep() -> None:
    outbox.sweep(runtime.ports())
    semaphores.sweep(runtime.ports())
    batches.sweep(runtime.ports())
