"""Run the internal tasks of batches: expand a page, check after the seal, end at the deadline, retry failures, cancel
sub-batches, complete a parent's unit, create the batch that follows. See `signalbox/batches/tasks.py`.
"""

from signalbox.adapters.deployed_catalogue import read_parameters
from signalbox.adapters.http.task_deliveries import task_entry
from signalbox.batches.tasks import run_batch_task
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.ports import Ports


@task_entry("batch_expand")
def batch_expand(ports: Ports, delivered: Delivered[Members]) -> None:
    read_parameters()  # the end of a batch may notify a user's function
    run_batch_task(ports, delivered.task, delivered.payload)
