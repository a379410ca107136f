"""Every decision about a unit: whether its task runs, which outcome is recorded, and which tasks are enqueued.

`start` is a delivery of a unit's task, by its batch and attempt. `complete` is an outcome that arrives, by the outcome
recorded so far.

    command   batch         attempt  then
    --------  ------------  -------  ----
    start     open, sealed  first    run
    start     open, sealed  retry    run
    start     completed     first    drop
    start     completed     retry    run
    start     cancelled     any      drop
    start     none          any      drop

    command   recorded   attempt          then       counted
    --------  ---------  ---------------  ---------  -------
    complete  none       any              record     +1
    complete  succeeded  any              keep       -
    complete  failed     same or earlier  keep       -
    complete  failed     later            overwrite  -

With grouped units, one task executes a group (`group_tasks`), whose commit records several outcomes, each as above.

Only the first outcome of a unit is counted in its counter. Overwriting a failure changes no counter, because the unit
is counted already; failures are counted again at the batch's end.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from signalbox.batches.limits import LIMITS
from signalbox.batches.model.groups import Group
from signalbox.batches.model.headers import Header
from signalbox.batches.model.pages import Page
from signalbox.batches.model.tree import BatchRun, rated_record, spread
from signalbox.batches.model.units import PlacedUnit, Retries, UnitOutcome, UnitRecord
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.given import given
from signalbox.core.json_values import json_text
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.times import microseconds

CALLS_KEPT_MAX = 20
"""Calls that a unit's record names: calls that are under way at the same time, since a later one has another id."""

IDS = 1 << 32
"""The number of values of the eight hexadecimal digits of a unit's record id."""


# --- starts and outcomes ---


def may_start(header: Header | None, attempt: int) -> bool:
    """Return whether a unit may start: its batch has not ended, or it is completed and this is a retry."""
    return header is not None and (not header.ended or (header.state == "completed" and attempt > 0))


def retried_by(held: UnitRecord, unit: PlacedUnit) -> tuple[str, ...]:
    """Return the calls that have retried a unit, the last ones of many, after an attempt of it has ended."""
    calls = (unit.chain.call,) if isinstance(unit.chain, Retries) else ()
    return (*held.retried_by, *calls)[-CALLS_KEPT_MAX:]


def may_overwrite(held: UnitRecord, unit: PlacedUnit) -> bool:
    """Return whether an attempt may replace the recorded outcome: only a failure, and only by a later attempt."""
    return held.outcome.state == "failed" and held.unit.attempt < unit.attempt


def outcome_of_sub_batch(run: BatchRun, header: Header) -> UnitOutcome:
    """Return the outcome that an ended sub-batch gives to the unit that is its parent."""
    if header.state == "completed":
        return UnitOutcome("succeeded", json_text({"batch": run.batch, **header.summary()}))
    return UnitOutcome("failed", f"The sub-batch {run.batch} was {header.state}: {header.reason}.")


# --- tasks ---


def unit_tasks(
    units: Sequence[PlacedUnit], pages: Mapping[str, Page], retries: Retries | None, now: datetime
) -> list[Effect]:
    """Return the tasks that execute units: the batch's call, with the unit's payload merged over it.

    The changed arguments of `retries` are merged over both. `pages` are the units' pages by path. Units of other pages,
    and of a batch without a task, are left out.
    """
    changed: Mapping[str, Any] = {} if retries is None else retries.payload
    is_named = retries is not None and retries.is_named
    if is_named:
        pages = {path: page.with_names() for path, page in pages.items()}
    payloads = {path: page.payloads() for path, page in pages.items()}
    calls = {path: page.call for path, page in pages.items()}
    return [
        _unit_task(
            unit,
            call,
            {**payloads[unit.page_path][unit.offset], **(changed if is_named else page.arguments_of(changed))},
            page,
            now,
        )
        for unit in units
        if (page := pages.get(unit.page_path)) and (call := calls[unit.page_path])
    ]


def _unit_task(unit: PlacedUnit, call: Call, payload: Mapping[str, Any], page: Page, now: datetime) -> Effect:
    merged = replace(call, payload={**call.payload, **payload})
    rated = rated_record(page.rate, page.weight_of(merged.payload))
    limits = rated | given(semaphore=page.semaphore or None)
    return merged.effect(unit.operation, now, unit=unit.to_record() | limits | page.named)


def group_tasks(groups: Sequence[Group], page: Page, now: datetime, *, granted: bool = False) -> list[Effect]:
    """Return the tasks that execute groups of a page, with the units' payloads if the page's payloads are small.

    If the batch has a rate, they wait for permits first, and have no payloads, unless the permits are `granted`.
    """
    if (call := page.call) is None:
        return []
    waits = page.rate and not granted
    payloads = page.payloads() if len(page.text) <= LIMITS.group_payloads_bytes_max and not waits else None
    return [
        call.effect(group.task_name, now, **_of_group(group, call, page, payloads, granted=granted)) for group in groups
    ]


def _of_group(group: Group, call: Call, page: Page, payloads: Sequence[Any] | None, *, granted: bool) -> dict[str, Any]:
    """Return the context of a group's task."""
    context = group.context(payloads, page.named)
    if not page.rate:
        return context
    all_payloads = page.payloads()
    weight = page.weight_of_group([{**call.payload, **all_payloads[offset]} for offset in group.offsets])
    rated = rated_record(page.rate, weight) | given(granted=granted or None)
    return {"group": context["group"] | rated}


# --- retries ---


def retry_task(run: BatchRun, retries: Retries, *parts: object, **payload: Any) -> Effect:
    """Return a task of the kit for retries, named after their call and `parts`."""
    return run.effect_for("retry", retries.call, *parts, **payload)


def chains_of_named(chain: Retries, concurrency: int, indexes: Sequence[int]) -> list[Retries]:
    """Deal named units to at most `concurrency` chains."""
    return [replace(chain, rest=tuple(indexes[at::concurrency])) for at in range(min(concurrency, len(indexes)))]


def chains_of_all(chain: Retries, incarnation: str, chains: int) -> list[Retries]:
    """Cut the ids of all units' records into ranges with about the same number of units."""
    ends = ["", *(f"{end * IDS // chains - 1:08x}" for end in range(1, chains + 1))]
    return [
        replace(chain, after=f"{incarnation}-{after}", until=f"{incarnation}-{until}")
        for after, until in pairwise(ends)
    ]


def chain_from(unit: PlacedUnit) -> Retries:
    """Return the rest of a retry's chain, beginning with the unit itself. `unit.chain` begins after the unit."""
    assert isinstance(unit.chain, Retries), "a retry"
    if unit.chain.rest is not None or not unit.chain.is_chain:
        return replace(unit.chain, rest=(unit.index, *(unit.chain.rest or ())))
    before = int(spread(unit.index), 16) - 1
    return replace(unit.chain, after=f"{unit.incarnation}-{f'{before:08x}' if before >= 0 else ''}")


def is_retried_by(retries: Retries, recorded_at: datetime) -> bool:
    """Return whether a unit's first failure had been recorded when retries were requested."""
    return microseconds(recorded_at) <= retries.called_at
