"""Faults of batch-17 to batch-21: grouped units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from signalbox.batches.model.groups import Group
from signalbox.batches.model.headers import Header
from signalbox.batches.model.pages import Page
from signalbox.batches.model.tree import UNITS, BatchRun, Counter
from signalbox.batches.model.units import PlacedUnit, UnitOutcome, succeeded
from signalbox.batches.service import groups
from signalbox.core import idempotency_keys
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Json
from signalbox.core.ports import AlreadyExists, Change, Increment, Ports, Put, RecordMissing, Store, Write
from signalbox.rates.requests import RateWaitRequest
from signalbox.tasks.model.contexts import OfGroup, OfUnit
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always, original
from tests.simulation.worlds.batches import grouped_units

Outcomes = Mapping[PlacedUnit, UnitOutcome]

commit = original("batches.commit_outcomes of groups")
resume = original("batches.resume")
run_group = original("tasks.run_group")
outcome_of = original("tasks.outcome_of")
delivered_unit = original("tasks.delivered_unit")
end = original("tasks.GroupRun.end")
group_run = original("tasks.GroupRun.run")
group_rate_wait = original("tasks.group_rate_wait")
find = original("batches.find_group")
last_sub_batch = original("batches.last_sub_batch")
idempotency_key = original("core.idempotency_key")


def in_grouped(clause: str, without: str, *replacements: Replacement) -> Fault:
    """Return a fault of grouped batches that replaces what is at these points."""
    return Fault(clause, without, always(*replacements), grouped_units.run)


class _Unguarded:
    """A store that overwrites the outcomes of units."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, writes: Sequence[Write]) -> Any:
        return self._store.commit([replace(write, guard=None) if _is_outcome(write) else write for write in writes])


def _is_outcome(write: Write) -> bool:
    return isinstance(write, Put) and "/units/" in write.path


def _overwriting(ports: Ports, group: Group, outcomes: Outcomes) -> None:
    commit(replace(ports, store=_Unguarded(ports.store)), group, outcomes)


def _all_taken_for_there(ports: Ports, group: Group, outcomes: Outcomes) -> None:
    """A commit that meets an outcome takes all of its outcomes for recorded."""
    try:
        commit(ports, group, outcomes)
    except AlreadyExists:
        resume(ports, group)
    except RecordMissing:
        return


def _counting_all(ports: Ports, group: Group, outcomes: Outcomes) -> None:
    """A commit that meets an outcome commits the others, and counts all."""
    left = groups._without_outcome(ports, outcomes)
    missing = len(outcomes) - len(left)
    commit(ports, group, left)
    if missing and left:
        ports.store.commit([Change(group.run.counter_path(group.counter), {UNITS: Increment(missing)})])


def _marking_always(ports: Ports, group: Group, outcomes: Outcomes) -> None:
    """Every commit marks the page's node."""
    commit(ports, _Smaller(group, len(outcomes)), outcomes)


class _Smaller:
    def __init__(self, group: Group, size: int) -> None:
        self._group, self.size = group, size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)


def _as_if_first(ports: Ports, delivered: Delivered[OfGroup], *more: Any, **named: Any) -> None:
    """A later delivery runs all units that are left at once, and counts no start."""
    context = replace(delivered.context, group=replace(delivered.context.group, careful=False))
    run_group(ports, replace(delivered, context=context, executions=0, retries=0), *more, **named)


def _uncounted(
    delivered: Delivered[OfGroup], unit: PlacedUnit, payload: Any, *, is_repeated: bool
) -> Delivered[OfUnit]:
    del is_repeated
    return delivered_unit(replace(delivered, retries=0), unit, payload, is_repeated=False)


def _committed_at_the_end(self: Any, unit: PlacedUnit, code: Callable[[], Json]) -> None:
    """A careful delivery holds the outcomes of its units until it ends."""
    self._is_careful = False
    group_run(self, unit, code)


def _acknowledged(self: Any) -> None:
    """A delivery in which a unit raised is acknowledged."""
    self.commit()


def _nothing_propagated(ports: Ports, group: Group) -> bool:
    """A later delivery of a complete group ends."""
    counted, node = ports.store.read(group.run.counter_path(group.counter), group.run.node_path(group.node))
    return groups._is_complete(group, counted, node)


def _full_counters_only(ports: Ports, group: Group) -> bool:
    """A later delivery propagates a full counter, and no node that the group's commit has marked."""
    [counted] = ports.store.read(group.run.counter_path(group.counter))
    if counted.data is None:
        return True
    counter: Counter = group.counter.with_record(counted.data)
    return resume(ports, group) if counter.is_full else _nothing_propagated(ports, group)


def _not_followed_when_repeated(ports: Ports, group: Group) -> bool:
    return resume(ports, replace(group, concurrency=None))


def _followed_by_its_task(ports: Ports, delivered: Delivered[OfGroup], *more: Any, **named: Any) -> None:
    """The next group is enqueued when this group's task has run, even if a unit raised."""
    group = delivered.context.group
    try:
        run_group(ports, delivered, *more, **named)
    finally:
        groups.follow(ports, group)


def _counted_with_its_group(ports: Ports, unit: PlacedUnit, code: Callable[[], Json]) -> UnitOutcome | None:
    """A unit that returns a sub-batch has its outcome at once."""
    outcome = outcome_of(ports, unit, code)
    return succeeded("a sub-batch") if outcome is None and unit.per_task else outcome


def _first_only(ports: Ports, run: BatchRun, of_page: Sequence[Group]) -> list[Group]:
    """A page's expansion does not check whether a group before is complete."""
    del ports, run
    return [group for group in of_page if group.concurrency is None or group.ordinal < group.concurrency]


def _on_its_own_page(ports: Ports, run: BatchRun, near: Group, ordinal: int) -> Group | None:
    """The next group is looked for on the same page."""
    found = find(ports, run, near, ordinal)
    return found if found is None or found.page == near.page else None


def _the_first_sub_batch(ports: Ports, unit: PlacedUnit, first: Header | None) -> tuple[str, Header | None]:
    """The end of a unit's first sub-batch is enqueued again, also if another has replaced it."""
    id_, last = last_sub_batch(ports, unit, first)
    return (id_, last) if last is None or not last.ended else (unit.sub_batch_id(), first)


def _sharing_a_key(*call: object, leaves: idempotency_keys.Leaves | None = None) -> str | None:
    """The calls of a task of several units have keys of the running delivery's operation."""
    task = idempotency_keys._running_task.get()
    with idempotency_keys.idempotent_calls(task.operation if task else ""):
        return idempotency_key(*call, leaves=leaves)


def _of_one_unit(page: Page, payloads: Sequence[Mapping[str, Any]]) -> Any:
    return page.weight_of(payloads[0])


def _a_wait_for_each_delivery(delivered: Delivered[OfGroup]) -> RateWaitRequest:
    request = group_rate_wait(delivered)
    return replace(request, id=f"{request.id}-{delivered.retries}")


FAULTS = (
    in_grouped("batch-21", "the permits of all units of a task", ("batches.Page.weight_of_group", _of_one_unit)),
    in_grouped(
        "batch-21",
        "one wait of a rate for all deliveries of a group",
        ("tasks.group_rate_wait", _a_wait_for_each_delivery),
    ),
    in_grouped("batch-21", "the group of a cancelled wait", ("rates.unit_task", lambda *_: ())),
    in_grouped("batch-18", "ids of the calls of several units", ("core.idempotency_key", _sharing_a_key)),
    in_grouped(
        "batch-16", "the end of a sub-batch that replaced another", ("batches.last_sub_batch", _the_first_sub_batch)
    ),
    in_grouped(
        "batch-17", "outcomes of a group that must not exist", ("batches.commit_outcomes of groups", _overwriting)
    ),
    in_grouped(
        "batch-17", "the others of a commit that meets an outcome", ("batches.complete_units", _all_taken_for_there)
    ),
    in_grouped("batch-17", "counting what a commit records", ("batches.commit_outcomes of groups", _counting_all)),
    in_grouped(
        "batch-17", "marking the node by a whole group only", ("batches.commit_outcomes of groups", _marking_always)
    ),
    in_grouped("batch-17", "leaving out a unit with a sub-batch", ("tasks.outcome_of", _counted_with_its_group)),
    in_grouped("batch-18", "the care of a later delivery", ("tasks.run_group", _as_if_first)),
    in_grouped("batch-18", "counting the starts of each unit", ("tasks.delivered_unit", _uncounted)),
    in_grouped("batch-18", "a commit before the next start", ("tasks.GroupRun.run", _committed_at_the_end)),
    in_grouped("batch-19", "the rest of a group", ("batches.enqueue_rest", lambda *_, **__: None)),
    in_grouped("batch-19", "delivering a group again in which a unit raised", ("tasks.GroupRun.end", _acknowledged)),
    in_grouped("batch-19", "propagating a group that is delivered again", ("batches.resume", _nothing_propagated)),
    in_grouped("batch-19", "propagating what a whole group has marked", ("batches.resume", _full_counters_only)),
    in_grouped("batch-19", "enqueuing the groups of a silent page again", ("batches.lost", lambda *_: [])),
    in_grouped("batch-20", "the next group", ("batches.follow of groups", lambda *_: None)),
    in_grouped("batch-20", "the next group of a repeated delivery", ("batches.resume", _not_followed_when_repeated)),
    in_grouped("batch-20", "a complete group before the next", ("tasks.run_group", _followed_by_its_task)),
    in_grouped("batch-20", "the next group after a sub-batch", ("batches.follow_unit", lambda *_: None)),
    in_grouped("batch-20", "groups that wait", ("batches.due", lambda _, __, of_page: list(of_page))),
    in_grouped("batch-20", "looking before the groups of a new page", ("batches.due", _first_only)),
    in_grouped("batch-20", "groups on later pages", ("batches.find_group", _on_its_own_page)),
    in_grouped("batch-20", "the look before a group's first delivery", ("tasks.is_complete_already", lambda *_: False)),
)
