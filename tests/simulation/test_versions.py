"""Every property holds while processes of today and of the last release run on one store; an incompatible change shows.

From the first release on this is the gate of each change of a record, of a task's payload or of a task's name.
"""

import gc
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import make_dataclass, replace
from typing import Any
from unittest import mock

import pytest

from signalbox.core.effects import Effect, TaskEnvelope
from signalbox.core.records import formats
from signalbox.semaphores import tasks
from signalbox.semaphores.machine import decision_types
from signalbox.semaphores.model.semaphore import Semaphore
from tests.compatibility.last_release import LAST, TODAY, counterpart
from tests.simulation.__main__ import OF_DRIVER, WORLDS, violations
from tests.simulation.reached_counts import CALLS_OF_THE_LAST_RELEASE, CALLS_ONLY_OF_TODAY, SEEDS_OF_TODAY
from tests.simulation.versions import Crossings, Entry, Lacking, Versions, two_versions, version_now
from tests.simulation.world import World

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
"""A coroutine that a flow drops before it begins was wrapped, and is not closed."""

SEEDS = 20
"""Of each world; `make simulate VERSIONS=1 SEEDS=5000` runs more."""

SEEDS_OF_CHANGES = 120

OF_TODAY = frozenset({"document_events"})
"""Worlds many of whose calls only today's code runs: it fetches its ports (`versions.FETCHES_PORTS`)."""

Rename = Callable[[dict[str, Any]], dict[str, Any]]
Change = Callable[[], Any]


@pytest.mark.slow
@pytest.mark.parametrize("world", sorted(WORLDS.keys() - OF_DRIVER))
def test_every_property_holds_while_two_releases_run(world: str) -> None:
    check(world, SEEDS)


def check(world: str, seeds: int) -> None:
    """Check a world's seeds. What only today's code has must be the exception, or the last release is not tested."""
    found, reached = violations(world, range(seeds), versions=True)
    gc.collect()  # here, and not in a later test, which does not ignore them
    assert found == []
    if world in OF_TODAY:
        assert reached[CALLS_ONLY_OF_TODAY] > seeds / 2
        return
    assert reached[CALLS_OF_THE_LAST_RELEASE] > seeds
    assert reached[CALLS_ONLY_OF_TODAY] < reached[CALLS_OF_THE_LAST_RELEASE] / 10
    assert reached[SEEDS_OF_TODAY] < seeds / 2


def test_a_seed_of_two_releases_replays_exactly() -> None:
    first: list[str] = []
    again: list[str] = []
    with two_versions():
        for trace in (first, again):
            WORLDS["semaphores"](3, trace.append)
    assert first == again
    assert any("(last release)" in line for line in first)


# --- changes that the last release cannot bear ---


def renamed(before: str, after: str) -> Rename:
    return lambda record: {after if name == before else name: value for name, value in record.items()}


@contextmanager
def _codec(owner: Any, write: Rename, read: Rename) -> Iterator[None]:
    """Let a class write its record in another shape, and read that shape alone."""
    to_record, from_record = owner.to_record, owner.from_record.__func__

    def written(value: Any, *args: Any) -> dict[str, Any]:
        return write(to_record(value, *args))

    def read_from(kind: Any, record: Mapping[str, Any], *args: Any) -> Any:
        return from_record(kind, read(dict(record)), *args)

    with (
        mock.patch.object(owner, "to_record", written),
        mock.patch.object(owner, "from_record", classmethod(read_from)),
    ):
        yield


def renamed_field() -> Any:
    return _codec(Semaphore, renamed("next_token", "token"), renamed("token", "next_token"))


def added_field() -> Any:
    return _codec(
        Semaphore,
        lambda record: record | {"colour": "red"},
        lambda record: {name: value for name, value in record.items() if name != "colour"},
    )


def renamed_field_of_a_part() -> Any:
    return _codec(Effect, renamed("queue", "channel"), renamed("channel", "queue"))


@contextmanager
def format_of_the_next_release() -> Iterator[None]:
    """Write a format that only today's code reads, a release too early."""
    codec = _codec(
        Semaphore,
        lambda record: record | {"format": formats.READS},
        lambda record: {name: value for name, value in record.items() if name != "format"},
    )
    with mock.patch.object(formats, "READS", formats.READS + 1), codec:
        yield


@contextmanager
def _admit_tasks(change: Callable[[Effect], Effect], handlers: Mapping[str, Any]) -> Iterator[None]:
    made = decision_types._admit_task
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(decision_types, "_admit_task", lambda *args: change(made(*args))))
        stack.enter_context(mock.patch.object(tasks, "TASKS", handlers))
        yield


def renamed_member_of_a_payload() -> Any:
    def change(effect: Effect) -> Effect:
        return replace(effect, payload=renamed("at", "not_before")(dict(effect.payload)))

    def admit(ports: Any, payload: Mapping[str, Any]) -> None:
        tasks._admit(ports, renamed("not_before", "at")(dict(payload)))

    admit.__module__ = tasks.__name__  # a function of the library, which a process of the last release has not

    return _admit_tasks(change, {**tasks.TASKS, "admit": admit})


def renamed_task() -> Any:
    handlers = {name: handler for name, handler in tasks.TASKS.items() if name != "admit"}
    return _admit_tasks(lambda effect: replace(effect, task="grant"), {**handlers, "grant": tasks._admit})


@contextmanager
def renamed_member_of_the_envelope() -> Iterator[None]:
    to_json, from_json = TaskEnvelope.to_json, TaskEnvelope.from_json.__func__  # type: ignore[attr-defined]  # a classmethod

    def written(envelope: TaskEnvelope) -> dict[str, Any]:
        return renamed("payload", "arguments")(to_json(envelope))

    def read(kind: Any, body: Any) -> Any:
        return from_json(kind, renamed("arguments", "payload")(body))

    with (
        mock.patch.object(TaskEnvelope, "to_json", written),
        mock.patch.object(TaskEnvelope, "from_json", classmethod(read)),
    ):
        yield


CHANGES: tuple[tuple[str, Change], ...] = (
    ("semaphores", renamed_field),
    ("semaphores", added_field),
    ("semaphores", format_of_the_next_release),
    ("semaphores", renamed_member_of_a_payload),
    ("semaphores", renamed_task),
    ("outbox", renamed_field_of_a_part),
    ("links", renamed_member_of_the_envelope),
)


@pytest.mark.slow
@pytest.mark.parametrize(("world", "change"), CHANGES, ids=lambda each: getattr(each, "__name__", each))
def test_a_change_that_the_last_release_cannot_read_is_noticed(world: str, change: Change) -> None:
    with change():
        assert violations(world, range(20))[0] == []
        assert any(
            violations(world, range(seed, seed + 10), versions=True)[0] for seed in range(0, SEEDS_OF_CHANGES, 10)
        )


# --- the two libraries ---


def test_a_call_runs_in_the_library_of_its_process() -> None:
    seen = []

    def look(world: World) -> None:
        seen.append((version_now(), world.versions is not None))

    with two_versions():
        world = World(1)
        world.run([lambda: world.start("a process", lambda: look(world)) for _ in range(30)])
    assert {(LAST, True), (TODAY, True)} == set(seen)
    assert World(1).versions is None


def test_what_the_last_release_lacks_is_run_by_today() -> None:
    def new_function(number: int) -> int:
        return number + 1

    entry = Entry("signalbox.semaphores.service.waits", "new_function", new_function)
    with mock.patch("signalbox.semaphores.service.waits.new_function", new_function, create=True):
        assert entry(1) == 2


def test_a_command_that_the_last_release_lacks_is_not_raised_in_the_code_that_awaits_it() -> None:
    new = make_dataclass("New", [], frozen=True)
    new.__module__ = f"{TODAY}.new"
    raised: list[type[BaseException]] = []

    class Awaited:
        def __await__(self) -> Generator[Any, Any, Any]:
            yield new()

    async def code() -> None:
        try:
            await Awaited()
        except BaseException as error:
            raised.append(type(error))
            raise

    with pytest.raises(Lacking):
        Crossings().to(LAST, code()).send(None)
    assert raised == [GeneratorExit], "its code is closed"


def test_no_module_of_the_last_release_is_one_of_today() -> None:
    last = counterpart("signalbox.semaphores.model.semaphore", LAST)
    assert last is not None
    assert last.Semaphore is not Semaphore
    assert last.SemaphoreSettings.__module__ == f"{LAST}.semaphores.model.settings"
    assert counterpart("signalbox.none", LAST) is None


def test_the_versions_of_a_world_are_those_of_its_seed() -> None:
    with two_versions():
        shares = {Versions(seed)._share for seed in range(20)}
    assert len(shares) == 3
