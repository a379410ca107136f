"""A task for a page of the documents that embed a key: their copies of it are refreshed."""

from shared.adapters import runtime
from shared.adapters.http.tasks import TaskDelivery, task_entry
from shared.links.operations.fan_out import run_link_task


@task_entry("link_refresh")
def link_refresh(task: TaskDelivery) -> None:
    run_link_task(runtime.ports(), task.payload)
