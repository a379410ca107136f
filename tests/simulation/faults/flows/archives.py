"""Planted faults of what becomes of a run after its end: its retention and its archive (flow-37, flow-38)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.core.ports import Change, Must, Ports, Snapshot
from signalbox.core.problems import Unavailable
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.retention import AS_LONG_AS_NEEDED
from signalbox.flows.storage import listings
from signalbox.flows.storage.commits import header_of
from signalbox.flows.storage.listings import DUE_AT, archive_due_at
from signalbox.flows.storage.log import read_log
from signalbox.flows.tasks.archives import WriteRows, rows_of
from signalbox.mailboxes.model.messages import header_path
from tests.simulation.faults.flows.planting import in_flows
from tests.simulation.faults.points import original

archive = original("flows.archive")
name_of_archive = original("flows.FlowHeader.archive")


def _as_all_others(header: FlowHeader) -> datetime:
    assert header.end is not None
    return header.end.at + AS_LONG_AS_NEEDED.time


def _noted_before(ports: Ports, payload: Mapping[str, Any], write: WriteRows) -> None:
    """Note an archive, and then write it."""
    address = FlowAddress.of_base(payload["flow"])
    [read] = ports.store.read(header_path(address.base))
    header = header_of(read, address)
    if header is None or header.incarnation != payload["run"] or not header.archive:
        return
    entries = read_log(ports.store, header).entries
    ports.store.commit(listings.archived_writes(read, header))
    try:
        write(header.archive, rows_of(read, header, entries))
    except OSError as error:
        raise Unavailable("the storage failed") from error


def _whatever_happens(ports: Ports, payload: Mapping[str, Any], write: WriteRows) -> None:
    """Take a failed write for a success."""

    def written(name: str, rows: Any) -> None:
        try:
            write(name, rows)
        except OSError as error:
            ports.log.error("run not archived", archive=name, exception=error)

    archive(ports, payload, written)


def _only_looks(ports: Ports, listing: Snapshot, _: FlowHeader, now: datetime) -> bool:
    """Look again later whether the archive is written, and enqueue nothing."""
    ports.store.commit([Change(listing.path, {(DUE_AT,): archive_due_at(now)}, listing.guard or Must.EXIST)])
    return True


def _of_any_run(header: FlowHeader) -> str:
    return str(name_of_archive.fget(replace(header, incarnation="")))


def _without_the_log(read: Snapshot, header: FlowHeader, _: Any) -> Any:
    return rows_of(read, header, header.log.tail)


FAULTS = (
    in_flows("flow-37", "the retention of a run", ("flows.FlowHeader.kept_until", property(_as_all_others))),
    in_flows("flow-37", "the retention that the code says", ("flows.Flows.kept", lambda _, header: header)),
    in_flows("flow-38", "waiting for the archive", ("flows.is_not_archived", lambda *_: False)),
    in_flows("flow-38", "noting an archive after it is written", ("flows.archive", _noted_before)),
    in_flows("flow-38", "a failed write of an archive", ("flows.archive", _whatever_happens)),
    in_flows("flow-38", "repeating the task of an archive", ("flows.archive_again", _only_looks)),
    in_flows("flow-38", "the run in the name of an archive", ("flows.FlowHeader.archive", property(_of_any_run))),
    in_flows("flow-38", "the whole log in an archive", ("flows.rows_of", _without_the_log)),
)
