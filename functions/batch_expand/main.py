"""The kit's own tasks on batches: expand a page into its units' tasks, check after the seal, retry, end a sub-batch."""

from shared.adapters import runtime
from shared.adapters.http.tasks import TaskDelivery, task_entry
from shared.batches.operations import batches


@task_entry("batch_expand")
def batch_expand(task: TaskDelivery) -> None:
    batches.follow(runtime.ports(), task.name, task.payload)
