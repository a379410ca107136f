"""The shapes of records and of tasks: which fields of which types, found in what the worlds of the simulation write.

A kind of record is its path without ids (``semaphores/*/waiters/*``); a mailbox's header is a kind of its own. A kind
of task is its function and name. What users' tasks receive is a kind for each member of their context. Texts that
contain JSON are read, too.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from unittest import mock

from signalbox.core.effects import WAKE_UP_TASK, Effect, TaskEnvelope
from signalbox.core.kit_names import (
    BATCH_EXPAND,
    CALL_OBJECT,
    FLOW_COMMAND_TASK,
    FLOW_RESULT_TASK,
    LINK_REFRESH,
    LINK_VERIFY,
    SEMAPHORE_ADMIT,
    STANDING_FOLD,
)
from signalbox.core.ports import Snapshot
from signalbox.mailboxes.model.messages import HEADER
from tests.simulation.cloud_tasks import TaskQueue
from tests.simulation.world import World

KITS_FUNCTIONS = (BATCH_EXPAND, LINK_REFRESH, LINK_VERIFY, SEMAPHORE_ADMIT, STANDING_FOLD)
KITS_TASKS = (WAKE_UP_TASK, FLOW_COMMAND_TASK, FLOW_RESULT_TASK, CALL_OBJECT)
ENVELOPE = ("operation", "task", "payload")

OWN_COLLECTIONS = ("counters", "orders", "others")
"""Collections of the simulation's own."""

OF_USERS = {"arguments", "attributes", "botl", "fields", "payload", "program", "result", "text", "units", "value"}
"""Fields that contain what users have written: they are not looked into, except the payload of a task of the kit."""

KEYED_BY_DATA = {
    "enqueued",
    "kept",
    "kinds",
    "labels",
    "leases",
    "passed",
    "patches",
    "pending",
    "places",
    "progress",
    "times",
    "values",
}
"""Maps whose keys are data."""

OF_THE_KIT_IN_DOCUMENTS = ("_signalbox", "_resource")

Found = tuple[str, dict[str, Any]]
"""A kind, and a record or the body of a task."""

Pair = tuple[str, str]
"""A field, by its path, and the type of its value."""


@contextmanager
def watched(found: Callable[[str, dict[str, Any]], None]) -> Iterator[None]:
    """Call `found` with each record and each task that a world writes while the context is entered."""
    observed, take = World._observed, TaskQueue.take

    def record(world: World, path: str, before: Snapshot, after: Snapshot) -> None:
        if after.data is not None and path.partition("/")[0] not in OWN_COLLECTIONS:
            found(kind_of(path), dict(after.data))
        observed(world, path, before, after)

    def task(queue: TaskQueue, effect: Effect) -> None:
        for kind, body in tasks_of(effect):
            found(kind, body)
        take(queue, effect)

    with mock.patch.object(World, "_observed", record), mock.patch.object(TaskQueue, "take", task):
        yield


def kind_of(path: str) -> str:
    """Return the kind of a record."""
    parts = path.split("/")
    ids = [part if part == HEADER else "*" for part in parts[1::2]]
    return "/".join(part for pair in zip(parts[::2], ids, strict=True) for part in pair)


def tasks_of(effect: Effect) -> Iterator[Found]:
    """Return a task of the kit, or each member of the context of a user's task."""
    body = TaskEnvelope.of(effect).to_json()
    if effect.function in KITS_FUNCTIONS:
        yield f"task {effect.function} {effect.task}", body
    elif effect.task in KITS_TASKS:
        yield f"task {effect.task}", body
    else:
        for name in effect.context:
            yield f"context {name}", {name: body[name]}


def pairs_of(kind: str, data: Mapping[str, Any]) -> frozenset[Pair]:
    """Return the fields of a record or of a task, with their types."""
    if kind == "documents/*":
        data = {name: data[name] for name in OF_THE_KIT_IN_DOCUMENTS if name in data}
    return frozenset(_pairs(data, ""))


def _pairs(value: Any, path: str) -> Iterator[Pair]:
    name = path.rpartition(".")[2]
    if name in OF_USERS and path != "payload":
        yield path, "any"
        return
    if path:
        yield path, _type_of(value)
    read = _read(value)
    if isinstance(read, Mapping):
        for key, item in read.items():
            yield from _pairs(item, f"{path}.{'*' if name in KEYED_BY_DATA else key}".removeprefix("."))
    elif isinstance(read, list | tuple):
        for item in read:
            yield from _pairs(item, f"{path}[]")


def _read(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return "time"
    if isinstance(value, Mapping):
        return "map"
    if isinstance(value, bool | str):
        return "bool" if isinstance(value, bool) else "json" if _read(value) is not value else "text"
    return "number" if isinstance(value, int | float) else "list"
