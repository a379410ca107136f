"""A task for a page of all documents: it repairs and counts those that differ from what a put would store now."""

from signalbox.adapters.http.task_deliveries import task_entry
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.ports import Ports
from signalbox.links.tasks import verify


@task_entry("link_verify")
def link_verify(ports: Ports, delivered: Delivered[Members]) -> None:
    verify(ports, delivered.payload)
