"""Read the header of a batch that exists."""

from datetime import datetime

from shared.batches.rules.batch_run import BatchRun, header_path
from shared.batches.rules.header import Header, header_of
from shared.core.operations.ports import Ports
from shared.core.rules.problems import NotFound


def read_header(ports: Ports, batch: str) -> tuple[BatchRun, Header]:
    """Return a batch's present run and its header. Raises `NotFound`."""
    run, header, _ = read_header_at(ports, batch)
    return run, header


def read_header_at(ports: Ports, batch: str) -> tuple[BatchRun, Header, datetime]:
    """Return a batch's present run, its header, and the server's time. Raises `NotFound`."""
    [read] = ports.store.read(header_path(batch))
    header = header_of(read.data)
    if header is None:
        raise no_such_batch(batch)
    return BatchRun(batch, header.incarnation), header, read.read_time


def no_such_batch(batch: str) -> NotFound:
    """Return the problem for an id without a batch."""
    return NotFound(f"There is no batch {batch!r}.", field="id")
