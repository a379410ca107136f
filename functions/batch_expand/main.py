"""The kit's own tasks on batches: expand a page, check after the seal, end at the deadline, retry failures, cancel
sub-batches, complete a parent's unit.
"""

from shared.adapters import runtime
from shared.adapters.http.tasks import TaskDelivery, task_entry
from shared.batches.operations.tasks import run_batch_task


@task_entry("batch_expand")
def batch_expand(task: TaskDelivery) -> None:
    run_batch_task(runtime.ports(), task.name, task.payload)
