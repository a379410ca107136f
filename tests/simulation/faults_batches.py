"""Clauses of the batches' protocol to leave out, one at a time; `faults.py` says what that is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

from shared.batches.operations.walk import PASSED
from shared.batches.rules.batches import Ending, Header, Life, Unit
from shared.batches.rules.tree import Node

from shared.batches.operations import (
    batches,
)
from shared.batches.operations import (
    pages as batch_pages,
)
from shared.batches.operations import (
    sweep as batch_sweep,
)
from shared.batches.operations import (
    tasks as batch_tasks,
)
from shared.batches.operations import (
    units as batch_units,
)
from shared.batches.operations import (
    walk as batch_walk,
)
from shared.batches.rules import batches as rules
from shared.batches.rules import tree, units
from shared.batches.rules.units import Outcome
from shared.core.operations import outbox
from shared.core.operations.ports import (
    AlreadyExists,
    Change,
    Delete,
    Increment,
    Must,
    NotFound,
    Ports,
    Put,
    Query,
    Snapshot,
    Stale,
    Write,
)
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.problems import Unavailable
from tests.simulation import batches_world
from tests.simulation.faults import Fault


def _fault(clause: str, without: str, module: object, name: str, instead: Any) -> Fault:
    return Fault(clause, without, lambda: mock.patch.object(module, name, instead), batches_world.run)


def _together(*plants: tuple[object, str, Any]) -> Callable[[], AbstractContextManager[Any]]:
    def plant() -> AbstractContextManager[Any]:
        stack = ExitStack()
        for module, name, instead in plants:
            stack.enter_context(mock.patch.object(module, name, instead))
        return stack

    return plant


# --- batch-1: a redelivered unit walks the whole path ---

pass_counter, climb, settle = batch_walk.pass_counter, batch_walk.climb, batch_walk.settle
pass_on, again, create = batch_units._pass_on, batch_units._again, batch_units._create


def _over_once_recorded(ports: Ports, unit: Unit, outcome: Outcome) -> None:
    """A unit whose outcome is there is over."""
    [held] = ports.store.read(unit.path)
    if held.data is not None and units.may_overwrite(held.data, unit):
        again(ports, unit, outcome)


def _one_level_only(ports: Ports, life: Life, page: int, counter: int, failures: int) -> None:
    """What was passed on before is somebody else's business."""
    [node] = ports.store.read(life.node(Node(1, page)))
    if node.data is None or str(counter) not in node.data[PASSED]:
        pass_counter(ports, life, page, counter, failures)


def _two_levels_only(ports: Ports, life: Life, node: Node, failures: int) -> None:
    [above] = ports.store.read(life.node(tree.parent(node)))
    if above.data is None or str(node.index) not in above.data[PASSED]:
        climb(ports, life, node, failures)


def _counted_apart(ports: Ports, unit: Unit, outcome: Outcome) -> bool:
    """The outcome in one commit, the count in another."""
    try:
        ports.store.commit([Put(unit.path, units.record(unit, outcome), Must.NOT_EXIST)])
    except AlreadyExists:
        return False
    failure = int(outcome.state == "failed")
    change = Change(unit.counter_path, {batch_units.UNITS: Increment(1), batch_units.FAILURES: Increment(failure)})
    counted = ports.store.commit([change]).results[0].values
    pass_on(ports, unit, counted[batch_units.UNITS], counted[batch_units.FAILURES])
    return True


# --- batch-2: the seal carries the check; the header is read after passing ---


def _header_first(ports: Ports, life: Life, node: Node, failures: int) -> None:
    above = tree.parent(node)
    [header] = ports.store.read(life.header)
    ports.store.commit([batch_walk._passing(life, above, node.index, failures)])
    [read] = ports.store.read(life.node(above))
    settle(ports, life, above, read, rules.alive(header.data, life))


def _node_read_first(ports: Ports, life: Life, node: Node, failures: int) -> None:
    """What is read before the write, with the child put in by hand."""
    above = tree.parent(node)
    read, header = ports.store.read(life.node(above), life.header)
    ports.store.commit([batch_walk._passing(life, above, node.index, failures)])
    if read.data is not None:
        read = replace(read, data={**read.data, PASSED: {**read.data[PASSED], str(node.index): failures}})
    settle(ports, life, above, read, rules.alive(header.data, life))


sealing = batches._sealing


def _no_check(life: Life, header: Header, read: tuple[Snapshot, ...], count: int) -> Any:
    decision = sealing(life, header, read, count)
    return replace(decision, effects=tuple(effect for effect in decision.effects if effect.task != "check"))


def _checked_once(ports: Ports, batch: str, count: int) -> Any:
    """The process that seals checks, and may die before; whoever finds the seal there does not."""
    life = batch_units.life_of(ports, batch)
    was_open = batches.get(ports, batch).batch["state"] == "open"
    status = seal(ports, batch, count)
    if was_open:
        batch_walk.check(ports, life)
    return status


seal = batches.seal


def _empty_waits(header: Header, ending: Ending, now: Any) -> Header:
    return header if ending.size == 0 else ended(header, ending, now)


ended = rules.ended


def _by_halves(pages: int) -> Node:
    """The check looks at the first of the lowest nodes, not at the last."""
    del pages
    return Node(2, 0)


# --- batch-3: a page and the seal compete for one record ---


def _no_end_mark(life: Life, header: Header, read: tuple[Snapshot, ...], count: int) -> Any:
    decision = sealing(life, header, read, count)
    return replace(decision, state=decision.state[:1])


def _whatever_comes(
    life: Life, header: Header, number: int, first: int, some: Sequence[Any], records: Any = batch_pages._records
) -> list[Write]:
    return [replace(write, guard=None) for write in records(life, header, number, first, some)]


def _page_without_task(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Any:
    """The task that expands a page is handed over after its commit, and not promised by it."""
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


# --- batch-4: incarnations, must-exist, clean-up ---


def _named_without_the_life(life: Life, *what: object) -> str:
    return name_of(life.header, *what)


def _resurrecting(ports: Ports, unit: Unit, outcome: Outcome) -> bool:
    """A counter that is not there begins anew."""
    result = Put(unit.path, units.record(unit, outcome), Must.NOT_EXIST)
    [counter] = ports.store.read(unit.counter_path)
    if counter.data is not None:
        return create(ports, unit, outcome)
    try:
        ports.store.commit([result, Put(unit.counter_path, {"units": Increment(1), "failures": 0})])
    except AlreadyExists:
        return False
    return True


def _asking_again(ports: Ports, unit: Unit, outcome: Outcome) -> None:
    try:
        if not create(ports, unit, outcome):
            again(ports, unit, outcome)
    except NotFound as gone:
        raise Unavailable("the counter may come back") from gone


def _not_over(ports: Ports, unit: Unit) -> bool:
    [counter] = ports.store.read(unit.counter_path)
    return counter.data is not None and resume_unit(ports, unit)


resume_unit = batch_units.resume_unit


def _units_first(ports: Ports, life: Life, header: Header, snapshot: Snapshot) -> None:
    turned = _Turned(life.batch, life.incarnation)
    remove(ports, turned, header, snapshot)


remove = batch_sweep.remove


def _whatever_the_life(ports: Ports, life: Life, collection: str) -> bool:
    while found := ports.store.query(Query(collection, limit=4)):
        ports.store.commit([Delete(one.path) for one in found])
    return bool(life)


def _header_blindly(ports: Ports, life: Life, header: Header, snapshot: Snapshot) -> None:
    ports.store.commit([Put(life.header, rules.removing(header, snapshot.read_time).record(), snapshot.guard)])
    if all(batch_sweep._emptied(ports, life, part) for part in (life.counters, life.units, life.pages)):
        ports.store.commit([Delete(life.header)])


class _Turned(Life):
    """A life whose counters are cleaned up after its units."""

    __slots__ = ()

    @property
    def counters(self) -> str:
        return f"{self.header}/units"

    @property
    def units(self) -> str:
        return f"{self.header}/counters"


# --- batch-5 to batch-8 ---


def _overwritten_blindly(ports: Ports, unit: Unit, outcome: Outcome, held: Snapshot) -> bool:
    del held
    ports.store.commit([Put(unit.path, units.record(unit, outcome))])
    return True


def _counted_again(ports: Ports, unit: Unit, outcome: Outcome, held: Snapshot) -> bool:
    landed = overwritten(ports, unit, outcome, held)
    ports.store.commit([Change(unit.counter_path, {batch_units.UNITS: Increment(1)})])
    return landed


overwritten = batch_units._overwritten


def _only_completed(life: Life, header: Header, now: Any) -> tuple[Effect, ...]:
    return announcements(life, header, now) if header.state == "completed" else ()


announcements = rules.announcements


def _unguarded(ports: Ports, life: Life, ending: Callable[[Header], Ending | None]) -> Header | None:
    """An end that overwrites whatever the header has become."""
    [read] = ports.store.read(life.header)
    header = rules.alive(read.data, life)
    how = None if header is None or header.ended else ending(header)
    if header is None or how is None:
        return header
    over = rules.ended(header, how, read.read_time)
    outbox.commit(ports, [Put(life.header, over.record())], rules.announcements(life, over, read.read_time))
    return over


def _announced_before(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Any:
    ports.queue.create(effects)
    return ports.store.commit(writes)


def _unpromised(ports: Ports, life: Life, ending: Callable[[Header], Ending | None]) -> Header | None:
    """An end whose announcement is handed over after its commit, and not promised by it."""
    [read] = ports.store.read(life.header)
    header = rules.alive(read.data, life)
    how = None if header is None or header.ended else ending(header)
    if header is None or how is None:
        return header
    over = rules.ended(header, how, read.read_time)
    try:
        ports.store.commit([Put(life.header, over.record(), read.guard)])
    except Stale as overtaken:
        raise Unavailable("the header has moved") from overtaken
    ports.queue.create(rules.announcements(life, over, read.read_time))
    return over


def _counters_of_the_loaded(node: Node, pages: int | None) -> range:
    """A node is full with the children that there are: one is enough before the seal."""
    return children(node, 1 if pages is None else pages)


children = tree.children


def _root_too_low(pages: int) -> Node:
    del pages
    return Node(2, 0)


def _no_left_edge(page: int) -> list[Node]:
    return [node for node in begun_by(page) if node.level == 2]


begun_by = tree.begun_by


def _forgetful_retry(held: Mapping[str, Any], unit: Unit) -> bool:
    del unit
    return bool(held["state"] == "failed")


FAULTS = (
    _fault("batch-1", "walking when the outcome is there", batch_units, "_again", _over_once_recorded),
    _fault("batch-1", "walking the whole path, not one level", batch_walk, "pass_counter", _one_level_only),
    _fault("batch-1", "walking on above the page", batch_walk, "climb", _two_levels_only),
    _fault("batch-1", "outcome and count in one commit", batch_units, "_create", _counted_apart),
    _fault("batch-1", "passing on what is full", batch_units, "_pass_on", lambda *_: None),
    _fault("batch-2", "the check after the seal", batch_walk, "check", lambda *_: None),
    Fault(
        "batch-2",
        "the check in the seal's commit",
        _together((batches, "_sealing", _no_check), (batches, "seal", _checked_once)),
        batches_world.run,
    ),
    _fault("batch-2", "the check of the last node", tree, "last_of_level_2", _by_halves),
    _fault("batch-2", "reading the header after passing", batch_walk, "climb", _header_first),
    _fault("batch-2", "reading the node after passing", batch_walk, "climb", _node_read_first),
    _fault("batch-2", "completing an empty batch in the seal", rules, "ended", _empty_waits),
    _fault("batch-3", "the end mark", batches, "_sealing", _no_end_mark),
    _fault("batch-3", "pages that must not exist", batch_pages, "_records", _whatever_comes),
    _fault("batch-3", "a page's task in its commit", outbox, "commit", _page_without_task),
    _fault("batch-3", "all children before the seal", tree, "children", _counters_of_the_loaded),
    _fault("batch-3", "the left edge from the beginning", tree, "begun_by", _no_left_edge),
    _fault("batch-3", "the root above all pages", tree, "root", _root_too_low),
    _fault("batch-4", "the incarnation", batches, "draw_incarnation", lambda _: "always"),
    _fault("batch-4", "the incarnation in tasks' names", Life, "task_name", _named_without_the_life),
    _fault("batch-4", "counters that must exist", batch_units, "_create", _resurrecting),
    Fault(
        "batch-4",
        "acknowledging a unit whose batch is gone",
        _together(
            (batches, "complete_unit", _asking_again),
            (batches, "resume_unit", _not_over),
            (batches, "unit_is_wanted", lambda *_: True),
        ),
        batches_world.run,
    ),
    _fault("batch-4", "removing counters before outcomes", batch_sweep, "remove", _units_first),
    _fault("batch-4", "removing what is of one life only", batch_sweep, "_emptied", _whatever_the_life),
    _fault("batch-4", "the guard of a header's removal", batch_sweep, "remove", _header_blindly),
    _fault("batch-6", "the guard of a retry", batch_units, "_overwritten", _overwritten_blindly),
    _fault("batch-6", "overwriting by a later attempt only", units, "may_overwrite", _forgetful_retry),
    _fault("batch-6", "leaving a retry uncounted", batch_units, "_overwritten", _counted_again),
    _fault("batch-6", "failures counted at the end", batch_walk, "over", lambda *_: False),
    _fault("batch-7", "completing the parent's unit at every end", rules, "announcements", _only_completed),
    _fault("end", "the guard of the end", batch_walk, "end", _unguarded),
    _fault("end", "the outbox of the end", outbox, "commit", _announced_before),
    _fault("end", "the announcement in the end's commit", batch_walk, "end", _unpromised),
    _fault("batch-5", "an end at the deadline", batch_sweep, "time_out", lambda *_: None),
    _fault("batch-5", "naming what is missing", batch_sweep, "_undone", lambda *_: []),
    _fault("sweep", "walking what stands still", batch_sweep, "walk_down", lambda *_: None),
    _fault("expand", "expanding at all", batch_tasks, "expand_page", lambda *_: None),
)
