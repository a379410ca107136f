"""Tasks that exist if and only if a commit landed, on a store and a queue that do not commit together.

The effects of a commit are written in that commit, as one outbox record. Right after it they are handed to the queue
and the record is deleted. A process may die at any point:

    before the commit            nothing happened
    after the commit             the sweeper finds the record and hands over
    in the middle of handing over  the sweeper hands over all of it again; names already taken count as done
    before the record is deleted   likewise

Handing over, forgetting and sweeping may race: they use the same names, and deleting twice is harmless. A record goes
only after every task in it was taken. There must never be a time-to-live policy on the outbox: it would delete
promises.
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from shared.core.operations.ports import Committed, Delete, Must, Ports, Put, Query, Snapshot, Write
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, TooLarge, Unavailable

COLLECTION = "outbox"

_AS_TEXT = ("payload", "context")


def commit(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    """Commit the writes with their effects, then hand the effects over. Raises as `Store.commit` does.

    Once the commit has landed nothing raises: what cannot be handed over now is the sweeper's.
    """
    if not effects:
        return ports.store.commit(writes)
    record = f"{COLLECTION}/{ports.store.new_id()}"
    committed = ports.store.commit([*writes, Put(record, encode(effects), Must.NOT_EXIST)])
    try:
        hand_over(ports, record, effects)
    except (Unavailable, Problem):
        ports.log.info("handing over is left to the sweeper", outbox=record, tasks=len(effects))
    return committed


def hand_over(ports: Ports, record: str, effects: Sequence[Effect]) -> None:
    """Give the tasks to the queue, then forget the record.

    Raises `Unavailable` if either is not known to have happened, or the `Problem` for which the queue refuses.
    """
    ports.queue.create(effects)
    ports.store.commit([Delete(record)])


def sweep(ports: Ports) -> int:
    """Hand over what was committed and not handed over; give the number of records cleared.

    Pages by id: an index on time would put all commits of a kit on one spot. A record that the queue refuses stays for
    the next sweep, and does not keep the others from being handed over.
    """
    cleared = 0
    after: tuple[str, ...] = ()
    for _ in range(LIMITS.sweep_pages_max):
        page = ports.store.query(Query(COLLECTION, limit=LIMITS.sweep_page, after=after))
        cleared += sum(_swept(ports, snapshot) for snapshot in page if _left_behind(snapshot))
        if len(page) < LIMITS.sweep_page:
            break
        after = (page[-1].id,)
    return cleared


def _left_behind(snapshot: Snapshot) -> bool:
    """Tell whether the record's own operation must be over, by the server's clock."""
    assert snapshot.create_time is not None, "a query finds only records that exist"
    return snapshot.read_time - snapshot.create_time >= timedelta(seconds=LIMITS.outbox_patience_seconds)


def _swept(ports: Ports, snapshot: Snapshot) -> bool:
    try:
        hand_over(ports, snapshot.path, decode(snapshot.data or {}))
    except (Unavailable, Problem):
        ports.log.error("the queue does not take what the outbox holds", outbox=snapshot.path)
        return False
    return True


def encode(effects: Sequence[Effect]) -> dict[str, Any]:
    """Give the record that holds effects. Payloads go as text, so that any JSON fits. Raises `TooLarge`."""
    tasks = [_encoded(effect) for effect in effects]
    size_bytes = sum(len(task["payload"]) + len(task["context"]) for task in tasks)
    if len(tasks) > LIMITS.outbox_tasks_max or size_bytes > LIMITS.outbox_bytes_max:
        raise TooLarge(
            f"One commit has at most {LIMITS.outbox_tasks_max} tasks and {LIMITS.outbox_bytes_max:,} bytes of payload."
        )
    return {"tasks": tasks}


def _encoded(effect: Effect) -> dict[str, Any]:
    names = {
        name: getattr(effect, name) for name in ("name", "queue", "function", "task", "path", "trace", "not_before")
    }
    return names | {name: json.dumps(getattr(effect, name)) for name in _AS_TEXT}


def decode(data: Any) -> tuple[Effect, ...]:
    """Read the effects of an outbox record."""
    return tuple(Effect(**task | {name: json.loads(task[name]) for name in _AS_TEXT}) for task in data["tasks"])
