"""A task for a page of all documents: what is not as a put would store it now is repaired and counted."""

from shared.adapters import runtime
from shared.adapters.web.tasks import Task, task_entry
from shared.operations import verification


@task_entry("link_verify")
def link_verify(task: Task) -> None:
    verification.follow(runtime.ports(), task.payload)
