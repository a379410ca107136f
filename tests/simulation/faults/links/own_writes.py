"""Planted faults of documents that only the kit writes: link-13 and link-14 of `docs/protocols/links.md`, in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.kit_names import KIT
from signalbox.core.ports import Committed, Ports, Snapshot, Write
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.documents.model.stamped_contents import Document
from signalbox.documents.storage import writes
from signalbox.documents.storage.records import Found
from signalbox.documents.storage.writes import Deletion, DocumentWrite
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.links.planting import in_world
from tests.simulation.faults.points import always, original
from tests.simulation.worlds.links.kinds import KINDS, NARROW, VERSATILE, WIDE, WRITES_BACK, Kinds

own_tasks = writes.own_tasks
plan_writes = original("documents.WriteBack.writes")

Record = Mapping[str, Any] | None


def _none_of_a_put(before: Found, after: Document | None, record: Record) -> tuple[Effect, ...]:
    is_put = after is not None and after.stamp is not None and after.stamp.author == "put"
    return tuple(task for task in own_tasks(before, after, record) if not is_put or task.task != "page")


def _none_of_a_refresh(before: Found, after: Document | None, record: Record) -> tuple[Effect, ...]:
    is_refresh = after is not None and after.stamp is not None and after.stamp.author == "refresh"
    return () if is_refresh else own_tasks(before, after, record)


def _none_of_a_deletion(before: Found, after: Document | None, record: Record) -> tuple[Effect, ...]:
    return own_tasks(before, after, record) if after else ()


def _no_comparison(before: Found, after: Document | None, record: Record) -> tuple[Effect, ...]:
    return tuple(task for task in own_tasks(before, after, record) if task.task == "page")


def _enqueued_after_the_commit(ports: Ports, made: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(made)
    with suppress(Unavailable, Problem):
        if effects:
            ports.queue.create(complete_wake_ups(effects, committed.commit_time))
    return committed


def _enqueued_before_the_commit(ports: Ports, made: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    if effects:
        ports.queue.create(effects)
    return ports.store.commit(made)


def _without_tasks(before: Found, embedded: Any, *more: Any, **named: Any) -> DocumentWrite:
    return replace(writes.put_write(before, embedded, *more, **named), effects=())


def _pages_alone(before: Found, embedded: Any) -> DocumentWrite:
    made = writes.put_write(before, embedded)
    return replace(made, effects=tuple(task for task in made.effects if task.task == "page"))


def _deletion_alone(before: Found, header: Snapshot | None = None) -> Deletion:
    return replace(writes.deletion(before, header), effects=())


def _tasks_of_the_last(plan: Any) -> list[DocumentWrite]:
    *sources, last = plan_writes(plan)
    return [*(replace(made, effects=()) for made in sources), last]


def _own(clause: str, without: str, point: str, instead: Any, kinds: Kinds = KINDS) -> Fault:
    return Fault(clause, without, always((point, instead)), in_world(kinds, KIT))


FAULTS = (
    _own("link-13", "the fan-out of a put", "documents.own_tasks", _none_of_a_put, NARROW),
    _own("link-13", "the fan-out of a refresh", "documents.own_tasks", _none_of_a_refresh, WIDE),
    _own("link-13", "the fan-out of a deletion", "documents.own_tasks", _none_of_a_deletion),
    _own("link-13", "the comparison of new copies", "documents.own_tasks", _no_comparison),
    _own("link-13", "the tasks of a merge", "documents.put_write in patches", _without_tasks, VERSATILE),
    _own("link-13", "the tasks of a write-back", "documents.WriteBack.writes", _tasks_of_the_last, WRITES_BACK),
    _own("link-13", "the comparison of a bulk put", "documents.put_write in bulk", _pages_alone, VERSATILE),
    _own("link-13", "the tasks of a transaction", "documents.put_write in transactions", _without_tasks, VERSATILE),
    _own("link-13", "the deletion in a transaction", "documents.deletion in transactions", _deletion_alone, VERSATILE),
    _own("link-13", "the tasks in the commit", "core.commit", _enqueued_after_the_commit),
    _own("link-13", "the tasks after the commit", "core.commit", _enqueued_before_the_commit),
    _own("link-14", "the guard of a new document", "documents.unwanted_guard", lambda _: ()),
)
