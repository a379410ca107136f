"""The ports of a function: put together once, of what the settings say."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from shared.adapters import runtime
from shared.adapters.clock import SystemClock
from shared.adapters.embedded import embedded_store
from shared.adapters.meter import measure
from shared.adapters.settings import from_environment
from shared.operations.ports import Put

EMBEDDED = from_environment({"FIRESTORE_EMULATOR_HOST": "embedded"})


@pytest.fixture(autouse=True)
def unbound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runtime, "settings", lambda: EMBEDDED)
    runtime.bind(None)
    yield
    runtime.bind(None)


def test_the_ports_are_made_once_whichever_thread_comes_first() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: runtime.ports(), range(32)))
    assert {id(ports) for ports in made} == {id(made[0])}


def test_what_a_function_does_is_counted() -> None:
    with measure() as cost:
        runtime.ports().store.commit([Put("documents/a", {})])
        runtime.ports().store.read("documents/a")
    assert (cost.writes, cost.reads, cost.round_trips) == (1, 1, 2)


def test_a_test_binds_ports_of_its_own_which_are_counted_too() -> None:
    store = embedded_store(EMBEDDED)
    store.commit([Put("documents/a", {"n": 1})])
    runtime.bind(replace(runtime.ports(), store=store))
    with measure() as cost:
        assert [snapshot.data for snapshot in runtime.ports().store.read("documents/a")] == [{"n": 1}]
    assert cost.reads == 1


def test_an_emulator_is_reached_only_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    away = from_environment({"FIRESTORE_EMULATOR_HOST": "127.0.0.1:1", "CLOUD_TASKS_EMULATOR_HOST": "127.0.0.1:1"})
    monkeypatch.setattr(runtime, "settings", lambda: away)
    assert len(runtime.ports().store.new_id()) == 20


def test_a_refusal_loads_neither_store_nor_queue() -> None:
    program = (
        "import sys, flask\n"
        "from shared.adapters.http import Routes\n"
        "with flask.Flask('x').test_request_context('/'):\n"
        "    status = Routes('x').entry_point()(flask.request).status_code\n"
        "loaded = {'grpc', 'google.cloud.firestore_v1', 'google.cloud.tasks_v2'} & set(sys.modules)\n"
        "assert (status, loaded) == (404, set()), (status, loaded)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_ports_without_a_task_to_send_do_not_load_the_tasks_client() -> None:
    program = (
        "import os, sys\n"
        "os.environ['FIRESTORE_EMULATOR_HOST'] = '127.0.0.1:1'\n"
        "from shared.adapters import runtime\n"
        "runtime.ports()\n"
        "assert 'google.cloud.firestore_v1' in sys.modules\n"
        "assert 'google.cloud.tasks_v2' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_clock_sleeps_and_draws_numbers_from_0_to_1() -> None:
    clock = SystemClock()
    clock.sleep(0)
    drawn = [clock.jitter() for _ in range(100)]
    assert all(0 <= number <= 1 for number in drawn)
    assert len(set(drawn)) > 90
