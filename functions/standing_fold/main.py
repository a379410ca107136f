"""Run a task of the queue `standings`: fold adjustments, or a page of a walk, a removal or a recount."""

from signalbox.adapters.http.task_deliveries import task_entry
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.ports import Ports
from signalbox.standings import tasks


@task_entry("standing_fold")
def standing_fold(ports: Ports, delivered: Delivered[Members]) -> None:
    tasks.run_task(ports, delivered.task, delivered.payload)
