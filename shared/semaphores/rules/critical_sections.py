"""A critical section: at most one run a key at a time, and calls that arrive meanwhile share the one after it.

One record a key holds the run that was granted and the one that is due next. A call changes only the next one: what is
granted is fixed, so that its task may be delivered twice.

    call ──► next ──due, and nothing runs──► run ──claim──► claimed ──end──► nothing, or the next
              ▲ merged with further calls     ▲                │ the code raised: claimed anew by its retry
              └── a wake task when it is due   └── granted ─────┘ the process died: the same, once the lease is over

A run ends when its task has ended, never by time: its lease only says from when on a second delivery of the same task
may take it over, under a new token. So the next run never begins beside one that goes on.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.core.rules.calls import Call
from shared.core.rules.effects import Decision, Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import OtherTask, TooLarge, Unavailable
from shared.core.rules.times import microseconds
from shared.semaphores.rules.section_requests import SectionRequest
from shared.semaphores.rules.sections import NextRun, Run, Section, path_of, run_record
from shared.semaphores.rules.tasks import FUNCTION, QUEUE

ID_LETTERS = 16
"""Of the hash of an id that is remembered: among a hundred, no two are alike."""

Decided = Decision[Section, bool]


def call(key: str, section: Section, request: SectionRequest, operation: str, now: datetime) -> Decided:
    """Take a call into the next run, and grant that if nothing runs. Answers whether no run is left to be granted.

    A call that is in the next run as it is needs no write: that run begins later than now. Raises `OtherTask` if the
    next run is of another task, `Unavailable` if it holds too much.
    """
    id_ = name_of(operation)[:ID_LETTERS]
    if id_ in section.ids:
        return Decision(section, section.next is None)
    merged = _merged(section.next, request, now)
    ids = (*section.ids, id_)[-LIMITS.section_ids_max :]
    decided = _advance(key, replace(section, next=merged, ids=ids), now)
    if not decided.effects and not request.id and run_record(merged) == run_record(section.next):
        return Decision(section, False)
    return decided


def wake(key: str, section: Section, at: datetime, now: datetime) -> Decided:
    """Grant the next run when it is due. Raises `Unavailable` if the queue's clock is ahead."""
    if now < at:
        raise Unavailable("the run is not due by the server's clock")
    return _advance(key, section, now)


def claim(section: Section, grant: int, holder: str, now: datetime) -> Decision[Section, Run | None]:
    """Start a run's lease for the delivery `holder`; None: this run has ended. Raises `Unavailable` if it is held."""
    run = section.run
    if run is None or run.grant != grant:
        return Decision(section, None)
    if run.is_held(now):
        if run.holder == holder:
            return Decision(section, run)
        raise Unavailable("another delivery of this run may still be running")
    token = _next_token(section, now)
    claimed = replace(run, token=token, holder=holder, ends_at=now + timedelta(seconds=run.lease_seconds))
    return Decision(replace(section, token=token, run=claimed), claimed)


def let_go(section: Section, token: int, now: datetime) -> Decided:
    """End the lease of a run whose code raised an error that is retried; the run goes on with its task's retry."""
    if section.run is None or section.run.token != token:
        return Decision(section, False)
    return Decision(replace(section, run=replace(section.run, ends_at=now)), True)


def end(key: str, section: Section, token: int, now: datetime) -> Decided:
    """End a run, and grant the next. False: another delivery has taken it over, and ends it."""
    if section.run is None or section.run.token != token:
        return Decision(section, False)
    return replace(_advance(key, replace(section, run=None), now), answer=True)


# --- the next run ---


def _merged(next_: NextRun | None, request: SectionRequest, now: datetime) -> NextRun:
    """Return the next run with a call: its arguments are the call's, its items those of all."""
    call, first_at, due_at = request.continuation, now, now + timedelta(seconds=request.debounce_seconds)
    if next_ is not None:
        _check_same_task(next_, request)
        first_at = next_.first_at
        call = _collected(call, request.collect, next_.call.payload[request.collect]) if request.collect else call
    if next_ is not None and not request.debounce_seconds:
        due_at = min(due_at, next_.due_at)
    if request.debounce_max_seconds is not None:
        due_at = min(due_at, first_at + timedelta(seconds=request.debounce_max_seconds))
    return NextRun(call, request.collect, request.lease_seconds, first_at, due_at)


def _check_same_task(next_: NextRun, request: SectionRequest) -> None:
    call = request.continuation
    if (next_.call.function, next_.call.task, next_.collect) != (call.function, call.task, request.collect):
        due = f"{next_.call.function}/{next_.call.task}"
        raise OtherTask(f"Calls under one key share a run: that of {due} is due, and must begin first.", field="key")


def _collected(call: Call, argument: str, items: list[Any]) -> Call:
    """Return the call with the items of all. Raises `Unavailable` when they are too many: the run must begin first."""
    every = [*items, *call.payload[argument]]
    full = Unavailable("the next run has collected as much as it can: it must begin first")
    if len(every) > LIMITS.collected_items_max:
        raise full
    try:
        return replace(call, payload={**call.payload, argument: every}).checked("continuation")
    except TooLarge as error:
        raise full from error


def _advance(key: str, section: Section, now: datetime) -> Decided:
    """Grant the next run, or have a task look when it is due; while a run goes on, leave that to its end."""
    if section.run is not None and _is_lost(section.run, now):
        return _granted_anew(key, section, section.run, now)
    if section.next is None or section.run is not None:
        return Decision(section, section.next is None)
    if section.next.due_at <= now:
        return _granted(key, section, section.next, now)
    if _is_armed(section, section.next, now):
        return Decision(section, False)
    due_at = section.next.due_at
    return Decision(replace(section, alarm_at=due_at), False, (wake_task(key, section, due_at),))


def _is_armed(section: Section, next_: NextRun, now: datetime) -> bool:
    """Return whether a wake task will come in time. One that is due by now may have come, and found a run going on."""
    return section.alarm_at is not None and now < section.alarm_at <= next_.due_at


def _granted(key: str, section: Section, next_: NextRun, now: datetime) -> Decided:
    token = _next_token(section, now)
    run = Run(next_.call, next_.collect, next_.lease_seconds, token, token, now)
    granted = replace(section, token=token, run=run, next=None, alarm_at=None)
    return Decision(granted, True, (run_task(key, run),))


def _next_token(section: Section, now: datetime) -> int:
    """Return a larger token: also larger than any of a record of this key that has expired."""
    return max(section.token + 1, microseconds(now))


# --- a run whose task was lost ---


def _is_lost(run: Run, now: datetime) -> bool:
    """Return whether a run has shown no sign of life for so long that its task must be lost."""
    last = run.ends_at or run.granted_at + timedelta(seconds=run.call.delay_seconds)
    return now >= last + timedelta(seconds=LIMITS.section_lost_seconds)


def _granted_anew(key: str, section: Section, run: Run, now: datetime) -> Decided:
    token = _next_token(section, now)
    anew = replace(run, grant=token, token=token, granted_at=now, holder="", ends_at=None)
    return Decision(replace(section, token=token, run=anew), section.next is None, (run_task(key, anew),))


# --- tasks ---


def run_task(key: str, run: Run) -> Effect:
    """Return the task of a run, under a name of its own for each grant."""
    ends_at = run.granted_at + timedelta(seconds=run.lease_seconds)
    context = {"key": key, "token": run.grant, "ends_at": ends_at, "collect": run.collect}
    context["lease_seconds"] = run.lease_seconds
    return run.call.effect(name_of(path_of(key), run.grant, "run"), run.granted_at, section=context)


def wake_task(key: str, section: Section, due_at: datetime) -> Effect:
    """Return the task that grants the next run when it is due."""
    name = name_of(path_of(key), section.token, "wake", microseconds(due_at))
    return Effect(name, QUEUE, FUNCTION, "wake", {"key": key, "at": due_at.isoformat()}, not_before=due_at)
