"""Run the tasks of the `admit` queue: those of semaphores and rates, and the wake tasks of critical sections."""

from signalbox.adapters.http.task_deliveries import task_entry
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.ports import Ports
from signalbox.core.records.formats import check_known
from signalbox.critical_sections import tasks as critical_sections_tasks
from signalbox.rates import tasks as rates_tasks
from signalbox.semaphores import tasks as semaphores_tasks

TASKS = {**semaphores_tasks.TASKS, **critical_sections_tasks.TASKS, **rates_tasks.TASKS}


@task_entry("semaphore_admit")
def semaphore_admit(ports: Ports, delivered: Delivered[Members]) -> None:
    check_known("semaphore_admit", delivered.task, TASKS)
    TASKS[delivered.task](ports, delivered.payload)
