"""A task for a page of all documents: those that differ from what a put would store now are repaired and counted."""

from shared.adapters import runtime
from shared.adapters.http.tasks import TaskDelivery, task_entry
from shared.links.operations.verification import run_verification_task


@task_entry("link_verify")
def link_verify(task: TaskDelivery) -> None:
    run_verification_task(runtime.ports(), task.payload)
