"""The ports of a function: put together once, of what the settings say."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from signalbox.adapters import runtime
from signalbox.adapters.cost_meter import measure
from signalbox.adapters.settings import from_environment
from signalbox.adapters.system_clock import SystemClock
from signalbox.core.ports import Put
from signalbox.testing.memory_store import MemoryStore

AWAY = from_environment({"FIRESTORE_EMULATOR_HOST": "127.0.0.1:1", "CLOUD_TASKS_EMULATOR_HOST": "127.0.0.1:1"})
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def unbound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runtime, "settings", lambda: AWAY)
    runtime.bind(None)
    yield
    runtime.bind(None)


def test_the_ports_are_made_once_whichever_thread_comes_first() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: runtime.ports(), range(32)))
    assert {id(ports) for ports in made} == {id(made[0])}


def test_what_a_function_does_is_counted() -> None:
    runtime.bind(runtime.connect(AWAY, MemoryStore(lambda: NOW)))
    with measure() as cost:
        runtime.ports().store.commit([Put("documents/a", {})])
        runtime.ports().store.read("documents/a")
    assert (cost.writes, cost.reads, cost.round_trips) == (1, 1, 2)


def test_a_test_binds_ports_of_its_own_which_are_counted_too() -> None:
    store = MemoryStore(lambda: NOW)
    store.commit([Put("documents/a", {"n": 1})])
    runtime.bind(replace(runtime.ports(), store=store))
    with measure() as cost:
        assert [snapshot.data for snapshot in runtime.ports().store.read("documents/a")] == [{"n": 1}]
    assert cost.reads == 1


def test_an_emulator_is_connected_to_only_at_the_first_call() -> None:
    assert len(runtime.ports().store.new_id()) == 20


LOADED = """
import contextlib, os, sys, flask
os.environ["FIRESTORE_EMULATOR_HOST"] = "127.0.0.1:1"
from signalbox.adapters import runtime
from signalbox.adapters.http.routes import Routes
with {context}:
    Routes("x").entry_point()
{then}
slow = {{
    "google.cloud.firestore_v1",
    "google.cloud.firestore_v1.types",
    "google.cloud.tasks_v2",
    "signalbox.testing.memory_store",
}}
print(*sorted(slow & set(sys.modules)))
print(runtime._ports is None)
"""


@pytest.mark.parametrize(
    ("context", "then", "printed"),
    [
        ('flask.Flask("x").app_context()', "", "google.cloud.firestore_v1.types\nTrue\n"),
        ('flask.Flask("x").app_context()', "runtime.ports()", "google.cloud.firestore_v1.types\nFalse\n"),
        ("contextlib.nullcontext()", "", "\nTrue\n"),
    ],
    ids=["loading", "first call", "mere import"],
)
def test_an_instance_loads_its_store_as_it_starts_and_no_client_of_googles(
    context: str, then: str, printed: str
) -> None:
    program = [sys.executable, "-c", LOADED.format(context=context, then=then)]
    assert subprocess.run(program, check=True, timeout=60, stdout=subprocess.PIPE, text=True).stdout == printed


def test_the_clock_sleeps_and_draws_numbers_from_0_to_1() -> None:
    clock = SystemClock()
    clock.sleep(0)
    drawn = [clock.jitter() for _ in range(100)]
    assert all(0 <= number <= 1 for number in drawn)
    assert len(set(drawn)) > 90
