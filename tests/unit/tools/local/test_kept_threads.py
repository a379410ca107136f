"""No exception ends a thread of the stack: it is logged once, and the thread continues."""

import ast
import logging
import queue
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.project import PACKAGES
from signalbox.catalogue.reading import Schedule
from signalbox_tools.local import kept_threads
from signalbox_tools.local.kept_threads import kept_thread
from signalbox_tools.local.logs.follower import LogFollower
from signalbox_tools.local.reloading.watcher import Watcher
from signalbox_tools.local.scheduler import Caller
from signalbox_tools.local.services.service_process import Service
from signalbox_tools.local.services.supervisor import Supervisor

SECONDS_MAX = 20.0
THREADS_THAT_MAY_END = {
    "services/supervisor.py": "its exception ends the stack, with a message",
    "functions/time_outs.py": "the next request starts it again",
    "kept_threads.py": "the threads that are kept",
}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_threads, "PAUSE_SECONDS", 0)


def failing_once(calls: "queue.SimpleQueue[Any]") -> Callable[..., None]:
    """Return a function that puts its argument into `calls`, and raises at the first call."""
    failed: list[bool] = []

    def called(*given: Any) -> None:
        calls.put(given)
        if not failed:
            failed.append(True)
            raise ZeroDivisionError("the first time")

    return called


def test_a_kept_thread_runs_again_after_an_exception_which_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []

    def work() -> None:
        runs.append(1)
        if len(runs) < 4:
            raise RuntimeError("no luck")

    with caplog.at_level(logging.ERROR):
        thread = kept_thread("worker", work)
        thread.start()
        thread.join(SECONDS_MAX)
    assert len(runs) == 4
    assert [record.getMessage() for record in caplog.records] == ["the thread worker failed and continues"]


def test_the_watcher_reports_changes_after_an_exception(tmp_path: Path) -> None:
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    watcher = Watcher(failing_once(calls))
    watcher.watch(folders=[tmp_path])
    watcher.start()
    try:
        (tmp_path / "a.py").write_text("")
        assert calls.get(timeout=SECONDS_MAX) == ([tmp_path / "a.py"],)
        (tmp_path / "b.py").write_text("")
        assert calls.get(timeout=SECONDS_MAX) == ([tmp_path / "b.py"],)
    finally:
        watcher.stop()


def test_the_log_is_followed_after_an_exception(tmp_path: Path) -> None:
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    file = tmp_path / "functions.log"
    file.write_text("one\n")
    follower = LogFollower([file], failing_once(calls))
    follower.start()
    try:
        assert calls.get(timeout=SECONDS_MAX) == ([("functions", "one")],)
        with file.open("a") as log:
            log.write("two\n")
        assert calls.get(timeout=SECONDS_MAX) == ([("functions", "two")],)
    finally:
        follower.stop()


def test_a_schedule_is_called_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stopped: list[bool] = []
    failing = failing_once(calls)

    def call(_: Caller, schedule: Schedule, __: datetime) -> None:
        if stopped:
            raise SystemExit
        failing(schedule.name)

    monkeypatch.setattr(Caller, "call", call)
    schedule = Schedule(name="each", function="tidy", cron="* * * * *", local_every_seconds=0.01)
    kept_thread("schedule", lambda: Caller("http://x/", "", "").call_for_ever(schedule)).start()
    assert [calls.get(timeout=SECONDS_MAX) for _ in range(2)] == [("each",)] * 2
    stopped.append(True)


def test_a_service_that_cannot_be_replaced_is_reported_to_the_caller_and_the_others_run(tmp_path: Path) -> None:
    service = Service("sleeper", ("sleep", "60"), ready=lambda: True)
    supervisor = Supervisor([service], tmp_path)
    supervisor.start()
    try:
        with pytest.raises(ValueError, match="null byte"):
            supervisor.replace(Service("sleeper", ("sleep", "60"), lambda: True, environment={"A": "\0"}))
        supervisor.check()
        assert supervisor.ready("sleeper")
    finally:
        supervisor.stop()


def test_every_thread_of_the_stack_is_kept_or_has_a_reason() -> None:
    folder = PACKAGES / "signalbox_tools" / "local"
    starting = {
        str(file.relative_to(folder))
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("threading.Thread", "Thread")
    }
    assert starting == set(THREADS_THAT_MAY_END)
