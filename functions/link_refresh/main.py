"""The tasks that refresh copies, one page of documents or one document each. See `signalbox/links/tasks.py`."""

from signalbox.adapters import runtime
from signalbox.adapters.http.task_deliveries import TaskDelivery, task_entry
from signalbox.links.tasks import run_link_task


@task_entry("link_refresh")
def link_refresh(task: TaskDelivery) -> None:
    run_link_task(runtime.ports(), task.name, task.payload)
