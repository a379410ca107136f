"""The idempotency keys of the calls that a task makes: a second delivery repeats them and adds none.

A task's operation id is the same in every delivery. A key consists of the operation, the content of the call (with its
payload), and the number of identical calls before it. So the order of different calls does not matter. A lease that the
task holds counts as the lease of its semaphore, since each delivery holds it under another token.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Any

from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _RunningTask:
    operation: str
    is_repeated: bool
    calls: dict[str, dict[int, object]] = field(default_factory=dict)
    leases: dict[Any, str] = field(default_factory=dict)


_running_task: ContextVar[_RunningTask | None] = ContextVar("signalbox.running_task", default=None)


@contextmanager
def idempotent_calls(operation: str, *, is_repeated: bool = True) -> Iterator[None]:
    """Derive the keys of all calls inside the context from `operation`.

    `is_repeated`: whether the running task was delivered before, or may have been.
    """
    token = _running_task.set(_RunningTask(operation, is_repeated))
    try:
        yield
    finally:
        _running_task.reset(token)


def is_in_task() -> bool:
    """Return whether a task is running. The calls of a running task have keys."""
    return _running_task.get() is not None


def is_repeated() -> bool:
    """Return whether the running task was, or may have been, delivered before."""
    task = _running_task.get()
    return task is None or task.is_repeated


def hold(names: Mapping[Any, str]) -> None:
    """Remember the values of the running task's lease, mapped to the names that replace them in calls' content."""
    task = _running_task.get()
    if task is not None:
        task.leases.update(names)


def content_of(call: Call) -> str:
    """Return a call's content as text: the same in every delivery of the task that makes the call."""
    return sorted_json([call.function, call.task, call.queue, without_leases(call.payload)])


def idempotency_key(*call: object) -> str | None:
    """Return the key of a call that is made now, or None outside of tasks, where a repeat cannot be recognised."""
    task = _running_task.get()
    if task is None:
        return None
    name = name_of(sorted_json([without_leases(part) for part in call]))
    return name_of(task.operation, name, _number(task.calls.setdefault(name, {})))


def _number(made: dict[int, object]) -> int:
    """Return the number of a call among the equal ones that were `made`, and add it. Threads may do so at once."""
    number, own = len(made) + 1, object()
    while made.setdefault(number, own) is not own:
        number += 1
    return number


def without_leases(value: Any) -> Any:
    """Return a value in which names, given to `hold`, replace the values of the running task's leases."""
    if isinstance(value, Mapping):
        return {name: without_leases(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_leases(item) for item in value]
    task = _running_task.get()
    if task is None or isinstance(value, bool) or not isinstance(value, str | int):
        return value
    return task.leases.get(value, value)


def sorted_json(content: object) -> str:
    """Return content as JSON: the same text for the same content."""
    return json.dumps(content, sort_keys=True)
