"""A task for a page of all documents: it repairs and counts those that differ from what a put would store now."""

from signalbox.adapters import runtime
from signalbox.adapters.http.task_deliveries import TaskDelivery, task_entry
from signalbox.links.tasks import verify


@task_entry("link_verify")
def link_verify(task: TaskDelivery) -> None:
    verify(runtime.ports(), task.payload)
