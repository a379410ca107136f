"""The local Cloud Tasks in a process that is killed, stopped or made to fail: no acknowledged task is lost."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from google.api_core import exceptions

from signalbox_tools.local.child_processes import free_port
from tests.emulator.cloud_tasks.local_cloud_tasks import LOCATION, Worker, running
from tests.emulator.cloud_tasks.local_cloud_tasks import queue as queue
from tests.emulator.cloud_tasks.local_cloud_tasks import server as server
from tests.emulator.cloud_tasks.local_cloud_tasks import worker as worker
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, worker: Worker) -> None:
    database = tmp_path / "tasks.db"
    with running(database) as server:
        queue, paused = server.queue("working"), server.queue("paused")
        server.create(queue, worker.url("done"), "done")
        server.create(queue, worker.url("failing", "404,500,500,200"), "failing", retry_config=SLOW)
        server.client.pause_queue(name=paused)
        server.create(paused, worker.url("kept"), "kept")
        eventually(lambda: server.stats(queue)["done"] == 1 and len(worker.of("failing")) == 1)
        eventually(lambda: server.client.get_task(name=f"{queue}/tasks/failing").response_count == 1)
        keys = server.get("/oauth2/v3/certs")
        server.create(queue, worker.url("last"), "last")  # its commit takes the counts before it to the disk
        server.end(signal.SIGKILL)
    with running(database) as server:
        assert server.names(paused) == {"kept"}
        with pytest.raises(exceptions.AlreadyExists, match="existed too recently"):
            server.create(queue, worker.url("done"), "done")
        failing = eventually(lambda: len(worker.of("failing")) >= 2 and worker.of("failing")[1])
        assert failing.headers["x-cloudtasks-taskretrycount"] == "1"
        assert failing.headers["x-cloudtasks-taskexecutioncount"] == "1"
        assert server.get("/oauth2/v3/certs") == keys
        assert server.client.get_queue(name=paused).state.name == "PAUSED"
        server.client.resume_queue(name=paused)
        eventually(lambda: worker.of("kept"))


SLOW = {"min_backoff": timedelta(seconds=1), "max_backoff": timedelta(seconds=1), "max_attempts": -1}


def test_no_task_is_lost_when_the_server_is_killed_amid_creates(tmp_path: Path, worker: Worker) -> None:
    database = tmp_path / "tasks.db"
    acknowledged: set[str] = set()
    with running(database) as server:
        queue = server.queue("killed")
        server.client.pause_queue(name=queue)

        def create(thread: int) -> None:
            for number in range(10_000):
                name = f"t{thread}-{number}"
                try:
                    server.create(queue, worker.url("amid"), name)
                except (exceptions.GoogleAPICallError, ValueError):  # ValueError: the channel is closed
                    return
                acknowledged.add(name)

        with ThreadPoolExecutor(8) as threads:
            creators = [threads.submit(create, thread) for thread in range(8)]
            eventually(lambda: len(acknowledged) >= 200)
            os.kill(server.process.pid, signal.SIGKILL)
            for creator in creators:
                creator.result(10)
    with running(database) as server:
        names = server.names(queue)
        assert acknowledged <= names
        assert len(names) <= len(acknowledged) + 8


def test_sigterm_ends_it_at_once_and_what_was_running_runs_again(tmp_path: Path, worker: Worker) -> None:
    queues = json.dumps({f"{LOCATION}/queues/q": settings(10)})
    queue, worker.hold = f"{LOCATION}/queues/q", threading.Event()
    with running(tmp_path / "tasks.db", "--queues", queues) as server:
        server.create(queue, worker.url("broken-off"), "t")
        eventually(lambda: worker.of("broken-off"))
        began = time.monotonic()
        assert server.end() == 0
        assert time.monotonic() - began < 5
    worker.hold.set()
    (tmp_path / "queues.json").write_text(json.dumps({queue: settings(20)}))
    with running(tmp_path / "tasks.db", "--queues", str(tmp_path / "queues.json")) as server:
        eventually(lambda: server.stats(queue)["done"] == 1)
        assert len(worker.of("broken-off")) == 2
        assert server.client.get_queue(name=queue).rate_limits.max_dispatches_per_second == 20


def settings(rate: float) -> dict[str, float]:
    backoff = {"backoff_min_seconds": 0.2, "backoff_max_seconds": 60, "doublings_max": 8}
    return {"dispatches_per_second": rate, "concurrent_max": 8, "attempts_max": -1} | backoff


def test_a_second_server_on_the_same_file_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "tasks.db") as server:
        command = [sys.executable, "-m", "signalbox_tools.local.cloud_tasks", "--port", str(free_port())]
        second = subprocess.run(
            [*command, "--database", str(server.database)], capture_output=True, text=True, check=False, timeout=20
        )
        assert second.returncode != 0
        assert "database is locked" in second.stderr


def test_faults_on_demand_repeat_tasks_and_lose_answers_but_lose_no_task(tmp_path: Path, worker: Worker) -> None:
    faults = "twice=0.3,reorder=0.3,lose_answers=0.3,seed=7"
    with running(tmp_path / "tasks.db", "--chaos", faults) as server:
        queue, lost = server.queue("faulty"), 0
        for number in range(60):
            try:
                server.create(queue, worker.url("faulty"), f"t{number}")
            except exceptions.ServiceUnavailable:
                lost += 1
        eventually(lambda: server.stats(queue)["done"] == 60 and server.stats(queue)["running"] == 0)
    times = Counter(call.headers["x-cloudtasks-taskname"] for call in worker.of("faulty"))
    assert set(times) == {f"t{number}" for number in range(60)}
    assert 5 <= lost <= 35
    retried = [c for c in worker.of("faulty") if c.headers["x-cloudtasks-taskretrycount"] != "0"]
    assert len(retried) > 5
    assert len(worker.of("faulty")) > 60 + len(retried)
