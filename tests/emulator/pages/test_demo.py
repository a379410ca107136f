"""The demo's six stages, as `make demo` runs them; and what a deployment refuses that could not be carried out."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from signalbox_tools.local.stack import Stack

pytestmark = pytest.mark.slow

ELSEWHERE = {"function": "elsewhere", "task": "eat", "payload": {}}
NO_TASK = {"function": "quilt", "task": "sew"}
KITS_OWN = {"function": "link_refresh", "task": "eat", "payload": {}}
NO_QUEUE = {"function": "quilt", "task": "paint", "payload": {}, "queue": "fast"}


@pytest.mark.marathon
def test_the_six_stages_pass_in_a_log() -> None:
    environment = {**os.environ, "CITIES": "20", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "examples.demo"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines if line[:1].isdigit()] == [
        "Load:",
        "Change:",
        "Query:",
        "Semaphores:",
        "Batches:",
        "Standings:",
    ]
    assert "checks hold." in lines[-1]
    assert "FAILED" not in done.stdout


def test_a_call_of_what_the_catalogue_has_not_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    with Stack(folder=tmp_path) as stack, httpx.Client(base_url=stack.base_url) as http:
        http.put("semaphores/s", json={"permits": 1, "lease_seconds": 10}).raise_for_status()
        for call, part in ((ELSEWHERE, "function"), (KITS_OWN, "function"), (NO_TASK, "task"), (NO_QUEUE, "queue")):
            refused = http.post("semaphore-wait/s", json={"continuation": call})
            assert (refused.status_code, refused.json()["field"]) == (400, f"continuation.{part}")
            refused = http.post("batches", json={"id": "b", "units": [{}], "task": call, "sealed": True})
            assert (refused.status_code, refused.json()["field"]) == (400, f"task.{part}")
        assert http.get("batches/b").status_code == 404
        assert http.post("semaphore-wait/s", json={}).json()["acquired"] is True
