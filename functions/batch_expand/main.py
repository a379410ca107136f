"""Run the kit's own tasks on batches: expand a page, check after the seal, end at the deadline, retry failures, cancel
sub-batches, complete a parent's unit, create the batch that follows. See `signalbox/batches/tasks.py`.
"""

from signalbox.adapters import runtime
from signalbox.adapters.http.task_deliveries import TaskDelivery, task_entry
from signalbox.batches.tasks import run_batch_task


@task_entry("batch_expand")
def batch_expand(task: TaskDelivery) -> None:
    run_batch_task(runtime.ports(), task.name, task.payload)
