"""The tasks that refresh copies, one page of documents or one document each. See `signalbox/links/tasks.py`."""

from signalbox.adapters.http.task_deliveries import task_entry
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.ports import Ports
from signalbox.links.tasks import run_link_task


@task_entry("link_refresh")
def link_refresh(ports: Ports, delivered: Delivered[Members]) -> None:
    run_link_task(ports, delivered.task, delivered.payload, delivered.executions)
