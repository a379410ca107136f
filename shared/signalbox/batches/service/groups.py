"""Enqueue groups of units, and record the outcomes of a group's units in one commit.

If all units of a group end in one commit, it marks the page's node, and the group's counter stays at 0. Otherwise it
increments the counter by the outcomes that it creates, as the commit of a single unit does. The commit requires that
none of its outcomes exists. If one does, the units with an outcome are read, and the outcomes of the others are
committed.

In a batch that limits its `concurrency`, a group is enqueued when the group `concurrency` before it is complete: by the
delivery that completes that group, and again by any later delivery of it. As for single units, the outcome is committed
before the next group's page is read, and a page is committed before its expansion reads which groups are complete.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from signalbox.batches.machine import units as machine
from signalbox.batches.machine.watch import ENDED_AT
from signalbox.batches.model.groups import Group
from signalbox.batches.model.headers import header_of
from signalbox.batches.model.large_values import claimed_outcome
from signalbox.batches.model.pages import Page, loaded
from signalbox.batches.model.tree import FAILURES, UNITS, BatchRun, Node, PageNode, counters, header_path
from signalbox.batches.model.units import PlacedUnit, UnitOutcome, UnitRecord
from signalbox.batches.service import propagation, sub_batches
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import pause
from signalbox.core.ports import (
    SERVER_TIME,
    AlreadyExists,
    Change,
    Increment,
    Must,
    Ports,
    Put,
    RecordMissing,
    Snapshot,
)
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Field
from signalbox.payloads.model import Outgoing
from signalbox.payloads.service import store as store_payloads

# --- outcomes ---


def complete_units(ports: Ports, group: Group, outcomes: Mapping[PlacedUnit, UnitOutcome]) -> None:
    """Record the outcomes of a group's units, each once. If the batch was removed, do nothing. Raises `Unavailable`."""
    left = with_stored_results(ports, outcomes)
    for attempt in range(CORE_LIMITS.rounds_max):
        try:
            return commit_outcomes(ports, group, left)
        except RecordMissing:
            return _log_removed(ports, group)
        except AlreadyExists:
            left = _without_outcome(ports, left)
        if not left:
            resume(ports, group)
            return None
        pause(ports, attempt)
    raise Unavailable("contention on the units of a group")


def with_stored_results(ports: Ports, outcomes: Mapping[PlacedUnit, UnitOutcome]) -> dict[PlacedUnit, UnitOutcome]:
    """Store large results. Return the outcomes as the records of the units contain them. Raises `Unavailable`."""
    outgoing = Outgoing()
    named = {unit: claimed_outcome(unit, outcome, outgoing) for unit, outcome in outcomes.items()}
    store_payloads(ports, outgoing)
    return named


def _without_outcome(ports: Ports, outcomes: Mapping[PlacedUnit, UnitOutcome]) -> dict[PlacedUnit, UnitOutcome]:
    found = ports.store.read(*(unit.path for unit in outcomes))
    pairs = zip(outcomes.items(), found, strict=True)
    return {unit: outcome for (unit, outcome), record in pairs if record.data is None}


def commit_outcomes(ports: Ports, group: Group, outcomes: Mapping[PlacedUnit, UnitOutcome]) -> None:
    """Commit outcomes of units that have none, with their counts. Raises `AlreadyExists` if a unit has an outcome."""
    failures = sum(outcome.state == "failed" for outcome in outcomes.values())
    records = [
        Put(unit.path, {**UnitRecord(unit, outcome).to_record(), ENDED_AT: SERVER_TIME}, Must.NOT_EXIST)
        for unit, outcome in outcomes.items()
    ]
    if len(outcomes) == group.size:
        ports.store.commit([*records, propagation.passing(group.run, group.node, group.number, failures)])
        [node] = ports.store.read(group.run.node_path(group.node))
        propagation.continue_from_page(ports, group.run, group.node, node, failures)
        follow(ports, group)
        return
    count: dict[Field, Any] = {UNITS: Increment(len(outcomes)), FAILURES: Increment(failures)}
    committed = ports.store.commit([*records, Change(group.run.counter_path(group.counter), count)])
    counts = committed.results[-1].values
    counter = group.counter.counted(counts[UNITS], counts[FAILURES])
    if counter.is_full:
        propagation.propagate_counter(ports, group.run, counter)
        follow(ports, group)


def resume(ports: Ports, group: Group) -> bool:
    """Propagate a group whose units all have an outcome, and enqueue the group that waits for it.

    Returns whether the group's task need not run, because the group is complete or the batch was removed.
    """
    paths = group.run.counter_path(group.counter), group.run.node_path(group.node)
    counted, node = ports.store.read(*paths)
    if counted.data is None or node.data is None:
        return True
    if not _is_complete(group, counted, node):
        return False
    counter = group.counter.with_record(counted.data)
    try:
        if counter.is_full:
            propagation.propagate_counter(ports, group.run, counter)
        else:
            failures = PageNode.from_record(node.data).passed[str(group.number)]
            propagation.continue_from_page(ports, group.run, group.node, node, failures)
        follow(ports, group)
    except RecordMissing:
        _log_removed(ports, group)
    return True


def _log_removed(ports: Ports, group: Group) -> None:
    ports.log.info("batch not found, units dropped", batch=group.batch, page=group.page, group=group.number)


def _is_complete(group: Group, counted: Snapshot, node: Snapshot) -> bool:
    """Return whether all units of a group have an outcome, by its counter and its page's node."""
    if counted.data is None or node.data is None:
        return False
    is_marked = str(group.number) in PageNode.from_record(node.data).passed
    return is_marked or group.counter.with_record(counted.data).is_full


# --- deliveries ---


def payloads_of(ports: Ports, group: Group, carried: Sequence[Any] | None) -> Mapping[int, Any]:
    """Return the payloads of a task's units by offset: from the task, or else from the page, unless it was removed."""
    if carried is not None:
        return {unit.offset: payload for unit, payload in zip(group.units(), carried, strict=True)}
    [read] = ports.store.read(group.page_path)
    page = loaded(read.data)
    return dict(enumerate(page.payloads())) if isinstance(page, Page) else {}


def units_to_run(ports: Ports, group: Group) -> list[PlacedUnit]:
    """Return the units of a task that have neither an outcome nor a sub-batch that will be their outcome."""
    units = group.units()
    found = ports.store.read(*(unit.path for unit in units), *(header_path(unit.sub_batch_id()) for unit in units))
    outcomes, children = found[: len(units)], found[len(units) :]
    return [
        unit
        for unit, outcome, child in zip(units, outcomes, children, strict=True)
        if outcome.data is None and not sub_batches.has_sub_batch(ports, unit, header_of(child.data))
    ]


def enqueue_rest(ports: Ports, group: Group, units: Sequence[PlacedUnit], *, careful: bool) -> None:
    """Enqueue a task for the units of a group for which the group's delivery had no time.

    The task has the group's permits.
    """
    [read] = ports.store.read(group.page_path)
    page = loaded(read.data)
    if isinstance(page, Page):
        rest = group.with_rest(units, careful=careful)
        ports.queue.create(machine.group_tasks([rest], page, read.read_time, granted=bool(page.rate)))


# --- chains ---


def expand(ports: Ports, run: BatchRun, number: int, page: Page, read: Snapshot) -> None:
    """Enqueue the groups of a page that may run now."""
    groups = due(ports, run, page.groups(run, number))
    ports.queue.create(machine.group_tasks(groups, page, read.read_time))


def due(ports: Ports, run: BatchRun, groups: Sequence[Group]) -> list[Group]:
    """Return the groups that may run: the first of each chain, and those behind a complete group."""
    return [group for group in groups if group.concurrency is None or _is_due(ports, run, group, group.concurrency)]


def _is_due(ports: Ports, run: BatchRun, group: Group, concurrency: int) -> bool:
    if group.ordinal < concurrency:
        return True
    before = find_group(ports, run, group, group.ordinal - concurrency)
    if before is None:
        return False
    paths = run.counter_path(before.counter), run.node_path(before.node)
    return _is_complete(before, *ports.store.read(*paths))


def follow(ports: Ports, group: Group) -> None:
    """Enqueue the next group of a complete group's chain if its page is loaded; otherwise the page's expansion does."""
    if (
        group.concurrency is None
        or (following := find_group(ports, group.run, group, group.ordinal + group.concurrency)) is None
    ):
        return
    [read] = ports.store.read(following.page_path)
    page = loaded(read.data)
    if isinstance(page, Page):
        ports.queue.create(machine.group_tasks([following], page, read.read_time))


def follow_unit(ports: Ports, group: Group) -> None:
    """Enqueue the next group if `group` is complete: the outcome of a single unit may have completed it."""
    paths = group.run.counter_path(group.counter), group.run.node_path(group.node)
    if _is_complete(group, *ports.store.read(*paths)):
        follow(ports, group)


def find_group(ports: Ports, run: BatchRun, near: Group, ordinal: int) -> Group | None:
    """Return the group of this number in a chain, or None if its page is not loaded; `near` is next to it in the chain.

    One read finds it if the pages between have the same size. Otherwise the group is found by halving: each page has at
    least one group, so there are at most `concurrency` pages between.
    """
    low, high = sorted((near.page, max(0, near.page + ordinal - near.ordinal)))
    pages = (ordinal - near.ordinal + near.number) // counters(near.page_units, near.per_task)
    guess = min(max(near.page + pages, low), high)
    while low <= high:
        [read] = ports.store.read(run.node_path(Node(1, guess)))
        node = None if read.data is None else PageNode.from_record(read.data)
        if node is not None and ordinal in node.groups:
            number = ordinal - node.first_group
            place = node.page, number, node.first, node.units, near.per_task
            return Group(run.batch, run.incarnation, *place, ordinal, near.concurrency)
        if node is None or ordinal < node.first_group:
            high = guess - 1
        else:
            low = guess + 1
        guess = (low + high) // 2
    return None


# --- lost tasks ---


def lost(ports: Ports, run: BatchRun, number: int, page: Page, units: Sequence[PlacedUnit]) -> list[Group]:
    """Return the groups to enqueue again, for a page's units without an outcome. Each first reads the outcomes."""
    numbers = {unit.counter.number for unit in units}
    groups = [group for group in page.groups(run, number) if group.number in numbers]
    return [replace(group, careful=True) for group in due(ports, run, groups)]
