"""A task for a page of the documents that embed a key: their copies of it become what it is now."""

from shared.adapters import runtime
from shared.adapters.http.tasks import TaskDelivery, task_entry
from shared.links.operations import fan_out as links


@task_entry("link_refresh")
def link_refresh(task: TaskDelivery) -> None:
    links.follow(runtime.ports(), task.payload)
