"""The idempotency keys of the calls that a task makes: a second delivery repeats them and adds none.

A task's operation id is the same in every delivery. A key consists of the operation, the content of the call (with its
payload), and the number of identical calls before it. So the order of different calls does not matter. A lease that the
task holds counts as the lease of its semaphore, also within a text, since each delivery holds it under another token.

A task that takes several units at once has no keys: its first delivery runs the code for all units, a later one for one
unit at a time, so the same call is made at another place. Its calls need ids.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import field
from typing import Any

from signalbox.core.bound_values import Bound
from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.keys import IdSpace
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import BadCall


@dataclass(frozen=True, slots=True)
class Leaves:
    """The record that a call under a key leaves. `what` names the call in a log line."""

    what: str
    path_of: Callable[[str], str]

    def under(self, ids: IdSpace) -> "Leaves":
        """Return the same record under the id that is derived from the key."""
        return Leaves(self.what, lambda key: self.path_of(ids.derived(key)))


@dataclass(frozen=True, slots=True)
class _RunningTask:
    operation: str
    is_repeated: bool
    has_keys: bool = True
    calls: dict[str, dict[int, object]] = field(default_factory=dict)
    leases: dict[Any, str] = field(default_factory=dict)
    leaves: dict[str, Leaves] = field(default_factory=dict)


_running_task: ContextVar[_RunningTask | None] = ContextVar("signalbox.running_task", default=None)


def idempotent_calls(
    operation: str, *, is_repeated: bool = True, has_keys: bool = True
) -> AbstractContextManager[object]:
    """Derive the keys of all calls inside the context from `operation`.

    - `is_repeated`: whether the running task was delivered before, or may have been.
    - `has_keys`: False for a task that takes several units at once, whose calls without an id are refused.
    """
    return Bound(_running_task, _RunningTask(operation, is_repeated, has_keys))


def is_in_task() -> bool:
    """Return whether a task is running. The calls of a running task have keys, or need ids."""
    return _running_task.get() is not None


def needs_ids() -> bool:
    """Return whether a task that takes several units at once is running, so that its calls have no keys."""
    task = _running_task.get()
    return task is not None and not task.has_keys


def is_repeated() -> bool:
    """Return whether the running task was, or may have been, delivered before."""
    task = _running_task.get()
    return task is None or task.is_repeated


def hold(names: Mapping[Any, str]) -> None:
    """Remember the values of the running task's lease, mapped to the names that replace them in calls' content."""
    task = _running_task.get()
    if task is not None:
        task.leases.update(names)


def hold_digest(digest: str, content: bytes) -> None:
    """Remember the digest of a content that has values of the running task's leases: it differs as they do."""
    task = _running_task.get()
    if task is not None and any(str(value).encode() in content for value in tuple(task.leases)):
        task.leases[digest] = name_of(_in_text(content.decode(), task.leases))


def content_of(call: Call) -> str:
    """Return a call's content as text: the same in every delivery of the task that makes the call."""
    return sorted_json([call.function, call.task, call.queue, without_leases(call.payload)])


def idempotency_key(*call: object, leaves: Leaves | None = None) -> str | None:
    """Return the key of a call that is made now, or None outside of tasks, where a repeat cannot be recognised.

    With `leaves`, the end of the task can check whether an earlier delivery made the call more often. Raises `BadCall`
    in a task that takes several units at once.
    """
    task = _running_task.get()
    if task is None:
        return None
    if not task.has_keys:
        raise BadCall(
            f"A task that takes `list[Unit]` cannot make this call ({call[0]}) without an id: a later delivery runs "
            "the code for each unit alone, and would make the call again. Pass an `id` that is the same in each "
            'delivery, such as f"{unit.batch}-{unit.index}", or take `Unit` instead of `list[Unit]`.',
            field="id",
        )
    name = name_of(sorted_json([without_leases(part) for part in call]))
    if leaves:
        task.leaves[name] = leaves
    return name_of(task.operation, name, _number(task.calls.setdefault(name, {})))


def id_of_call(ids: IdSpace, chosen: str | None, *call: object, leaves: Leaves | None = None) -> str | None:
    """Return the id of a call, among `ids`: the one that its caller has chosen, or in a task the one from its key.

    Without both, return None. Raises `BadKey` if only the kit makes the chosen id, and `BadCall` as `idempotency_key`.
    """
    if chosen:
        return ids.check_chosen(chosen)
    key = idempotency_key(*call, leaves=leaves and leaves.under(ids))
    return key and ids.derived(key)


def _number(made: dict[int, object]) -> int:
    """Return the number of a call among the equal ones that were `made`, and add it. Threads may do so at once."""
    number, own = len(made) + 1, object()
    while made.setdefault(number, own) is not own:
        number += 1
    return number


def records_of_further_calls() -> dict[str, str]:
    """Return the paths of the records that one more call of each content would leave, and the names of the calls.

    If such a record exists, an earlier delivery of the running task has made the call more often than this one.
    """
    task = _running_task.get()
    if task is None or not task.is_repeated:
        return {}
    further = {name: name_of(task.operation, name, len(task.calls[name]) + 1) for name in task.leaves}
    return {task.leaves[name].path_of(key): task.leaves[name].what for name, key in further.items()}


def without_leases(value: Any) -> Any:
    """Return a value in which names, given to `hold`, replace the values of the running task's leases."""
    task = _running_task.get()
    return _replaced(value, task.leases) if task is not None and task.leases else value


def _replaced(value: Any, leases: Mapping[Any, str]) -> Any:
    if isinstance(value, Mapping):
        return {_in_text(name, leases): _replaced(item, leases) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, leases) for item in value]
    if isinstance(value, str):
        return _in_text(value, leases)
    return leases.get(value, value) if type(value) is int else value


def _in_text(text: str, leases: Mapping[Any, str]) -> str:
    """Return a text with the names of the leases' values in it. The values are long: times, and ids with a time."""
    for value in sorted(map(str, leases), key=len, reverse=True):
        if value in text:
            text = text.replace(value, next(name for held, name in leases.items() if str(held) == value))
    return text


def call_without_leases(call: Call) -> Call:
    """Return a call with the arguments that it has in every delivery of the task that makes it."""
    return replace(call, payload=without_leases(call.payload))


def has_leases(content: object) -> bool:
    """Return whether JSON has values of the running task's leases, at any depth: they differ in the next delivery."""
    task = _running_task.get()
    if task is None or not task.leases:
        return False
    text = sorted_json(content)
    return any(str(value) in text for value in task.leases)


def sorted_json(content: object) -> str:
    """Return content as JSON: the same text for the same content."""
    return json.dumps(content, sort_keys=True)
