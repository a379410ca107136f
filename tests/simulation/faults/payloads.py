"""Faults to plant: payloads without one clause of their protocol (docs/protocols/payloads.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from signalbox.batches.model.large_values import claimed_outcome, place_of_batch
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit, Retries, UnitOutcome
from signalbox.core.effects import Effect
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import Committed, PayloadStore, Ports, Snapshot, StoredPayload
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.payloads import place_of_execution, place_of_run
from signalbox.flows.storage.commits import Commit
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.objects.machine.large_values import claimed, place_of_call
from signalbox.objects.model import Message
from signalbox.payloads.model import REMOVALS, Outgoing, Place, is_large, place_of_tasks
from signalbox.payloads.service import removal, store
from signalbox.payloads.sweep import Group
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import batch_payloads, object_payloads, payloads

claimed_batch = original("flows.claimed_batch")
commit_turn = original("flows.commit_turn")
remove = original("flows.remove")
commit_page = original("batches.commit_page")
remove_batch = original("batches.remove")
commit_of_object = original("objects.commit_turn")
place_of_state = original("objects.place_of_state in storage")
place_of = original("flows.place_of in payloads")


def _payloads(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), payloads.run)


def _commit_first(ports: Ports, commit: Commit) -> Committed:
    committed: Committed = commit_turn(ports, replace(commit, outgoing=Outgoing()))
    store(ports, commit.outgoing)
    return committed


def _units_not_stored(effect: Effect, place: Place, _: Outgoing, location: str) -> Effect:
    named: Effect = claimed_batch(effect, place, Outgoing(), location)
    return named


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
    committed: Committed = commit_turn(ports, commit)
    return committed


def _turn_first(ports: Ports, writes: Any, effects: Any, outgoing: Outgoing) -> None:
    commit_of_object(ports, writes, effects, Outgoing())
    store(ports, outgoing)


def _one_place(address: ObjectAddress, _: int) -> Place:
    return place_of_state(address, 0)


def _all_unnamed(ports: Ports, payloads: PayloadStore, prefix: str, owner: str) -> int:
    [read] = ports.store.read(owner)
    keys = [each.key for each in payloads.list(prefix, "", 100) if each.key not in str(read.data)]
    payloads.delete(keys)
    return len(keys)


def _in_one_part(message: Message, address: ObjectAddress, id_: str, _: object, outgoing: Outgoing) -> Message:
    return claimed(message, place_of_call(address, id_, "part"), outgoing)


def _while_there_is_a_record(_: str, record: object) -> bool:
    return record is not None


def _equal(stored: str, body: str) -> bool:
    return stored == body


def _objects(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), object_payloads.run)


OF_OBJECTS = (
    _objects("payload-1", "storing before the commit of an object", "objects.commit_turn", _turn_first),
    _objects("payload-2", "copies for other calls", "payloads.Outgoing.copied", _shared),
    _objects("payload-6", "an owner for as long as a state lives", "payloads.is_held", _by_age),
    _objects("payload-10", "the revision in the place of a state", "objects.place_of_state in storage", _one_place),
    _objects("payload-10", "states that are not committed yet", "payloads.delete_replaced", _all_unnamed),
    _objects("payload-11", "a new part for a call", "objects.claimed_anew in objects", _in_one_part),
    _objects("payload-11", "contents with leases", "payloads.hold_digest in model", lambda *_: None),
    _objects("payload-11", "repeats with other keys", "mailboxes.is_same_body", _equal),
    _objects("payload-12", "the name in the record of the owner", "payloads.is_held", _while_there_is_a_record),
)


def _page_first(ports: Ports, writes: Any, effects: Any, outgoing: Outgoing) -> None:
    commit_page(ports, writes, effects, Outgoing())
    store(ports, outgoing)


def _not_stored(_: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> UnitOutcome:
    return claimed_outcome(unit, outcome, Outgoing())


def _payloads_of_batch_first(ports: Ports, run: BatchRun, write: Any) -> None:
    ports.store.commit([removal(place_of_batch(run))])
    remove_batch(ports, run, write)


def _not_stored_of_retries(_: Ports, run: BatchRun, retries: Retries) -> Retries:
    if not is_large(retries.payload):
        return retries
    return replace(retries, payload=Outgoing().claimed_members(retries.payload, place_of_batch(run)), is_named=True)


def _unstored(*_: object) -> bool:
    return True


def _task_not_stored(_: Ports, task: Effect, now: datetime) -> Effect:
    return Outgoing().claimed_task(task, place_of_tasks(now))


def _batches(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), batch_payloads.run)


OF_BATCHES = (
    _batches("payload-1", "storing before the commit of a page", "batches.commit_page", _page_first),
    _batches("payload-1", "storing the result of a unit", "batches.stored_outcome", _not_stored),
    _batches("payload-1", "storing the arguments of a task", "tasks.stored_task in enqueues", _task_not_stored),
    _batches(
        "payload-1",
        "storing the arguments of a task of a transaction",
        "documents.stored_task in transactions",
        _task_not_stored,
    ),
    _batches("payload-1", "storing the changed arguments of a retry", "batches.stored_retries", _not_stored_of_retries),
    _batches("payload-1", "storing the batches that follow", "batches.stored_if_new", _unstored),
    _batches("payload-3", "the run in the place of a batch", "batches.place_of in large_values", _of_the_id),
    _batches("payload-4", "the mark before the removal of a batch", "batches.remove", _payloads_of_batch_first),
)

FAULTS = (
    _payloads("payload-1", "storing the units of a batch that a run awaits", "flows.claimed_batch", _units_not_stored),
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
