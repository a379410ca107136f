"""Every decision about a user's task: an attempt starts its code, retries it or gives it up; a failure is retried once.

A delivery says nothing about the code: it may be refused before the code is started, because the store is unavailable
or no instance is free. So the kit counts starts of the code, and the queue's headers only say whether a delivery is the
first one. `attempts_max` is 2 in this table.

    delivery  counted before  the code              written              then
    --------  --------------  --------------------  -------------------  ------------
    first     0               returns               -                    acknowledged
    first     0               raises a problem      a failure            refused
    first     0               raises another error  1 start, the error   retried
    repeated  0               returns               1 start              acknowledged
    repeated  0               raises a problem      1 start, a failure   refused
    repeated  0               raises another error  1 start, the error   retried
    repeated  1               returns               2 starts             acknowledged
    repeated  1               raises another error  2 starts, the error  retried
    repeated  2               is not started        3 starts, a failure  refused
    repeated  store is away   is not started        -                    retried

"refused": answered with 204, so the queue does not deliver the task again. A first delivery that returns counts
nothing. If its code raises, its start is counted afterwards. If it were counted before, a task whose first delivery
ended before the code would lose one of its starts; if it were never counted, the code would be started once too often.
A unit that is given up is recorded as failed in its batch, and a step in its flow, so neither is kept as a failure.

The failure of a task, in each state and after each command:

    state     a delivery gives up  retry                delete
    --------  -------------------  -------------------  ------------
    none      failed               NotFound             NotFound
    retrying  failed               StillRetried         StillRetried
    failed    failed               retried, its task    deleted
    retried   retried              retried              deleted
    deleted   deleted              Gone                 Gone

"retrying": the last error of a task that the queue delivers again.

A task that releases its lease between attempts (`release_on_failure`) waits for a permit again, and its next attempt
continues its count. The id of that wait is derived from the grant, so every delivery makes the same wait.

The calls that a task makes have idempotency keys, so that a second delivery repeats them and adds none. A task's
operation id is the same in every delivery. A key consists of the operation, the content of the call (with its payload),
and the number of identical calls before it. So the order of different calls does not matter. A lease that the task
holds counts as the lease of its semaphore, since each delivery holds it under another token.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from signalbox.core.calls import Call
from signalbox.core.effects import Effect, name_of
from signalbox.core.times import rfc3339
from signalbox.critical_sections.model import Grant, SectionRun
from signalbox.critical_sections.requests import SectionRequest
from signalbox.semaphores.model import Lease
from signalbox.semaphores.requests import WaitRequest
from signalbox.tasks.model import Attempt, Failure, failure_path

REQUESTED = ("permits", "lease_seconds", "release_on_return", "release_on_failure", "holder")
"""The options of a wait, as the context of its task has them."""


# --- the next attempt of a task that released its lease ---


def resumed(operation: str, context: Mapping[str, Any]) -> tuple[str, int]:
    """Return the operation whose attempts a delivery continues, and the number of waits for its earlier attempts."""
    lease = context.get("lease")
    known = lease if isinstance(lease, dict) else {}
    return str(known.get("resumes") or operation), int(known.get("resumed", 0))


def next_wait_id(granted: Mapping[str, Any]) -> str:
    """Return the id of the wait that follows a grant."""
    return name_of("after a failure", granted["semaphore"], granted["id"])


def next_wait(attempt: Attempt) -> WaitRequest:
    """Return the wait for the next attempt. Once granted, its task pauses as the queue would have."""
    granted = attempt.context["lease"]
    call = attempt.call.after(attempt.pause_seconds)
    counts = {"resumes": attempt.operation, "resumed": granted.get("resumed", 0) + 1}
    return WaitRequest(next_wait_id(granted), call, **_requested(granted), **counts)


def _requested(lease: Mapping[str, Any]) -> dict[str, Any]:
    return {name: lease[name] for name in REQUESTED if name in lease}


# --- the retry of a failure ---


def retry_wait(failure: Failure) -> tuple[str, WaitRequest] | None:
    """Return the semaphore and the wait for a new lease with which a retry begins; None if the task had no lease.

    The id of the wait is derived, so a repeated retry is the same wait.
    """
    lease = failure.context.get("lease")
    if lease is None:
        return None
    return lease["semaphore"], WaitRequest(name_of(failure_path(failure.id), "wait"), failure.call, **_requested(lease))


def retry_section_call(failure: Failure) -> tuple[str, SectionRequest] | None:
    """Return the key and the call of the critical section that a retry makes; None if the task had none."""
    section = failure.context.get("section")
    if section is None:
        return None
    grant = Grant.from_context(section)
    return grant.key, SectionRequest.repeating(grant, failure.call, name_of(failure_path(failure.id), "call"))


def retry_task(failure: Failure) -> Effect:
    """Return the task that runs a failed task again, under a name of its own: one for each failure."""
    path, name, call = f"/tasks/{failure.call.task}", name_of(failure_path(failure.id), "retry"), failure.call
    return Effect(name, call.queue, call.function, call.task, call.payload, path, context=failure.context)


# --- idempotency keys of its calls ---


@dataclass(frozen=True, slots=True)
class _RunningTask:
    operation: str
    is_repeated: bool
    calls: Counter[str] = field(default_factory=Counter)
    leases: dict[Any, str] = field(default_factory=dict)


_running_task: ContextVar[_RunningTask | None] = ContextVar("running_task", default=None)


@contextmanager
def idempotent_calls(operation: str, *, is_repeated: bool = True) -> Iterator[None]:
    """Derive the keys of all calls inside the context from `operation`; its delivery may be a repeated one."""
    token = _running_task.set(_RunningTask(operation, is_repeated))
    try:
        yield
    finally:
        _running_task.reset(token)


def is_repeated() -> bool:
    """Return whether the running task was delivered before, or may have been."""
    task = _running_task.get()
    return task is None or task.is_repeated


def hold(lease: object) -> None:
    """Remember the running task's lease, to replace it in the content of the task's calls. Ignore other subjects."""
    task = _running_task.get()
    if task is not None and isinstance(lease, Lease):
        parts = (lease.id, lease.token, rfc3339(lease.ends_at))
        task.leases.update(dict.fromkeys(parts, f"lease of {lease.semaphore}"))
    if task is not None and isinstance(lease, SectionRun):
        task.leases.update(dict.fromkeys((lease.token, rfc3339(lease.ends_at)), f"run of {lease.key}"))


def content_of(call: Call) -> str:
    """Return a call's content as text: the same in every delivery of the task that makes the call."""
    payload = _without_leases(call.payload, _running_task.get())
    return json.dumps([call.function, call.task, call.queue, payload], sort_keys=True)


def idempotency_key(*call: object) -> str | None:
    """Return the key of a call that is made now; None outside of tasks, where a repeat cannot be recognised."""
    task = _running_task.get()
    if task is None:
        return None
    name = name_of(*(_without_leases(part, task) for part in call))
    task.calls[name] += 1
    return name_of(task.operation, name, task.calls[name])


def _without_leases(value: Any, task: _RunningTask | None) -> Any:
    """Replace the parts of the task's own leases in a value."""
    if isinstance(value, Mapping):
        return {name: _without_leases(item, task) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_leases(item, task) for item in value]
    if task is None or isinstance(value, bool) or not isinstance(value, str | int):
        return value
    return task.leases.get(value, value)
