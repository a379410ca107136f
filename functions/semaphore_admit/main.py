"""Run a task of the admit queue: grant permits to waiters, end a wait whose deadline is over, or clean up."""

from shared.adapters import runtime
from shared.adapters.http.tasks import TaskDelivery, task_entry
from shared.semaphores.operations import semaphores


@task_entry("semaphore_admit")
def semaphore_admit(task: TaskDelivery) -> None:
    semaphores.run(runtime.ports(), task.name, task.payload)
