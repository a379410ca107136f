"""List batches, and the units of a batch that have an outcome, in pages."""

from collections.abc import Iterator, Mapping

from signalbox.batches import storage
from signalbox.batches.limits import LIMITS
from signalbox.batches.model.headers import Header, header_of
from signalbox.batches.model.large_values import place_of_batch, stored_result
from signalbox.batches.model.tree import COLLECTION
from signalbox.batches.model.units import UnitRecord
from signalbox.batches.requests import BatchesQuery, UnitsQuery
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import Ports, Query
from signalbox.core.records.queries import Condition
from signalbox.core.surface.paging import with_prefix
from signalbox.payloads.service import content_by_hash


@dataclass(frozen=True, slots=True)
class BatchesPage:
    """The headers of a page of batches by their ids. `more` is the token of the next page as the answer shows it."""

    headers: Mapping[str, Header]
    more: Mapping[str, str]


def find(ports: Ports, request: BatchesQuery) -> BatchesPage:
    """Return a page of the batches, from their headers alone, without those that are being removed."""
    listing = request.listing
    of_state = (Condition(("state",), "==", request.state),) if request.state else ()
    where = (*of_state, *with_prefix(listing.prefix))
    found = ports.store.query(Query(COLLECTION, where, limit=listing.limit, after=listing.after))
    headers = {snapshot.id: header for snapshot in found if (header := header_of(snapshot.data))}
    return BatchesPage(headers, listing.next_page([snapshot.id for snapshot in found]))


@dataclass(frozen=True, slots=True)
class UnitsPage:
    """Units with an outcome, in the order of their indexes; units of the next page may have indexes between these.

    `next_page_token` is empty on the last page.
    """

    units: list[UnitRecord]
    next_page_token: str = ""


def list_units(ports: Ports, batch: str, query: UnitsQuery) -> UnitsPage:
    """Return a page of units with an outcome. Raises `NotFound`."""
    run, _ = storage.read_header(ports, batch)
    found = storage.read_outcomes(ports, run, query.state, query.after)
    listed = [UnitRecord.from_record(read.data) for read in found if read.data is not None]
    is_full = len(listed) == LIMITS.units_listed_max
    by_index = sorted(listed, key=lambda record: record.unit.index)
    return UnitsPage(by_index, str(listed[-1].unit.index) if is_full else "")


def result_by_hash(ports: Ports, batch: str, index: int, sha256: str) -> bytes:
    """Return the JSON of the large result of a unit, if it has this hash.

    Raises `NotFound`, `NoPayload`, `Unavailable`.
    """
    run, _ = storage.read_header(ports, batch)
    [read] = ports.store.read(run.unit_path(index))
    record = None if read.data is None else UnitRecord.from_record(read.data)
    succeeded = record is not None and record.outcome.state == "succeeded"
    stored = [stored_result(record.outcome)] if record and succeeded else []
    return content_by_hash(ports, stored, sha256, place_of_batch(run))


def outcomes_of(ports: Ports, batch: str, query: UnitsQuery) -> Iterator[UnitRecord]:
    """Iterate over all units with an outcome, in the order of their records' ids, with one page of them in memory.

    Raises `NotFound`; while iterating, `Unavailable`.
    """
    run, _ = storage.read_header(ports, batch)
    return storage.iterate_outcomes(ports, run, query.state, query.after)
