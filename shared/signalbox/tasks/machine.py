"""Every decision about a user's task: an attempt starts its code, retries it or gives it up; a failure is retried once.

A delivery does not show that the code was started: it may be refused before, because the store is unavailable or no
instance is free. So the kit counts starts of the code, and the queue's headers only say whether a delivery is the first
one. `attempts_max` is 2 in this table.

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

A transaction is a call without a payload. Its content is its code: where the code is, and the values that it was given
by its closure, its defaults and `functools.partial`. Texts, integers and the like are part of the key. Values that may
be read or computed again, such as documents and times, are not: the receipt has their digest, and a repeat with other
values is refused.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from signalbox.batches.model.units import PlacedUnit
from signalbox.core.calls import Call
from signalbox.core.effects import Effect, name_of
from signalbox.core.times import rfc3339
from signalbox.critical_sections.model import Grant, SectionRun
from signalbox.critical_sections.requests import SectionRequest
from signalbox.rates.requests import RateWaitRequest
from signalbox.semaphores.model import Lease, parse_lease_id
from signalbox.semaphores.requests import WaitRequest
from signalbox.tasks.model import Attempt, Failure, failure_path
from signalbox.tasks.problems import NotRepeatable

REQUESTED = ("permits", "lease_seconds", "release_on_return", "release_on_failure", "holder", "unit", "key", "priority")
"""The options of a wait, as the context of its task has them."""


# --- the next attempt of a task that released its lease ---


def resumed(operation: str, context: Mapping[str, Any]) -> tuple[str, int]:
    """Return the operation whose attempts a delivery continues, and the number of waits for its earlier attempts."""
    lease = context.get("lease")
    known = lease if isinstance(lease, dict) else {}
    return str(known.get("resumes") or operation), int(known.get("resumed", 0))


# --- units that need a permit, or permits of a rate ---


def unit_wait(attempt: Attempt) -> WaitRequest:
    """Return the wait of a unit for a permit: the same in every delivery of the unit's task."""
    operation, unit = attempt.operation, json.dumps(attempt.context["unit"])
    return WaitRequest(operation, attempt.call, release_on_return=True, resumes=operation, unit=unit)


def unit_rate_wait(unit: PlacedUnit, attempt: Attempt) -> RateWaitRequest:
    """Return the wait of a unit for its rate: the same in every delivery, and after the rate was deleted."""
    record = attempt.context["unit"]
    of_unit = {"unit": json.dumps(record), "batch": unit.run.key}
    return RateWaitRequest(unit.operation, attempt.call, record["weight"], **of_unit)


def repeated_wait(attempt: Attempt) -> WaitRequest:
    """Return the wait that a task's grant belongs to."""
    granted = attempt.context["lease"]
    counts = {"resumes": attempt.operation, "resumed": granted.get("resumed", 0)}
    return WaitRequest(parse_lease_id(granted["id"])[0], attempt.call, **_requested(granted), **counts)


def with_unit(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the context of a task, with the unit for which it has waited for its lease."""
    lease = context.get("lease")
    unit = lease.get("unit") if isinstance(lease, dict) else None
    return {**context, "unit": json.loads(unit)} if unit else context


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


def check_repeatable(failure: Failure) -> Failure:
    """Return a failure of a task. Raises `NotRepeatable` for one of an event, which only Firestore delivers."""
    if "event" in failure.context:
        path = failure.call.payload["path"]
        raise NotRepeatable(f"Only a write causes an event: write {path} again, then delete this failure.", field="id")
    return failure


# --- events ---

EVENT_HANDLER = "document_written"
"""The name under which the failure of an event is listed."""


def event_attempt(function: str, event_id: str, path: str, trace: str) -> Attempt:
    """Return a delivery of the event of a record's write as an attempt. Its operation is the same in every delivery."""
    operation, payload = name_of("event", function, event_id), {"event": event_id, "path": path}
    return Attempt(operation, {"event": event_id}, function=function, task=EVENT_HANDLER, payload=payload, trace=trace)


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


def is_in_task() -> bool:
    """Return whether a task is running, whose calls have keys."""
    return _running_task.get() is not None


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
    name = name_of(_text([_without_leases(part, task) for part in call]))
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


def _text(content: object) -> str:
    return json.dumps(content, sort_keys=True)


# --- code ---


class UnknownContentError(ValueError):
    """A value of which nothing is known that is the same in every delivery, so code with it has no content."""


@dataclass(frozen=True, slots=True)
class CodeContent:
    """The content of code: `name` identifies it in every delivery; `digest` is a hash of its other values."""

    name: str
    digest: str


def content_of_code(code: Callable[..., object], caller: CodeType) -> CodeContent:
    """Return the content of code that `caller` runs. Raises `UnknownContentError` for a value without known content.

    `name` does not depend on line numbers, which every deployment may change.
    """
    task = _running_task.get()
    try:
        place, values = _place_and_values(code, caller)
        contents = {name: _without_leases(_content(name, value), task) for name, value in values.items()}
        fixed = {name: content for name, content in contents.items() if _is_fixed(values[name])}
    except RecursionError as error:
        raise UnknownContentError("functions that refer to each other") from error
    others = {name: content for name, content in contents.items() if name not in fixed}
    return CodeContent(name_of(_text([place, fixed, sorted(others)])), name_of(_text(others)))


def name_of_code(code: Callable[..., object]) -> str:
    """Return a hash of the name of code, which stays the same while its lines and its values change."""
    while isinstance(code, partial):
        code = code.func
    named = code if hasattr(code, "__qualname__") else type(code)
    return name_of(named.__module__, named.__qualname__)


def _place_and_values(code: object, caller: CodeType | None, prefix: str = "") -> tuple[list[Any], dict[str, Any]]:
    """Return where code is, and the values that it was given, by name."""
    if isinstance(code, partial):
        place, values = _place_and_values(code.func, caller, f"{prefix}partial ")
        given = {str(number): value for number, value in enumerate(code.args)} | code.keywords
        return ["partial", place], values | {f"{prefix}{name}": value for name, value in given.items()}
    if isinstance(code, MethodType):
        place, values = _place_and_values(code.__func__, caller, prefix)
        return place, values | {f"{prefix}self": code.__self__}
    if isinstance(code, FunctionType):
        cells = zip(code.__code__.co_freevars, code.__closure__ or (), strict=True)
        values = {f"{prefix}{name}": _value_of(cell) for name, cell in cells if not _is(cell, code)}
        defaults = {f"{prefix}default {number}": value for number, value in enumerate(code.__defaults__ or ())}
        named = {f"{prefix}default {name}": value for name, value in (code.__kwdefaults__ or {}).items()}
        return [code.__module__, code.__qualname__, _inner_place(code, caller)], values | defaults | named
    if isinstance(name := getattr(code, "__qualname__", None), str):
        return [getattr(code, "__module__", ""), name], {}
    return [type(code).__module__, type(code).__qualname__], {f"{prefix}self": code}


def _inner_place(code: FunctionType, caller: CodeType | None) -> object:
    """Tell apart inner functions of one name: by their order in the caller's code, or else by what they do."""
    if "<locals>" not in code.__qualname__:
        return None
    inner = [const for const in caller.co_consts if isinstance(const, CodeType)] if caller else []
    namesakes = [const for const in inner if const.co_name == code.__name__]
    return namesakes.index(code.__code__) if code.__code__ in namesakes else _instructions(code.__code__)


def _instructions(value: object) -> object:
    """Return the instructions, names and constants of code, without line numbers; the `repr` of any other value."""
    match value:
        case CodeType():
            return [value.co_code.hex(), *value.co_names, *(_instructions(const) for const in value.co_consts)]
        case tuple():
            return [_instructions(item) for item in value]
        case frozenset():
            return sorted(map(repr, value))
    return repr(value)


def _value_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return None


def _is(cell: Any, code: object) -> bool:
    """Return whether a variable is the code itself, which calls itself."""
    return _value_of(cell) is code


def _is_fixed(value: object) -> bool:
    """Return whether a value is not likely to be read or computed again with another content."""
    if isinstance(value, tuple):
        return all(map(_is_fixed, value))
    if isinstance(value, partial | MethodType | FunctionType):
        return all(map(_is_fixed, _place_and_values(value, None)[1].values()))
    return isinstance(value, str | int | bytes | Enum | None) or hasattr(value, "__qualname__")


def _content(name: str, value: Any) -> Any:
    """Return a value as JSON with its type. Raises `UnknownContentError`."""
    kind = type(value).__qualname__
    match value:
        case None | bool() | int() | float() | str() if not isinstance(value, Enum):
            return value
        case Mapping():
            return [kind, sorted((_text(_content(name, key)), _content(name, item)) for key, item in value.items())]
        case list() | tuple():
            return [_content(name, item) for item in value]
        case Set():
            return [kind, sorted(_text(_content(name, item)) for item in value)]
        case Enum():
            return [kind, value.name]
        case datetime() if value.tzinfo:
            return rfc3339(value)
        case bytes() | date() | Decimal():
            return [kind, value.hex() if isinstance(value, bytes) else str(value)]
        case partial() | MethodType() | FunctionType() | type():
            place, values = _place_and_values(value, None)
            return [place, {each: _content(each, item) for each, item in values.items()}]
    if hasattr(value, "__qualname__"):
        return [value.__module__, value.__qualname__]
    if is_dataclass(value):
        return [kind, {each.name: _content(name, getattr(value, each.name)) for each in fields(value)}]
    raise UnknownContentError(f"{name} ({kind})")
