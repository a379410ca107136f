"""Run the units of a group one after another, and record their outcomes together."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from signalbox.batches.limits import LIMITS as BATCHES_LIMITS
from signalbox.batches.model.groups import Group
from signalbox.batches.model.units import PlacedUnit, Unit, UnitOutcome, failed, succeeded
from signalbox.batches.service import groups
from signalbox.core import user_code
from signalbox.core.deliveries import Delivered
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.ports import Budget, OutOfTime, Ports
from signalbox.core.problems import Problem, Unavailable
from signalbox.payloads.model import PayloadUnread, opened_members
from signalbox.rates import service as rates
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.machine.waits import group_rate_wait
from signalbox.tasks.model.attempts import FIRST, Start
from signalbox.tasks.model.contexts import OfGroup, OfUnit, TaskSubject, is_named, of_unit
from signalbox.tasks.service import starts, unit_runs
from signalbox.tasks.service.unit_runs import CodeOfUnit, IsLive
from signalbox.tasks.storage import read_starts

Join = Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any] | None]
"""Return the payload of one call for several units, or None if they must be called one by one."""

UnitCode = Callable[[Delivered[OfUnit], TaskSubject | list[Unit] | None, Start], Any]
"""The user's function for the unit of a delivery, or for several units, whose payload is in the delivery."""


@dataclass(frozen=True, slots=True)
class GroupTime:
    """The time limits of one delivery of a group.

    `is_over` limits the whole delivery. `hold` limits how long results stay in memory before they are committed.
    """

    is_over: OutOfTime
    hold: Budget


def run_group(
    ports: Ports,
    delivered: Delivered[OfGroup],
    retry_limits: RetryLimits,
    is_live: IsLive,
    code: UnitCode,
    pace: GroupTime,
    *,
    join: Join | None = None,
) -> None:
    """Run the units of a group one after another, and record their outcomes together.

    A first delivery holds outcomes in memory. It commits them when all units have run, or when a limit on time or size
    is reached. A later delivery is careful: it runs only units without an outcome, those with the fewest starts first,
    counts each start, and commits each outcome before the next start. So a unit is given up only for its own starts.

    If the time is over, the rest is enqueued as a separate task. If a unit raised, the others run, and then its error
    is raised, so that the task is delivered again. If the batch has a rate, the task first waits for the permits of all
    units, and its later deliveries have them. Code that takes several units at once has a `join` of their
    payloads: a first delivery calls it once, with all units, and a later delivery with one unit at a time.
    """
    group = delivered.context.group
    is_careful = group.careful or delivered.is_repeated
    waits = bool(delivered.context.rate) and not delivered.context.has_permits
    if not is_live(group.units()[0]):
        return
    if (not is_careful or waits) and is_complete_already(ports, delivered):
        return
    if waits:
        wait_for_rate(ports, delivered)
        return
    todo = _fewest_starts_first(ports, groups.units_to_run(ports, group)) if is_careful else group.units()
    if not todo:
        groups.resume(ports, group)
        return
    payloads = groups.payloads_of(ports, group, delivered.context.payloads)
    run = GroupRun(ports, group, is_careful, pace.hold)
    may_join = bool(payloads) and not is_careful
    joined = _joined(delivered, payloads, todo, join) if join and may_join else None
    if joined is not None:
        for unit, result in zip(todo, _results_at_once(ports, delivered, todo, joined, code), strict=True):
            run.hold(unit, succeeded(result))
        run.end()
        return
    for place, unit in enumerate(todo if payloads else ()):
        if place and not is_live(unit):
            run.commit()
            return
        if place and pace.is_over():
            run.end()
            groups.enqueue_rest(ports, group, todo[place:], careful=is_careful)
            return
        own = delivered_unit(delivered, unit, _payload_of(delivered, payloads, unit), is_repeated=is_careful)
        run.run(unit, partial(starts.start, ports, own, retry_limits, partial(code, own, own.context.subject)))
    run.end()


def is_complete_already(ports: Ports, delivered: Delivered[OfGroup]) -> bool:
    """Return whether a group is complete before its code runs. A first delivery of a group without a chain has no read.

    Units of a chain may be completed from outside, and the task of a grant may be enqueued again.
    """
    context, group = delivered.context, delivered.context.group
    may_be = group.concurrency is not None or context.has_permits or group.careful or delivered.is_repeated
    return may_be and groups.resume(ports, group)


def wait_for_rate(ports: Ports, delivered: Delivered[OfGroup]) -> None:
    """Make a group's wait for its rate, whose grant runs the group.

    If the wait is refused, or was cancelled, record its units as failed. A repeat enqueues the task of a grant again.
    """
    context = delivered.context
    failure = "" if context.wait_ended else _refusal(ports, delivered)
    if failure is not None:
        detail = failure or f"The wait for a permit of the rate {context.rate!r} was cancelled."
        _fail(ports, context.group, detail)


def _refusal(ports: Ports, delivered: Delivered[OfGroup]) -> str | None:
    """Make the wait. Return the reason why it is refused, an empty text if it was cancelled, or None."""
    try:
        answer = rates.wait(ports, delivered.context.rate, group_rate_wait(delivered))
    except Problem as problem:
        return problem.detail
    return "" if answer.state == "cancelled" else None


def _fail(ports: Ports, group: Group, detail: str) -> None:
    """Record the units of a group that have no outcome as failed."""
    left = groups.units_to_run(ports, group)
    for unit in left:
        ports.log.error("unit failed", batch=unit.batch, index=unit.index, detail=detail)
    groups.complete_units(ports, group, dict.fromkeys(left, failed(detail)))


class GroupRun:
    """The outcomes that a delivery of a group holds, and the error that it raises in the end."""

    def __init__(self, ports: Ports, group: Group, is_careful: bool, hold: Budget) -> None:
        self._ports, self._group, self._is_careful, self._hold = ports, group, is_careful, hold
        self._held: dict[PlacedUnit, UnitOutcome] = {}
        self._is_held_long = hold()
        self._error: Exception | None = None

    def run(self, unit: PlacedUnit, code: CodeOfUnit) -> None:
        """Run a unit. An error other than a `Problem` is raised at the end of the delivery."""
        try:
            outcome = unit_runs.outcome_of(self._ports, unit, code)
        except Exception as error:  # noqa: BLE001 - the other units of the group run first
            log = self._ports.log
            log.error("unit raised, to be retried", batch=unit.batch, index=unit.index, exception=error)
            self._error = error
            return
        if outcome is not None:
            self.hold(unit, outcome)

    def hold(self, unit: PlacedUnit, outcome: UnitOutcome) -> None:
        """Hold the outcome of a unit, and commit if that is due."""
        if not self._held:
            self._is_held_long = self._hold()
        self._held[unit] = outcome
        held_bytes = sum(len(outcome.text) for outcome in self._held.values())
        if self._is_careful or held_bytes >= BATCHES_LIMITS.group_commit_bytes_max or self._is_held_long():
            self.commit()

    def commit(self) -> None:
        """Commit the outcomes that are held."""
        if self._held:
            groups.complete_units(self._ports, self._group, self._held)
            self._held = {}

    def end(self) -> None:
        """Commit, and raise a unit's error, if any, so that the task is delivered again."""
        self.commit()
        if self._error is not None:
            raise self._error


def delivered_unit(
    delivered: Delivered[OfGroup], unit: PlacedUnit, payload: Mapping[str, Any], *, is_repeated: bool
) -> Delivered[OfUnit]:
    """Return a unit's part of a delivery of its group: under its own operation, which counts its starts.

    A group that was delivered before is always careful, so its units are repeated.
    """
    own = replace(delivered, operation=unit.operation, executions=int(is_repeated))
    return replace(own, payload=payload).within(of_unit(unit, delivered.context))


def _payload_of(delivered: Delivered[OfGroup], payloads: Mapping[int, Any], unit: PlacedUnit) -> Mapping[str, Any]:
    return {**delivered.payload, **payloads[unit.offset]}


def _joined(
    delivered: Delivered[OfGroup], payloads: Mapping[int, Any], todo: Sequence[PlacedUnit], join: Join
) -> Mapping[str, Any] | None:
    """Return the arguments of one call for several units, or None if the units run one by one."""
    each = [_payload_of(delivered, payloads, unit) for unit in todo]
    if not is_named(delivered.context):
        return join(each)
    with suppress(PayloadUnread):
        return join([opened_members(payload) for payload in each])
    return None


def _results_at_once(
    ports: Ports, delivered: Delivered[OfGroup], todo: Sequence[PlacedUnit], joined: Mapping[str, Any], code: UnitCode
) -> Sequence[Any]:
    """Call the code with all units, and return its results. After any error, the units are retried one at a time."""
    try:
        first = replace(of_unit(todo[0], delivered.context), record={})  # the joined arguments are values
        own = replace(delivered, payload=joined).within(first)
        units = [Unit(unit.batch, unit.index, unit.attempt) for unit in todo]
        results: Sequence[Any] = user_code.run(partial(code, own, units, FIRST))
    except Exception as error:
        ports.log.error("units raised, to be retried one by one", batch=todo[0].batch, exception=error)
        raise Unavailable("the code of several units raised") from error
    return results


def _fewest_starts_first(ports: Ports, todo: Sequence[PlacedUnit]) -> list[PlacedUnit]:
    starts = read_starts(ports, [unit.operation for unit in todo])
    return sorted(todo, key=lambda unit: (starts[unit.operation], unit.index))
