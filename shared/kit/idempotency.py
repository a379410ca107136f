"""Idempotency keys for the calls that a task makes, so that a second delivery repeats them and adds none.

A task's operation id is the same in every delivery. Task code must issue identical calls in the same order: a key is
made of the operation, of the call, and of how many identical calls came before it.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from shared.core.rules.effects import name_of


@dataclass(frozen=True, slots=True)
class _RunningTask:
    operation: str
    calls: Counter[str] = field(default_factory=Counter)


_running_task: ContextVar[_RunningTask | None] = ContextVar("running_task", default=None)


@contextmanager
def idempotent_calls(operation: str) -> Iterator[None]:
    """Derive the idempotency keys of all calls inside from `operation`."""
    token = _running_task.set(_RunningTask(operation))
    try:
        yield
    finally:
        _running_task.reset(token)


def idempotency_key(*call: object) -> str | None:
    """Return the key of a call that is made now; None outside of a task, where a repeat cannot be recognised."""
    task = _running_task.get()
    if task is None:
        return None
    name = name_of(*call)
    task.calls[name] += 1
    return name_of(task.operation, name, task.calls[name])
