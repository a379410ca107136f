"""Run a task of the queue `standings`: fold adjustments, or a page of a walk, a removal or a recount."""

from shared.adapters import runtime
from shared.adapters.http.tasks import TaskDelivery, task_entry
from shared.standings.operations import upkeep


@task_entry("standing_fold")
def standing_fold(task: TaskDelivery) -> None:
    upkeep.run(runtime.ports(), task.name, task.payload)
