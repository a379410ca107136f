"""Run a user's task with its subject (a lease, a unit, the run of a critical section), however often it is delivered.

    subject      before the code          the code returns           it raises a Problem        any other exception
    lease        claim it; if lost, end   release it, if requested   release it, log the error  keep it; retried
    section      claim it; if over, end   end the run                end the run, log it        release it; retried
    unit         if done before, end      record the result          record the failure         retried
    with rate    wait for it once         record the result          record the failure         retried
    with permit  claim it; if lost, wait  record, release it         record, release it         keep it; retried
    grouped      -                        hold the result            hold the failure           retried, with others
    none, other  -                        -                          log the error              retried

With `release_on_failure`, the lease is released instead of kept: the attempt that failed makes the wait for the next
attempt, then releases its lease, and is acknowledged. If a process ends in between, either its delivery is repeated or
the wait continues (docs/protocols/tasks.md).

Right before the code, its start is counted (`start`), so that a task whose code fails every time still ends: one start
too many does not run the code, but releases the lease, or records the unit as failed. An earlier error, such as an
unavailable store, counts nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from signalbox.batches.limits import LIMITS as BATCHES_LIMITS
from signalbox.batches.model.groups import Group
from signalbox.batches.model.units import PlacedUnit, Unit, UnitOutcome, failed, succeeded
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import groups, units
from signalbox.batches.service.sub_batches import populate_sub_batch
from signalbox.core.effects import Json
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import SERVER_TIME, AlreadyExists, Budget, Must, OutOfTime, Ports, Put
from signalbox.core.problems import GaveUp, Problem, Unavailable
from signalbox.core.times import rfc3339
from signalbox.critical_sections import service as critical_sections
from signalbox.critical_sections.model import SectionRun
from signalbox.rates import service as rates
from signalbox.semaphores.model.leases import Lease
from signalbox.semaphores.model.semaphore import waiter_path
from signalbox.semaphores.model.waiters import WaitAnswer
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases, waits
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.machine.failures import explained, text_of
from signalbox.tasks.machine.permit_release import is_released_at_once, is_released_on_return, may_wait_again
from signalbox.tasks.machine.waits import (
    next_wait,
    next_wait_id,
    repeated_wait,
    unit_rate_wait,
    unit_wait,
    unit_wait_ids,
)
from signalbox.tasks.model import FIRST, Attempt, ErrorNote, Start, TaskSubject, subject_of
from signalbox.tasks.service import failures
from signalbox.tasks.storage import count_start, end_retries, note_error, read_starts

Returned = TypeVar("Returned")

IsLive = Callable[[PlacedUnit], bool]
"""Return whether a unit should run, since its batch has not ended; may be a few seconds old."""

Code = Callable[[TaskSubject | None, Start], Json | BatchSpec]
"""The user's function, with its arguments bound except for its subject and its start. What it returns is a unit's
result; a `BatchSpec` is a batch whose completion is the result."""


def run(ports: Ports, attempt: Attempt, retry_limits: RetryLimits, is_live: IsLive, code: Code) -> None:
    """Run the code as the table above shows. Raises `Problem` for a permanent error; anything else is to be retried."""

    def started(subject: TaskSubject | None) -> Json | BatchSpec:
        return start(ports, attempt, retry_limits, lambda begun: code(subject, begun))

    match subject_of(attempt.context):
        case Lease():
            _run_with_lease(ports, attempt, started)
        case SectionRun():
            critical_sections.run(ports, attempt.context["section"], started)
        case Unit() as unit:
            _deliver_unit(ports, attempt, is_live, lambda: started(unit))
        case subject:
            started(subject)


# --- attempts ---


def start(ports: Ports, attempt: Attempt, retry_limits: RetryLimits, code: Callable[[Start], Returned]) -> Returned:
    """Count a start and run the code with it. Raises `GaveUp` instead if that would be one start too many.

    Raises `Unavailable`, and runs nothing, if a repeated attempt cannot be counted.
    """
    begun = count_start(ports, attempt) if attempt.is_repeated else FIRST
    if not retry_limits.allow(begun):
        problem = gave_up(ports, attempt, retry_limits)
        give_up(ports, attempt, begun, problem)
        raise problem
    try:
        returned = code(begun)
    except Problem as problem:
        give_up(ports, attempt, begun, problem)
        raise
    except Exception as error:
        note_error(ports, attempt, begun, text_of(error))
        raise
    end_retries(ports, attempt, begun)
    return returned


def wait_for_newer_code(ports: Ports, attempt: Attempt, is_coming: Callable[[], bool]) -> None:
    """Raise `Unavailable` for a task that this code does not know, for a few minutes after its first delivery.

    Meanwhile a deployment may be under way, and a newer instance may know it. If `is_coming` says that the deployment
    has the task, `Unavailable` is raised however long it takes. No start of the code is counted.
    """
    seconds = CORE_LIMITS.deployment_seconds
    if not attempt.is_repeated or is_coming() or not _is_known_for(ports, attempt, seconds):
        raise Unavailable(f"{attempt.function} does not know the task {attempt.task!r}; a newer deployment may")


def _is_known_for(ports: Ports, attempt: Attempt, seconds: float) -> bool:
    """Return whether the record of a task's starts is that old; create the record if there is none."""
    [read] = ports.store.read(attempt.record_path)
    if read.create_time is None:
        no_starts = {"starts": 0, "errors": 0, "counted_at": SERVER_TIME}
        with suppress(AlreadyExists):
            ports.store.commit([Put(attempt.record_path, no_starts, Must.NOT_EXIST)])
        return False
    return read.read_time - read.create_time >= timedelta(seconds=seconds)


def give_up(ports: Ports, attempt: Attempt, begun: Start, problem: Problem) -> None:
    """Keep a task that is given up. Raises `Unavailable` if that is impossible now; then nothing else may follow.

    A unit is not kept here, since its batch records it as failed and can run it again. Neither is a step: its flow
    receives the error.
    """
    if not attempt.context.keys() & {"unit", "step"}:
        failures.keep(ports, attempt, begun, problem)
    end_retries(ports, attempt, begun)


def gave_up(ports: Ports, attempt: Attempt, retry_limits: RetryLimits) -> GaveUp:
    """Return the error of a task that was started too often, with the last noted error. Raises `Unavailable`."""
    [read] = ports.store.read(attempt.record_path)
    note = ErrorNote.from_record(read.data)
    detail = explained(f"Gave up after {retry_limits.attempts_max} attempts.", note)
    return GaveUp(detail, *((note.error, note.traceback) if note else ()))


# --- leases ---


def _run_with_lease(ports: Ports, attempt: Attempt, code: Callable[[Lease], object]) -> None:
    granted = attempt.context["lease"]
    if attempt.is_repeated and is_resumed(ports, granted):
        _confirm_and_release(ports, attempt)
        return
    claimed = leases.claim(ports, granted)
    if claimed is None:
        ports.log.info("lease lost, task dropped", semaphore=granted["semaphore"], lease=granted["id"])
        return
    with _kept_or_released(ports, claimed):
        returned = run_or_wait_again(ports, attempt, claimed, code)
    if returned and is_released_on_return(granted):
        leases.release(ports, claimed)


def _confirm_and_release(ports: Ports, attempt: Attempt) -> None:
    """Release the permit of an attempt whose next wait exists, once the semaphore is closed for that wait.

    The delivery that made the wait may have died before it closed the semaphore. In an open semaphore, no operation
    would find the wait.
    """
    granted = attempt.context["lease"]
    waits.confirm_again(ports, granted["semaphore"], next_wait_id(granted))
    leases.release(ports, granted)


@contextmanager
def _kept_or_released(ports: Ports, lease: Lease, **named: object) -> Iterator[None]:
    """If an error is raised, release the permit or keep it for the retry. `named` are added to the log line."""
    try:
        yield
    except Exception as error:
        if is_released_at_once(error):
            leases.release(ports, lease)
            raise
        ends_at = rfc3339(lease.ends_at)
        ports.log.info("lease kept for the retry", semaphore=lease.semaphore, lease=lease.id, ends_at=ends_at, **named)
        raise


def is_resumed(ports: Ports, granted: Mapping[str, Any]) -> bool:
    """Return whether a delivery of the task under this grant has made the next wait, from which the task continues."""
    if not may_wait_again(granted):
        return False
    [waiter] = ports.store.read(waiter_path(granted["semaphore"], next_wait_id(granted)))
    return waiter.data is not None


def run_or_wait_again(ports: Ports, attempt: Attempt, lease: Lease, code: Callable[[Lease], object]) -> bool:
    """Run the code; return whether it returned. Otherwise it raised, and its next attempt waits for a permit.

    Raises what the code raises: a `Problem`, or any error if the task does not wait again.
    """
    try:
        code(lease)
    except Exception as error:
        if is_released_at_once(error) or not may_wait_again(attempt.context["lease"]):
            raise
        if not _wait_again(ports, attempt):
            raise
        ports.log.error("attempt failed, permit released", semaphore=lease.semaphore, lease=lease.id, exception=error)
        leases.release(ports, lease)
        return False
    return True


def _wait_again(ports: Ports, attempt: Attempt) -> bool:
    """Make the wait for the next attempt; return False if that is impossible, or if its outcome is unknown."""
    try:
        waits.wait(ports, attempt.context["lease"]["semaphore"], next_wait(attempt))
    except (Problem, Unavailable):
        return False
    return True


# --- units ---


def _deliver_unit(ports: Ports, attempt: Attempt, is_live: IsLive, code: Callable[[], Json | BatchSpec]) -> None:
    """Run a unit that has no outcome and whose batch has not ended: at once, or when it has its permits."""
    record, granted = attempt.context["unit"], attempt.context.get("lease")
    unit = PlacedUnit.from_record(record)
    had_permits = granted is not None or "wait_ended" in record or record.get("granted", False)
    may_have_run = attempt.is_repeated or had_permits
    if not is_live(unit) or units.need_not_run(ports, unit, is_repeated=may_have_run):
        _release_and_withdraw(ports, attempt)
    elif ended := record.get("wait_ended"):
        _fail(ports, unit, f"The wait for a permit of {_limiter(record)} was {_ENDED[ended]}.")
    elif granted is not None:
        _run_unit_with_lease(ports, attempt, unit, code)
    elif record.get("semaphore"):
        _wait_for_permit(ports, unit, record["semaphore"], unit_wait(attempt))
    elif record.get("rate") and not record.get("granted"):
        _wait_for_rate(ports, unit, record, attempt)
    else:
        _run_unit(ports, unit, code)


def _release_and_withdraw(ports: Ports, attempt: Attempt) -> None:
    """Release the permit of a unit that does not run, and withdraw the waits that an earlier delivery may have made.

    If that delivery died after it had created a wait, and before it had closed the semaphore, no operation finds the
    wait.
    """
    granted, semaphore = attempt.context.get("lease"), attempt.context["unit"].get("semaphore")
    if granted is not None:
        _release(ports, granted)
    if semaphore and attempt.is_repeated:
        for id_ in unit_wait_ids(attempt):
            waits.withdraw(ports, semaphore, id_)


_ENDED = {"cancelled": "cancelled", "deleted": "ended, because the semaphore was deleted"}


def _limiter(record: Mapping[str, Any]) -> str:
    return f"the rate {record['rate']!r}" if record.get("rate") else f"the semaphore {record['semaphore']!r}"


def _wait_for_rate(ports: Ports, unit: PlacedUnit, record: Mapping[str, Any], attempt: Attempt) -> None:
    """Make a unit's wait for its rate, whose grant runs the unit.

    If the wait is refused, or was cancelled, record the unit as failed. A repeat enqueues the task of a grant again.
    """
    try:
        answer = rates.wait(ports, record["rate"], unit_rate_wait(unit, attempt))
    except Problem as problem:
        _fail(ports, unit, problem.detail)
    else:
        if answer.state == "cancelled":
            _fail(ports, unit, f"The wait for a permit of {_limiter(record)} was cancelled.")
        else:
            units.look_again(ports, unit)


def _run_unit_with_lease(
    ports: Ports, attempt: Attempt, unit: PlacedUnit, code: Callable[[], Json | BatchSpec]
) -> None:
    """Run a unit under its lease, and release it. If the lease is lost, the unit waits for a permit again."""
    granted = attempt.context["lease"]
    claimed = leases.claim(ports, granted)
    if claimed is None:
        lost = {"semaphore": granted["semaphore"], "lease": granted["id"]}
        ports.log.info("lease lost, unit waits again", **lost, batch=unit.batch, index=unit.index)
        answer = _wait_for_permit(ports, unit, granted["semaphore"], repeated_wait(attempt))
        if answer is not None and answer.ended:
            _wait_for_permit(ports, unit, granted["semaphore"], next_wait(attempt))
        return
    with _kept_or_released(ports, claimed, batch=unit.batch, index=unit.index):
        _run_unit(ports, unit, code)
    _release(ports, claimed)


def _wait_for_permit(ports: Ports, unit: PlacedUnit, semaphore: str, request: WaitRequest) -> WaitAnswer | None:
    """Make a unit's wait, whose grant runs the unit. If it is refused, record the unit as failed and return None."""
    try:
        answer = waits.wait(ports, semaphore, request)
    except Problem as problem:
        _fail(ports, unit, problem.detail)
        return None
    units.look_again(ports, unit)
    return answer


def _release(ports: Ports, lease: Lease | Mapping[str, Any]) -> None:
    with suppress(NoSemaphore):  # it was deleted while the unit ran
        leases.release(ports, lease)


def _fail(ports: Ports, unit: PlacedUnit, detail: str) -> None:
    ports.log.error("unit failed", batch=unit.batch, index=unit.index, detail=detail)
    units.complete_unit(ports, unit, failed(detail))


def _run_unit(ports: Ports, unit: PlacedUnit, code: Callable[[], Json | BatchSpec]) -> None:
    """Record the code's result, or populate the batch whose completion will be the result."""
    outcome = _outcome(ports, unit, code)
    if outcome is not None:
        units.complete_unit(ports, unit, outcome)


def _outcome(ports: Ports, unit: PlacedUnit, code: Callable[[], Json | BatchSpec]) -> UnitOutcome | None:
    """Run the code and return its outcome, or populate the batch whose completion will be its outcome."""
    try:
        returned = code()
        if isinstance(returned, BatchSpec):
            populate_sub_batch(ports, unit, returned)
            return None
        return succeeded(returned)
    except Problem as problem:
        ports.log.error("unit failed", batch=unit.batch, index=unit.index, detail=problem.detail)
        return failed(problem.detail)


# --- groups of units ---


UnitCode = Callable[[Attempt, TaskSubject | list[Unit] | None, Start], Any]
"""The user's function for the unit of an attempt, or for several units, whose payload is in the attempt."""


@dataclass(frozen=True, slots=True)
class GroupTime:
    """The time of one delivery of a group: `is_over` for all of it, `hold` for the results that it holds in memory."""

    is_over: OutOfTime
    hold: Budget


def run_group(
    ports: Ports,
    attempt: Attempt,
    retry_limits: RetryLimits,
    is_live: IsLive,
    code: UnitCode,
    pace: GroupTime,
    *,
    at_once: bool = False,
) -> None:
    """Run the units of a group one after another, and record their outcomes together.

    A first delivery holds outcomes in memory, and commits them when it has run all, held them long enough, or holds
    much. A later delivery is careful: it runs only units without an outcome, those with the fewest starts first, counts
    each start, and commits each outcome before the next start. So a unit is given up only for its own starts.

    If the time is over, the rest is enqueued as a task of its own. If a unit raised, the others run, and then its error
    is raised, so that the task is delivered again. Code that takes all units `at_once` is called once by a first
    delivery; a later delivery calls it with one unit at a time.
    """
    context = attempt.context["group"]
    group = Group.from_record(context)
    is_careful = group.careful or attempt.is_repeated
    if not is_live(group.units()[0]):
        return
    if not is_careful and _is_complete_already(ports, group):
        return
    todo = _fewest_starts_first(ports, groups.units_to_run(ports, group)) if is_careful else group.units()
    if not todo:
        groups.resume(ports, group)
        return
    payloads = groups.payloads_of(ports, group, context.get("payloads"))
    run = _GroupRun(ports, group, is_careful, pace.hold)
    if at_once and payloads and not is_careful:
        for unit, result in zip(todo, _results_at_once(ports, attempt, todo, payloads, code), strict=True):
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
        own = _attempt_of_unit(attempt, unit, payloads[unit.offset], is_repeated=is_careful)
        subject = Unit(unit.batch, unit.index, unit.attempt)
        run.run(unit, partial(start, ports, own, retry_limits, partial(code, own, subject)))
    run.end()


def _is_complete_already(ports: Ports, group: Group) -> bool:
    """Return whether a group of a chain is complete before its first delivery: units may be completed from outside."""
    return group.concurrency is not None and groups.resume(ports, group)


class _GroupRun:
    """The outcomes that a delivery of a group holds, and the error that it raises in the end."""

    def __init__(self, ports: Ports, group: Group, is_careful: bool, hold: Budget) -> None:
        self._ports, self._group, self._is_careful, self._hold = ports, group, is_careful, hold
        self._held: dict[PlacedUnit, UnitOutcome] = {}
        self._is_held_long = hold()
        self._error: Exception | None = None

    def run(self, unit: PlacedUnit, code: Callable[[], Json | BatchSpec]) -> None:
        """Run a unit. What it raises, except for a `Problem`, is left to the end of the delivery."""
        try:
            outcome = _outcome(self._ports, unit, code)
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
        """Commit, and raise what a unit raised: the task is delivered again."""
        self.commit()
        if self._error is not None:
            raise self._error


def _attempt_of_unit(attempt: Attempt, unit: PlacedUnit, payload: Any, *, is_repeated: bool) -> Attempt:
    """Return a unit's part of a delivery of its group: under its own operation, which counts its starts."""
    merged, context = {**attempt.payload, **payload}, {"unit": unit.to_record()}
    what = attempt.function, attempt.task, merged, attempt.queue, attempt.trace, attempt.pause_seconds
    return Attempt(unit.operation, context, int(is_repeated), 0, *what, is_late=attempt.is_late)


def _results_at_once(
    ports: Ports, attempt: Attempt, todo: Sequence[PlacedUnit], payloads: Mapping[int, Any], code: UnitCode
) -> Sequence[Any]:
    """Call the code with all units, and return its results. Whatever it raises is retried, one unit at a time."""
    calls = [{**attempt.payload, **payloads[unit.offset]} for unit in todo]
    try:
        joined = {name: [item for call in calls for item in call[name]] for name in calls[0]}
        own = replace(attempt, payload=joined, context={"unit": todo[0].to_record()})
        results: Sequence[Any] = code(own, [Unit(unit.batch, unit.index, unit.attempt) for unit in todo], FIRST)
    except Exception as error:
        ports.log.error("units raised, to be retried one by one", batch=todo[0].batch, exception=error)
        raise Unavailable("the code of several units raised") from error
    return results


def _fewest_starts_first(ports: Ports, todo: Sequence[PlacedUnit]) -> list[PlacedUnit]:
    starts = read_starts(ports, [unit.operation for unit in todo])
    return sorted(todo, key=lambda unit: (starts[unit.operation], unit.index))
