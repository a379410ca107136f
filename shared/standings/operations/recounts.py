"""Compare standings with what is counted of their yokes, and repair them: one, or all, each night.

A recount rests on one fact: each change of a counted record commits with an adjustment, or with a write of the
standing. If the standing was not written while its counted records were added up, and no adjustment waits at the end,
the sum is that of one moment. Otherwise it begins anew; a standing that never rests is not recounted.
"""

from typing import Any

from shared.core.operations.ports import Conflict, Order, Ports, Put, Query
from shared.core.rules.limits import LIMITS
from shared.standings.operations.boards import declarations
from shared.standings.operations.folding import fold, pending
from shared.standings.rules import tasks
from shared.standings.rules.keys import COUNTED, StandingKey, collection_of
from shared.standings.rules.standings import Standing
from shared.standings.rules.tallies import ZERO, Tally

RECOUNTS_MAX = 5
"""Times that a recount begins anew."""


def begin_recount(ports: Ports, run_: str, key: StandingKey) -> None:
    """Enqueue a recount of one standing."""
    ports.queue.create([tasks.work_task("recount", run_, standing=key.text, left=RECOUNTS_MAX)])


def recount(ports: Ports, run_: str, key: StandingKey, left: int) -> None:
    """Compare a standing with what its yokes add up to, and repair it; if it moves meanwhile, begin anew later."""
    if recounted(ports, key):
        return
    if left > 0:
        ports.queue.create([tasks.work_task("recount", run_, standing=key.text, left=left - 1)])
    else:
        ports.log.error("standing is busy, not recounted", standing=key.text)


def recounted(ports: Ports, key: StandingKey) -> bool:
    """Recount a standing at rest; return whether it was at rest. Raises `Unavailable`."""
    fold(ports, key)
    [before] = ports.store.read(key.path)
    if pending(ports.store, key):
        return False
    total, values = _counted(ports, key)
    if pending(ports.store, key):
        return False
    held = Standing.from_record(before.data)
    repaired = Standing(total, crossed=held.crossed, folded_at=held.folded_at).with_extremes(values)
    if repaired == held:
        return ports.store.read(key.path)[0].update_time == before.update_time
    try:
        ports.store.commit([Put(key.path, repaired.to_record(), before.guard)])
    except Conflict:
        return False
    ports.log.error("standing had drifted, repaired", standing=key.text, was=held.to_json(), now=repaired.to_json())
    return True


def _counted(ports: Ports, key: StandingKey) -> tuple[Tally, list[Any]]:
    """Add up the counted records of a standing, page by page."""
    total, values, after = ZERO, list[Any](), tuple[Any, ...]()
    order = (Order(("times", key.field)),)
    while True:
        page = ports.store.query(Query(COUNTED, order_by=order, limit=LIMITS.recount_page_max, after=after))
        held = [one.data for one in page if one.data is not None]
        total = sum((Tally.of(one["value"]) for one in held), total)
        values = _extremes([*values, *(one["value"] for one in held)])
        if len(page) < LIMITS.recount_page_max:
            return total, values
        after = (held[-1]["times"][key.field], page[-1].id)


def _extremes(values: list[Any]) -> list[Any]:
    numbers = [value for value in values if value is not None]
    return [min(numbers), max(numbers)] if numbers else []


# --- all of them ---


def begin_all(ports: Ports, run: str) -> None:
    """Enqueue a recount of every standing, kind by kind."""
    _enqueue_next(ports, run, sorted(declarations(ports).kinds))


def recount_page(ports: Ports, run: str, kind: str, cursor: str) -> None:
    """Recount a page of a kind's standings. One that moves is left to the next night: an event has just written it."""
    query = Query(collection_of(kind), limit=LIMITS.recounts_page_max, after=(cursor,) if cursor else ())
    found = ports.store.query(query)
    for each in found:
        if not recounted(ports, StandingKey(kind, each.id)):
            ports.log.info("standing moves, not recounted", standing=each.path)
    if len(found) == LIMITS.recounts_page_max:
        ports.queue.create([tasks.work_task("recounts", run, kind=kind, cursor=found[-1].id)])
    else:
        _enqueue_next(ports, run, [each for each in sorted(declarations(ports).kinds) if each > kind])


def _enqueue_next(ports: Ports, run: str, kinds: list[str]) -> None:
    if kinds:
        ports.queue.create([tasks.work_task("recounts", run, kind=kinds[0], cursor="")])
