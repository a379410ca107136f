"""Faults to plant: calls that are enqueued without one clause of their protocol (docs/protocols/tasks.md)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from signalbox.core.calls import Call
from signalbox.core.effects import receipt_path
from signalbox.core.ports import AlreadyExists, Ports
from signalbox.tasks.requests.enqueues import EnqueueRequest
from signalbox.tasks.service import enqueues
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always
from tests.simulation.worlds import enqueues as enqueues_world


def _enqueues(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), enqueues_world.run)


def _by_name_alone(ports: Ports, request: EnqueueRequest, name: str = "", *, is_repeated: bool = True) -> str:
    name = name or request.name
    ports.queue.create([request.effect(name, enqueues.UNUSED)])
    return name


def _without_a_comparison(_: EnqueueRequest, __: object) -> None: ...


def _receipt_first(ports: Ports, request: EnqueueRequest, name: str, *, is_repeated: bool) -> str:
    _in_two_steps(ports, request, name)
    return name


def _in_two_steps(ports: Ports, request: EnqueueRequest, name: str) -> None:
    [read] = ports.store.read(receipt_path(name))
    if read.data is not None:
        request.check_repeated(read.data)
        return
    with suppress(AlreadyExists):
        ports.store.commit([enqueues._receipt(request, name)])
        ports.queue.create([request.effect(name, enqueues.UNUSED)])


def _task_in_no_outbox(ports: Ports, request: EnqueueRequest) -> str:
    _in_two_steps(ports, request, request.name)
    return request.name


def _by_task(call: Call) -> str:
    return f"{call.function} {call.task}"


FAULTS = (
    _enqueues("task-8", "a receipt of an id", "tasks.by_id", _by_name_alone),
    _enqueues("task-8", "comparing the call of an id", "tasks.EnqueueRequest.check_repeated", _without_a_comparison),
    _enqueues("task-8", "the task of an id in its receipt's commit", "tasks.by_id", _task_in_no_outbox),
    _enqueues("task-9", "a receipt of what a task enqueued", "tasks.from_task", _by_name_alone),
    _enqueues("task-9", "the task before its receipt", "tasks.from_task", _receipt_first),
    _enqueues("task-10", "the content of a call in its key", "tasks.content_of", _by_task),
)
