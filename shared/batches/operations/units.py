"""Units of a batch: complete them, list them, tell whether they are still wanted.

One commit a unit: its result is created and its counter grows; the answer carries the new count. Only whoever fills a
counter does more. A unit that comes again finds its result there and walks the whole path up, in case whoever was to
pass something on died first.
"""

from dataclasses import dataclass
from typing import Any

from shared.batches.operations import walk
from shared.batches.rules import batches as rules
from shared.batches.rules import tree, units
from shared.batches.rules.batches import Life, Unit
from shared.batches.rules.units import Outcome
from shared.core.operations.perform import pause
from shared.core.operations.ports import (
    AlreadyExists,
    Change,
    Condition,
    Increment,
    Must,
    NotFound,
    Ports,
    Put,
    Query,
    Snapshot,
    Stale,
)
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadQuery, Unavailable
from shared.core.rules.problems import NotFound as NoSuchThing

UNITS, FAILURES = ("units",), ("failures",)


def complete_unit(ports: Ports, unit: Unit, outcome: Outcome) -> None:
    """Record what became of a unit, once; a batch that is gone has no use for it. Raises `Unavailable`."""
    try:
        landed = _create(ports, unit, outcome)
        if not landed:
            _again(ports, unit, outcome)
    except NotFound:
        ports.log.info("a unit came after its batch was gone", batch=unit.batch, unit=unit.index)


def _create(ports: Ports, unit: Unit, outcome: Outcome) -> bool:
    """Do the one commit; False: the unit has an outcome already."""
    result = Put(unit.path, units.record(unit, outcome), Must.NOT_EXIST)
    count = Change(unit.counter_path, {UNITS: Increment(1), FAILURES: Increment(int(outcome.state == "failed"))})
    try:
        committed = ports.store.commit([result, count])
    except AlreadyExists:
        return False
    counted = committed.results[1].values
    _pass_on(ports, unit, counted[UNITS], counted[FAILURES])
    return True


def _pass_on(ports: Ports, unit: Unit, counted: int, failures: int) -> None:
    if counted == tree.counter_units(unit.counter, unit.page_units):
        walk.pass_counter(ports, unit.life, unit.page, unit.counter, failures)


def _again(ports: Ports, unit: Unit, outcome: Outcome) -> None:
    """A unit that has an outcome: a later attempt may replace a failure; every delivery walks the path."""
    for attempt in range(LIMITS.rounds_max):
        held, counter = ports.store.read(unit.path, unit.counter_path)
        if held.data is None or counter.data is None:
            return None
        if not units.may_overwrite(held.data, unit) or _overwritten(ports, unit, outcome, held):
            return _pass_on(ports, unit, counter.data["units"], counter.data["failures"])
        pause(ports, attempt)
    raise Unavailable("a unit's outcome is written by many at once")


def _overwritten(ports: Ports, unit: Unit, outcome: Outcome, held: Snapshot) -> bool:
    """Replace a failure under its guard. No counter moves: a failed unit is counted already."""
    try:
        ports.store.commit([Put(unit.path, units.record(unit, outcome), held.guard)])
    except Stale:
        return False
    return True


def resume_unit(ports: Ports, unit: Unit) -> bool:
    """Tell whether a unit that was delivered again is over; if so, walk its path instead of doing its work again."""
    held, counter = ports.store.read(unit.path, unit.counter_path)
    if counter.data is None:
        return True
    if held.data is None or units.may_overwrite(held.data, unit):
        return False
    try:
        _pass_on(ports, unit, counter.data["units"], counter.data["failures"])
    except NotFound:
        ports.log.info("a unit came after its batch was gone", batch=unit.batch, unit=unit.index)
    return True


def unit_is_wanted(ports: Ports, unit: Unit) -> bool:
    """Tell whether a unit's work should begin: its batch goes on, or has been completed and this is a retry."""
    [read] = ports.store.read(unit.life.header)
    header = rules.alive(read.data, unit.life)
    return header is not None and (not header.ended or (header.state == "completed" and unit.attempt > 0))


def complete_from_outside(ports: Ports, batch: str, index: int, outcome: Outcome) -> None:
    """Complete a unit known by its index only. Raises the problem `NotFound` where there is no such unit."""
    unit = find_unit(ports, batch, index)
    complete_unit(ports, unit, outcome)


def find_unit(ports: Ports, batch: str, index: int) -> Unit:
    """Find a unit's place by its index. Raises the problem `NotFound`."""
    life = life_of(ports, batch)
    first = Condition(("first",), "<=", index)
    for page in ports.store.query(Query(life.counters, (first,), (walk.LAST_FIRST,), limit=1)):
        assert page.data is not None, "a query finds only records that exist"
        offset, page_units = index - page.data["first"], page.data["units"]
        if offset < page_units:
            return Unit(life.batch, life.incarnation, index, 0, page.data["page"], offset, page_units)
    raise NoSuchThing(f"The batch {batch!r} has no unit {index}.", field="index")


def life_of(ports: Ports, batch: str) -> Life:
    """Give a batch's present life. Raises the problem `NotFound`."""
    [read] = ports.store.read(rules.path_of(batch))
    header = rules.decode(read.data)
    if header is None or header.state == "removed":
        raise no_such_batch(batch)
    return Life(batch, header.incarnation)


def no_such_batch(batch: str) -> NoSuchThing:
    """Say that there is no batch under an id."""
    return NoSuchThing(f"There is no batch {batch!r}.", field="id")


@dataclass(frozen=True, slots=True)
class Listed:
    """Some units with an outcome, by their index; `next_page_token` is empty on the last."""

    units: list[dict[str, Any]]
    next_page_token: str = ""


def list_units(ports: Ports, batch: str, state: str, page_token: str) -> Listed:
    """List units that are done or failed. Raises `BadQuery`, or the problem `NotFound`."""
    if state not in ("", "done", "failed"):
        raise BadQuery("A unit with an outcome is done or failed.", field="state")
    if page_token and not (page_token.isascii() and page_token.isdecimal() and len(page_token) < 10):
        raise BadQuery("This page_token is none of ours.", field="page_token")
    life = life_of(ports, batch)
    page = with_outcome(ports, life, state, int(page_token) if page_token else None)
    token = str(page[-1].data["index"]) if len(page) == LIMITS.units_listed_max and page[-1].data else ""
    return Listed([units.shown(one.data) for one in page if one.data is not None], token)


def with_outcome(ports: Ports, life: Life, state: str = "", after: int | None = None) -> tuple[Snapshot, ...]:
    """Find the records of units that have an outcome, a page of them, by index."""
    where = (Condition(("state",), "==", state),) if state else ()
    cursor = () if after is None else (life.unit_id(after),)
    return ports.store.query(Query(life.units, where, limit=LIMITS.units_listed_max, after=cursor))
