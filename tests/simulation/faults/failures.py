"""Faults to plant: failures without one clause of their protocol (docs/protocols/tasks.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.core.ports import SERVER_TIME, Committed, Ports, Put, Write
from signalbox.core.problems import Problem, Unavailable
from signalbox.semaphores.model.leases import Lease
from signalbox.semaphores.service import leases
from signalbox.tasks.machine import failures
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import Context
from signalbox.tasks.model.failures import failure_path
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original, planted
from tests.simulation.worlds import failures as failures_world

keep = original("tasks.keep")
start = original("tasks.start")


def _failures(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), failures_world.run)


def _kept_if_it_works(ports: Ports, delivered: Delivered[Context], start: Start, problem: Problem) -> None:
    with suppress(Unavailable):
        keep(ports, delivered, start, problem)


@contextmanager
def _released_first(ports: Ports, lease: Lease) -> Iterator[None]:
    """The lease is released, and then the failure kept."""
    kept: list[Callable[[], None]] = []

    def later(*args: Any) -> None:
        kept.append(partial(keep, *args))

    try:
        with planted(("tasks.keep", later)):
            yield
    except Problem:
        leases.release(ports, lease)
        for keep_now in kept:
            keep_now()
        raise


def _kept_each_time(ports: Ports, delivered: Delivered[Context], _: Start, problem: Problem) -> None:
    failure = failures.failure_of(delivered, (problem.slug(), problem.detail), failures.text_of(problem), 1)
    times = {"failed_at": SERVER_TIME, "recorded_at": SERVER_TIME}
    ports.store.commit([Put(failure_path(failure.id), failure.to_record() | times)])


def _retried_each_time(read: Any) -> bool:
    return read.data is not None


def _in_two_commits(ports: Ports, writes: list[Write], effects: tuple[Effect, ...] = ()) -> Committed:
    committed = ports.store.commit(writes)
    outbox_commit(ports, (), effects)
    return committed


outbox_commit = original("core.commit")

FAULTS = (
    _failures("task-5", "keeping a failure before the acknowledgement", "tasks.keep", _kept_if_it_works),
    _failures("task-5", "keeping a failure before the release", "tasks.kept_or_released", _released_first),
    _failures("task-6", "a failure that was closed stays closed", "tasks.keep", _kept_each_time),
    _failures("task-7", "a failure is retried once", "tasks.is_failed", _retried_each_time),
    _failures("task-7", "the task of a retry in its commit", "core.commit", _in_two_commits),
)
