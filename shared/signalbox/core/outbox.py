"""Tasks that exist if and only if a commit succeeded, on a store and a queue that do not commit together.

The effects of a commit are written in that commit, as one outbox record, or as several if they do not fit into one.
Right afterwards they are enqueued and the record is deleted. A process may die at any point:

    before the commit             nothing happened
    after the commit              the sweeper finds the record and enqueues its tasks
    while enqueueing              the sweeper enqueues all of them again; a name already taken counts as enqueued
    before the record is deleted  likewise

Enqueueing, deleting and sweeping may race: they use the same names, and deleting twice is a no-op. A record is deleted
only after every task in it is enqueued. If the queue accepts only some of them, those are marked in the record and not
enqueued again, because their names may be free hours later. The outbox must never have a time-to-live policy, which
would delete tasks that were promised.

Any function of the database may write a record. The queue refuses a task whose function, task or queue the catalogue
excludes (`NotInCatalogue`), and the sweeper moves the record of such a task to `outbox_refused`, where an operator
finds it. The protocol is in docs/protocols/outbox.md.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import (
    Budget,
    Change,
    Committed,
    Conflict,
    Delete,
    Must,
    Ports,
    Put,
    Query,
    Snapshot,
    Write,
    unlimited,
)
from signalbox.core.problems import NotInCatalogue, PartlyEnqueued, TooLarge, Unavailable
from signalbox.core.records.queries import Field
from signalbox.core.wake_ups import complete_wake_ups

COLLECTION = "outbox"

KEPT_ASIDE = "outbox_refused"
"""The collection of records with tasks that the catalogue excludes. Nothing reads or deletes them but an operator."""


def commit(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    """Commit the writes with their effects, then enqueue the effects. Raises as `Store.commit` does.

    After the commit has landed, nothing raises: tasks that cannot be enqueued now are left to the sweeper.
    """
    if not effects:
        return ports.store.commit(writes)
    parts = {path_of(ports.store.new_id()): part for part in divided(effects)}
    records = [Put(record, to_record(part), Must.NOT_EXIST) for record, part in parts.items()]
    committed = ports.store.commit([*writes, *records])
    for record, part in parts.items():
        enqueue_or_leave(ports, record, part, committed.commit_time)
    return committed


def keep(ports: Ports, writes: Sequence[Write], effect: Effect, id_: str) -> Committed:
    """Commit the writes with an effect, and leave the effect in the record `id_`. Raises as `Store.commit` does.

    Use this for an effect that a later commit may make unnecessary: that commit deletes the record. Otherwise
    `enqueue_or_leave` enqueues the effect; if the process dies, the sweeper does.
    """
    return ports.store.commit([*writes, Put(path_of(id_), to_record([effect]), Must.NOT_EXIST)])


def enqueue_or_leave(ports: Ports, record: str, effects: Sequence[Effect], committed_at: datetime) -> None:
    """Enqueue the effects of a committed record. If that fails, leave them to the sweeper."""
    try:
        enqueue(ports, record, complete_wake_ups(effects, committed_at))
    except Exception:  # noqa: BLE001  the commit has landed, and the record keeps the tasks
        ports.log.info("tasks left to the sweeper", outbox=record, tasks=len(effects))


def path_of(id_: str) -> str:
    """Return the path of an outbox record."""
    return f"{COLLECTION}/{id_}"


def enqueue(ports: Ports, record: str, effects: Sequence[Effect]) -> None:
    """Enqueue the tasks, then delete the outbox record. If only some were enqueued, mark these tasks.

    Raises `Unavailable` if it is not known whether both succeeded, or the `Problem` with which the queue refuses a
    task.
    """
    try:
        ports.queue.create(effects)
    except PartlyEnqueued as error:
        mark_enqueued(ports, record, error.enqueued)
        raise
    ports.store.commit([Delete(record)])


def mark_enqueued(ports: Ports, record: str, names: Collection[str]) -> None:
    """Mark tasks as enqueued, unless the record is deleted. Marks are only added, so concurrent calls need no guard."""
    if names:
        marks: dict[Field, Any] = {("enqueued", name): True for name in names}
        with suppress(Conflict, Unavailable):
            ports.store.commit([Change(record, marks, Must.EXIST)])


def sweep(ports: Ports, budget: Budget = unlimited) -> int:
    """Enqueue tasks that were committed and not enqueued. Return the number of records cleared.

    The pages are ordered by id: an index on time would be a hot spot of all commits. A record that the queue refuses
    stays for a later sweep and does not block the others.
    """
    cleared, out_of_time = 0, budget()
    for snapshot in islice(swept_records(ports), LIMITS.sweep_page * LIMITS.sweep_pages_max):
        if out_of_time():
            break
        cleared += _is_left_behind(snapshot) and _swept(ports, snapshot)
    return cleared


def swept_records(ports: Ports) -> Iterator[Snapshot]:
    """Iterate over the records that a sweep visits, each once.

    If the records do not fit into one page, the sweep starts at a random id and wraps around. Ids are random, so all
    records are equally likely to be among the first, and no record is always last.
    """
    first_page = ports.store.query(Query(COLLECTION, limit=LIMITS.sweep_page))
    if len(first_page) < LIMITS.sweep_page:
        yield from first_page
        return
    begin = ports.store.new_id()
    yield from _behind(ports, (begin,))
    yield from takewhile(lambda snapshot: snapshot.id <= begin, _behind(ports, ()))


def _behind(ports: Ports, after: tuple[str, ...]) -> Iterator[Snapshot]:
    """Iterate over the records after an id, in pages."""
    while page := ports.store.query(Query(COLLECTION, limit=LIMITS.sweep_page, after=after)):
        yield from page
        if len(page) < LIMITS.sweep_page:
            break
        after = (page[-1].id,)


def _is_left_behind(snapshot: Snapshot) -> bool:
    """Return whether, by the server's clock, the operation that wrote the record must have ended."""
    assert snapshot.create_time is not None, "a query finds only records that exist"
    return snapshot.read_time - snapshot.create_time >= timedelta(seconds=LIMITS.outbox_patience_seconds)


def _swept(ports: Ports, snapshot: Snapshot) -> bool:
    try:
        enqueue(ports, snapshot.path, _not_enqueued(snapshot))
    except NotInCatalogue as refused:
        keep_aside(ports, snapshot, refused)
        return False
    except Exception as error:  # noqa: BLE001  a record that cannot be read must not keep the sweeper from the others
        ports.log.error("outbox tasks refused by the queue", outbox=snapshot.path, exception=error)
        return False
    return True


def keep_aside(ports: Ports, snapshot: Snapshot, refused: NotInCatalogue) -> None:
    """Move a record that names tasks which the catalogue excludes, so that no later sweep tries it again.

    The moved record is one of the outbox, also if it was another's with one `task`, and marks the tasks that are
    enqueued. So an operator can put it into the outbox.
    """
    assert snapshot.data is not None, "a query finds only records that exist"
    kept = f"{KEPT_ASIDE}/{snapshot.id}"
    stored = snapshot.data.get("enqueued")
    marks = {**(stored if isinstance(stored, dict) else {}), **dict.fromkeys(refused.enqueued, True)}
    reason = str(refused)[: LIMITS.error_letters_max]
    tasks = {"tasks": [snapshot.data["task"]]} if "tasks" not in snapshot.data and "task" in snapshot.data else {}
    data = {**snapshot.data, **tasks, "enqueued": marks, "reason": reason, "refused_at": snapshot.read_time}
    try:
        ports.store.commit([Put(kept, data), Delete(snapshot.path, Must.EXIST)])
    except (Conflict, Unavailable):
        return  # another sweep has moved it, or a later one does
    except Exception as error:  # noqa: BLE001  a record of any content must not keep the sweeper from the others
        ports.log.error("outbox tasks refused by the queue", outbox=snapshot.path, exception=error)
    else:
        ports.log.error("outbox record kept aside", outbox=snapshot.path, kept=kept, reason=reason)


def _not_enqueued(snapshot: Snapshot) -> tuple[Effect, ...]:
    """Return an outbox record's effects that are not marked as enqueued. Wake-ups among the effects have names."""
    assert snapshot.data is not None, "a query finds only records that exist"
    assert snapshot.create_time is not None, "a query finds only records that exist"
    effects = complete_wake_ups(from_record(snapshot.data), snapshot.create_time)
    return tuple(effect for effect in effects if effect.name not in snapshot.data.get("enqueued", {}))


def divided(effects: Sequence[Effect]) -> list[list[Effect]]:
    """Divide the effects of a commit, in order, into as many outbox records as they need. Raises `TooLarge`."""
    parts: list[list[Effect]] = []
    left_bytes = 0
    for effect in effects:
        size_bytes = len(json.dumps(effect.payload)) + len(json.dumps(effect.context))
        if size_bytes > LIMITS.outbox_bytes_max:
            allowed = f"A task has at most {LIMITS.outbox_bytes_max:,} bytes of payload"
            raise TooLarge(f"{allowed}; this one has {size_bytes:,}.")
        if not parts or len(parts[-1]) == LIMITS.outbox_tasks_max or size_bytes > left_bytes:
            parts.append([])
            left_bytes = LIMITS.outbox_bytes_max
        parts[-1].append(effect)
        left_bytes -= size_bytes
    return parts


def to_record(effects: Sequence[Effect]) -> dict[str, Any]:
    """Return the outbox record of effects that `divided` has put together."""
    return {"tasks": [effect.to_record() for effect in effects]}


def from_record(record: Any) -> tuple[Effect, ...]:
    """Return the effects of an outbox record. Wake-ups among the effects have no names yet."""
    return tuple(Effect.from_record(task) for task in record["tasks"])
