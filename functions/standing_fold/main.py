"""Run a task of the queue `standings`: fold adjustments, or a page of a walk, a removal or a recount."""

from signalbox.adapters import runtime
from signalbox.adapters.http.task_deliveries import TaskDelivery, task_entry
from signalbox.standings import tasks


@task_entry("standing_fold")
def standing_fold(task: TaskDelivery) -> None:
    tasks.run_task(runtime.ports(), task.name, task.payload)
