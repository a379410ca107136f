"""Seal, show and cancel a batch."""

from signalbox.batches import storage
from signalbox.batches.machine import lifecycle
from signalbox.batches.model.headers import BatchStatus, Counts, Header, header_of_run, then_id
from signalbox.batches.model.pages import EndMark, loaded
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.requests import SealRequest
from signalbox.batches.service import propagation
from signalbox.core.effects import Decision
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Must, Ports, Put, Snapshot


def seal(ports: Ports, batch: str, request: SealRequest) -> BatchStatus:
    """Close a batch at this number of pages. Raises `PageOutOfOrder` or `BatchSealed`, or `NotFound`.

    The commit writes the end mark under the next page's number, and contains a task, the check, which propagates the
    nodes that were full before the seal. A batch without units completes here.
    """
    run, _ = storage.read_header(ports, batch)
    pages = request.pages
    paths = [run.header_path, run.page_path(pages), *([run.page_path(pages - 1)] if pages else [])]

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Header]:
        header = header_of_run(read[0].data, run)
        if header is None:
            raise storage.no_such_batch(batch)
        return seal_writes(run, header, read, pages)

    header, _ = perform(ports, paths, decide)
    return status_of(ports, run, header)


def seal_writes(run: BatchRun, header: Header, read: tuple[Snapshot, ...], pages: int) -> Decision[Writes, Header]:
    """Return the writes that seal a batch after `pages` pages: its header, the end mark and the completion record."""
    end, last = loaded(read[1].data), loaded(read[-1].data)
    decided = lifecycle.seal(run, header, pages, end, last, read[0].read_time)
    if decided.state == header:
        return Decision((), header)
    mark = Put(run.page_path(pages), EndMark().to_record(), Must.NOT_EXIST)
    ends = storage.completion_writes(decided.effects, read[0].read_time)
    writes = (Put(run.header_path, decided.state.to_record(), read[0].guard), mark, *ends)
    return Decision(writes, decided.state, decided.effects)


def get(ports: Ports, batch: str) -> BatchStatus:
    """Return the status of a batch. Raises `NotFound`."""
    return status_of(ports, *storage.read_header(ports, batch))


def status_of(ports: Ports, run: BatchRun, header: Header) -> BatchStatus:
    """Return the status of a run, with the present counts, or those of its end if it has ended."""
    if header.ended:
        return BatchStatus.of_ended(run.batch, header)
    if header.size is not None:
        page_count, size = header.pages, header.size
    else:
        page_count, size = storage.count_loaded(ports, run)
    counts = storage.read_counts_of(ports, run, size) if size else Counts(0, 0, 0)
    follows = then_id(run.batch, header)
    return BatchStatus(run.batch, header.state, counts, page_count, then=follows, task=header.settings.task)


def cancel(ports: Ports, batch: str) -> BatchStatus:
    """End a batch and its sub-batches, so that units that have not started do not run. Raises `NotFound`."""
    run, _ = storage.read_header(ports, batch)
    counts = storage.read_counts(ports, run)
    header = propagation.end_batch(ports, run, lambda header, now: lifecycle.cancel(run, header, counts, now))
    if header is None:
        raise storage.no_such_batch(batch)
    return status_of(ports, run, header)
