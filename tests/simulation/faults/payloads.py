"""Faults to plant: payloads without one clause of their protocol (docs/protocols/payloads.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import Committed, Ports, Snapshot, StoredPayload
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.payloads import place_of_execution, place_of_run
from signalbox.flows.storage.commits import Commit
from signalbox.payloads.model import REMOVALS, Outgoing, Place
from signalbox.payloads.service import removal, store
from signalbox.payloads.sweep import Group, sweep
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import payloads

commit_turn = original("flows.commit_turn")
remove = original("flows.remove")
place_of = original("flows.place_of in payloads")


def _payloads(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), payloads.run)


def _commit_first(ports: Ports, commit: Commit) -> Committed:
    committed: Committed = commit_turn(ports, replace(commit, outgoing=Outgoing()))
    store(ports, commit.outgoing)
    return committed


def _shared(_: Outgoing, stored: Any, __: Place) -> Any:
    return stored


def _of_the_id(owner: str, _: str, *parts: str) -> Place:
    place: Place = place_of(owner, "run", *parts)
    return place


def _of_any_run(*_: object) -> bool:
    return True


def _payloads_first(ports: Ports, address: FlowAddress, read: Snapshot, *more: Any) -> bool:
    header = FlowHeader.from_record(address, read.data or {})
    if header.has_payloads and not header.removing:
        ports.store.commit([removal(place_of_run(address, header.incarnation))])
    removed: bool = remove(ports, address, read, *more)
    return removed


def _of_any_age(page: Sequence[StoredPayload], _: datetime) -> Iterator[Group]:
    for payload in page:
        if payload.owner:
            yield Group(payload.owner, [payload.key])


def _by_age(_: str, __: object) -> bool:
    return False


def _never(*_: Any) -> int:
    return 0


def _by_the_id(_: str, header: object) -> bool:
    return header is not None


def _of_the_first_generation(address: FlowAddress, execution_id: str) -> Place:
    return place_of_execution(address, f"{execution_id.rpartition('-')[0]}-0")


def _events_of_the_first_generation(address: FlowAddress, incarnation: str) -> Place:
    return place_of_execution(address, f"{incarnation}-0")


def _removal_before_the_commit(ports: Ports, commit: Commit) -> Committed:
    """Commit the removal of a generation's payloads first: the turn may then lose its race, or its process may die."""
    early = [write for write in commit.writes if write.path.startswith(f"{REMOVALS}/")]
    if early:
        ports.store.commit(early)
        sweep(ports)  # it may run between the two commits, and seldom does
    committed: Committed = commit_turn(ports, commit)
    return committed


FAULTS = (
    _payloads("payload-1", "storing before the commit", "flows.commit_turn", _commit_first),
    _payloads("payload-2", "copies for other runs", "payloads.Outgoing.copied", _shared),
    _payloads("payload-3", "the incarnation in the place", "flows.place_of in payloads", _of_the_id),
    _payloads("payload-3", "late messages of a removed run dropped", "flows.is_of_run in turns", _of_any_run),
    _payloads("payload-4", "the mark before the removal", "flows.remove", _payloads_first),
    _payloads("payload-5", "the age of what is collected", "payloads.old_groups", _of_any_age),
    _payloads("payload-6", "an owner for as long as a run lives", "payloads.is_held", _by_age),
    _payloads("payload-7", "the collector", "payloads.collect", _never),
    _payloads("payload-7", "the incarnation of the owner", "payloads.is_held", _by_the_id),
    _payloads("payload-8", "what is carried over", "flows.place_of_execution in headers", _of_the_first_generation),
    _payloads("payload-8", "the removal in the commit", "flows.commit_turn", _removal_before_the_commit),
    _payloads(
        "payload-9", "events beside generations", "flows.place_of_events in messages", _events_of_the_first_generation
    ),
)
