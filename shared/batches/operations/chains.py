"""Continue the chains of a batch that runs at most so many units at once (`rules/chains.py`).

A unit's outcome is committed, then the unit behind it is enqueued, then its delivery is acknowledged. A page is
committed, then its expansion looks which of its units have an outcome before them. One of the two sees the other's
commit; if both do, the task has one name.
"""

from collections.abc import Iterator, Sequence

from shared.batches.operations import counting
from shared.batches.operations.unit_tasks import unit_tasks
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.chains import FirstRuns, Retries, retries_in_ranges, retries_of
from shared.batches.rules.outcomes import UnitRecord
from shared.batches.rules.pages import Page, loaded
from shared.batches.rules.units import PlacedUnit
from shared.core.operations.ports import Condition, Ports, Query, Snapshot
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.times import microseconds


def follow(ports: Ports, unit: PlacedUnit) -> None:
    """Enqueue the unit behind one that has an outcome. Raises `Unavailable`: then its delivery is repeated."""
    match unit.chain:
        case FirstRuns(concurrency):
            _run_next(ports, unit, unit.index + concurrency)
        case Retries() as chain:
            retry_next(ports, unit.run, chain.behind(unit.run.unit_id(unit.index)))


def _run_next(ports: Ports, unit: PlacedUnit, index: int) -> None:
    """Enqueue a unit if its page is loaded; if not, the page's expansion will find that this one has an outcome."""
    found = _page_with(ports, unit, index)
    if found is not None:
        number, page, read = found
        following = page.units(unit.batch, unit.incarnation, number)[index - page.first]
        ports.queue.create(unit_tasks([following], [read], {}))


def _page_with(ports: Ports, unit: PlacedUnit, index: int) -> tuple[int, Page, Snapshot] | None:
    """Return the page that holds a unit, and its number: at once if the pages up to there are as large as this one."""
    guessed = unit.page + (index - unit.index + unit.offset) // unit.page_units
    node = None
    if (found := _page(ports, unit.run, guessed, index)) is None:
        node = counting.page_of(ports, unit.run, index)
    return found if node is None else _page(ports, unit.run, node.page, index)


def _page(ports: Ports, run: BatchRun, number: int, index: int) -> tuple[int, Page, Snapshot] | None:
    [read] = ports.store.read(run.page_path(number))
    page = loaded(read.data)
    return (number, page, read) if isinstance(page, Page) and page.holds(index) else None


def ready(ports: Ports, page: Page, units: Sequence[PlacedUnit]) -> list[PlacedUnit]:
    """Return the units of a new page that may run now: the first of a chain, and those behind one with an outcome."""
    limit = page.concurrency
    if limit is None:
        return list(units)
    later = [unit for unit in units if unit.index >= limit]
    before = ports.store.read(*(unit.run.unit_path(unit.index - limit) for unit in later)) if later else ()
    due = [unit for unit, one in zip(later, before, strict=True) if one.data is not None]
    return [unit for unit in units if unit.index < limit] + due


# --- retries ---


def begin_retries(ports: Ports, run: BatchRun, chain: Retries, concurrency: int, indexes: Sequence[int] | None) -> None:
    """Enqueue the tasks that begin the chains of a retry: of these units, or of all that failed."""
    if indexes is not None:
        chains = retries_of(chain, concurrency, indexes)
    else:
        failed = counting.units_in(ports, run, "failed")
        chains = retries_in_ranges(chain, run.incarnation, min(concurrency, failed)) if failed else []
    effects = [run.effect_for("retry", chain.call, at, chain=one.to_record()) for at, one in enumerate(chains)]
    for at in range(0, len(effects), LIMITS.outbox_tasks_max):
        ports.queue.create(effects[at : at + LIMITS.outbox_tasks_max])


def retry_next(ports: Ports, run: BatchRun, chain: Retries) -> None:
    """Enqueue the next retry of a chain, if anything is left of it that failed before it was requested."""
    for following, rest in _failed(ports, run, chain):
        [page] = ports.store.read(run.page_path(following.page))
        ports.queue.create(_retry(following, rest, page))
        return


def _retry(unit: PlacedUnit, chain: Retries, page: Snapshot) -> list[Effect]:
    return unit_tasks([unit.next_attempt(chain)], [page], chain.payload)


def _failed(ports: Ports, run: BatchRun, chain: Retries) -> Iterator[tuple[PlacedUnit, Retries]]:
    """Iterate over the units of a chain to retry, each with the chain behind it."""
    found = _in_range(ports, run, chain) if chain.rest is None else _named(ports, run, chain)
    for one, rest in found:
        record = None if one.data is None else UnitRecord.from_record(one.data)
        if record is not None and record.outcome.state == "failed" and _is_earlier(one, chain):
            yield record.unit, rest


def _is_earlier(one: Snapshot, chain: Retries) -> bool:
    assert one.update_time is not None, "a record that exists has one"
    return microseconds(one.update_time) <= chain.called_at


def _named(ports: Ports, run: BatchRun, chain: Retries) -> Iterator[tuple[Snapshot, Retries]]:
    while chain.rest:
        first, chain = chain.rest[0], chain.shortened()
        yield ports.store.read(run.unit_path(first))[0], chain


def _in_range(ports: Ports, run: BatchRun, chain: Retries) -> Iterator[tuple[Snapshot, Retries]]:
    """Query one failed unit, which is nearly always to be retried, and then as many as a page holds."""
    failed, limit = (Condition(("state",), "==", "failed"),), 1
    while page := ports.store.query(Query(run.units_path, failed, limit=limit, after=(chain.after,))):
        for one in page:
            if one.id > chain.until:
                return
            chain = chain.behind(one.id)
            yield one, chain
        limit = LIMITS.units_listed_max
