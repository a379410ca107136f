"""Faults to plant: failures without one clause of their protocol (docs/protocols/tasks.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations import outbox
from shared.core.operations.ports import SERVER_TIME, Committed, Ports, Put, Write
from shared.core.rules.effects import Effect
from shared.core.rules.problems import Problem, Unavailable
from shared.core.rules.task_context import Lease
from shared.semaphores.operations import semaphores
from shared.tasks.operations import attempts, failures, task_runner
from shared.tasks.rules.attempts import Attempt, Start
from shared.tasks.rules.failures import Failure, path_of
from tests.simulation import failures_world
from tests.simulation.faults import Fault

keep, start = failures.keep, attempts.start


def _failures(clause: str, without: str, module: object, name: str, instead: Any) -> Fault:
    return Fault(clause, without, partial(mock.patch.object, module, name, instead), failures_world.run)


def _kept_if_it_works(ports: Ports, attempt: Attempt, start: Start, problem: Problem) -> None:
    with suppress(Unavailable):
        keep(ports, attempt, start, problem)


@contextmanager
def _released_first(ports: Ports, lease: Lease) -> Iterator[None]:
    """The lease is released, and then the failure kept."""
    kept: list[Callable[[], None]] = []

    def later(*args: Any) -> None:
        kept.append(partial(keep, *args))

    try:
        with mock.patch.object(failures, "keep", later):
            yield
    except Problem:
        semaphores.release(ports, lease)
        for each in kept:
            each()
        raise


def _kept_each_time(ports: Ports, attempt: Attempt, _: Start, problem: Problem) -> None:
    failure = Failure.of(attempt, (problem.slug(), problem.detail), failures.text_of(problem), 1)
    times = {"failed_at": SERVER_TIME, "recorded_at": SERVER_TIME}
    ports.store.commit([Put(path_of(failure.id), failure.to_record() | times)])


def _retried_each_time(read: Any) -> bool:
    return read.data is not None


def _in_two_commits(ports: Ports, writes: list[Write], effects: tuple[Effect, ...] = ()) -> Committed:
    committed = ports.store.commit(writes)
    outbox_commit(ports, (), effects)
    return committed


outbox_commit = outbox.commit

FAULTS = (
    _failures("task-5", "keeping a failure before the acknowledgement", failures, "keep", _kept_if_it_works),
    _failures("task-5", "keeping a failure before the release", task_runner, "_kept_or_released", _released_first),
    _failures("task-6", "a failure that was closed stays closed", failures, "keep", _kept_each_time),
    _failures("task-7", "a failure is retried once", failures, "_is_failed", _retried_each_time),
    _failures("task-7", "the task of a retry in its commit", outbox, "commit", _in_two_commits),
)
