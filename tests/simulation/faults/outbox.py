"""Faults to plant: the outbox without one clause of its protocol (docs/protocols/outbox.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from signalbox.adapters import cloud_tasks
from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.kit_names import shard_names
from signalbox.core.ports import Budget, Committed, Delete, Must, Ports, Put, Query, Snapshot, Write, unlimited
from signalbox.core.problems import Unavailable
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import outbox as outbox_world
from tests.simulation.worlds.batches import world as batches_world
from tests.simulation.worlds.links import world as links_world


def _outbox(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), outbox_world.run)


def _enqueue_first(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    ports.queue.create(effects)
    return ports.store.commit(writes)


def _without_a_record(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


def _record_in_a_commit_of_its_own(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    record = f"{outbox.COLLECTION}/{ports.store.new_id()}"
    ports.store.commit([Put(record, outbox.to_record(effects), Must.NOT_EXIST)])
    outbox.enqueue(ports, record, effects)
    return committed


def _delete_first(ports: Ports, record: str, effects: Sequence[Effect]) -> None:
    ports.store.commit([Delete(record)])
    ports.queue.create(effects)


def _delete_even_if_refused(ports: Ports, record: str, effects: Sequence[Effect]) -> None:
    with suppress(Unavailable):
        ports.queue.create(effects)
    ports.store.commit([Delete(record)])


def _enqueue_under_new_names(ports: Ports, record: str, effects: Sequence[Effect]) -> None:
    enqueue(ports, record, [replace(effect, name=ports.store.new_id()) for effect in effects])


enqueue = original("core.enqueue")


def _time_to_live(ports: Ports, _: Budget = unlimited) -> int:
    """Delete what is old, whatever it holds, as a time-to-live policy would."""
    for snapshot in ports.store.query(Query(outbox.COLLECTION)):
        if outbox._is_left_behind(snapshot):
            ports.store.commit([Delete(snapshot.path)])
    return 0


def _acknowledging_refusals(run: Callable[[int], None], lost: str) -> Fault:
    """All that Cloud Tasks refuses is permanent, so that a task or an event that meets it is acknowledged."""
    every = (*cloud_tasks.OF_THE_INSTALLATION, *cloud_tasks.OF_THE_TASK)
    replacements = always(("adapters.OF_THE_INSTALLATION", ()), ("adapters.OF_THE_TASK", every))
    return Fault("outbox-7", f"retrying what the queue refuses ({lost})", replacements, run)


def _from_the_start(ports: Ports) -> Iterator[Snapshot]:
    return iter(ports.store.query(Query(outbox.COLLECTION)))


def _until_the_first_refusal(ports: Ports, budget: Budget = unlimited) -> int:
    """A sweep ends at the first record that the queue refuses."""
    cleared, out_of_time = 0, budget()
    for snapshot in outbox.swept_records(ports):
        if out_of_time() or (outbox._is_left_behind(snapshot) and not outbox._swept(ports, snapshot)):
            break
        cleared += 1
    return cleared


_turns = count()


def _in_turn(effect: Effect, shards: int) -> str:
    return shard_names(effect.queue, shards)[next(_turns) % shards]


FAULTS = (
    _outbox("outbox-1", "committing before enqueueing", "core.commit", _enqueue_first),
    _outbox("outbox-1", "a record of what to enqueue", "core.commit", _without_a_record),
    _outbox("outbox-1", "the record in the same commit", "core.commit", _record_in_a_commit_of_its_own),
    _outbox("outbox-2", "enqueueing before deleting the record", "core.enqueue", _delete_first),
    _outbox("outbox-2", "keeping what the queue refuses", "core.enqueue", _delete_even_if_refused),
    _outbox("outbox-3", "the same names each time", "core.enqueue", _enqueue_under_new_names),
    _outbox("outbox-5", "keeping old records (a time-to-live policy)", "core.sweep", _time_to_live),
    _outbox("outbox-4", "the sweeper", "core.sweep", lambda *_: 0),
    _outbox("outbox-4", "continuing after a refused record", "core.sweep", _until_the_first_refusal),
    _outbox("outbox-8", "marking what the queue took of a record", "core.mark_enqueued", lambda *_: None),
    _acknowledging_refusals(batches_world.run, "units"),
    _acknowledging_refusals(links_world.run, "copies"),
    _outbox("outbox-9", "starting at a random record", "core.swept_records", _from_the_start),
    _outbox("outbox-11", "the shard that follows from the task's name", "core.shard_of", _in_turn),
)
