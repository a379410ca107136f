"""The sub-batch of a unit: the batch that the unit's task returned, whose end is the unit's outcome.

A redelivered task may return another definition, a result, or an error. So the first sub-batch that is sealed is the
unit's work, whatever a later delivery returns. One that was not sealed, since the process that loaded it died, is
sealed if all its pages are there; else its definition is lost, and the next one replaces it. Likewise the batch that
follows another has one id, made from the other's run.
"""

from dataclasses import replace
from itertools import count

from shared.batches.operations import batches, counting, propagation
from shared.batches.rules import ends
from shared.batches.rules.batch_run import BatchRun, header_path
from shared.batches.rules.batch_spec import BatchSpec
from shared.batches.rules.header import REPLACED, header_of, header_of_run
from shared.batches.rules.requests import SealRequest
from shared.batches.rules.units import PlacedUnit
from shared.core.operations.ports import Ports
from shared.core.rules.problems import BatchSealed, OtherBody, PageOutOfOrder


def populate_sub_batch(ports: Ports, unit: PlacedUnit, spec: BatchSpec) -> None:
    """Create and seal a unit's sub-batch, or keep the one that it has. Raises `TooLarge` or `Unavailable`."""
    for number in count():  # one for each start of the unit's task at most
        batch = unit.sub_batch_id(number)
        try:
            reason = batches.populate(ports, batch, spec, unit).status.reason
        except (OtherBody, BatchSealed):
            reason = _seal_or_replace(ports, batch)
        if reason != REPLACED:
            return


def _seal_or_replace(ports: Ports, batch: str) -> str:
    """Seal a sub-batch as its own definition says, or else end it as replaced; return the reason for which it ended."""
    [read] = ports.store.read(header_path(batch))
    header = header_of(read.data)
    if header is None or header.state != "open":
        return header.reason if header else ""
    try:
        return batches.seal(ports, batch, SealRequest(header.first_pages)).reason
    except (PageOutOfOrder, BatchSealed):
        return _replace(ports, BatchRun(batch, header.incarnation))


def _replace(ports: Ports, run: BatchRun) -> str:
    counts = counting.counts(ports, run)
    header = propagation.end(ports, run, lambda header: ends.replacement(header, counts))
    return header.reason if header else ""


def populate_next(ports: Ports, run: BatchRun) -> None:
    """Create the batch that follows one that succeeded; a repeat finishes a call that died.

    What follows a sub-batch completes the parent's unit in its place.
    """
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    if header is not None and header.ended:
        spec = BatchSpec.from_then(header.then)
        batches.populate(
            ports, run.then_id, replace(spec, on_failure=spec.on_failure or header.on_failure), header.parent
        )
