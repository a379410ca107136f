"""A task for a page of all documents: what is not as a put would store it now is repaired and counted."""

from shared.adapters import runtime
from shared.adapters.http.tasks import TaskDelivery, task_entry
from shared.links.operations import verification


@task_entry("link_verify")
def link_verify(task: TaskDelivery) -> None:
    verification.follow(runtime.ports(), task.payload)
