"""Semaphores that the catalogue declares are there when the stack has started, and follow a change of the catalogue.

The same stack can be paused: tasks then wait.
"""

from pathlib import Path

import httpx
import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.local import queue_pauses
from signalbox_tools.local.folder.running_stack import RunningStack
from signalbox_tools.local.scheduler import PAUSED_FILE
from signalbox_tools.local.stack import Stack

pytestmark = pytest.mark.slow


def declare(file: Path, permits: int) -> None:
    file.write_text(
        f"api: all\nfunctions: {{}}\nsemaphores:\n  the printer: {{permits: {permits}, lease_seconds: 60}}\n"
    )


def test_a_declared_semaphore_is_created_at_the_start_and_changed_by_a_reload(tmp_path: Path) -> None:
    file = tmp_path / "signalbox.yaml"
    declare(file, 2)
    with Stack(folder=tmp_path / ".signalbox", catalogue=file) as stack:
        url = f"{stack.base_url}semaphores/the%20printer"
        assert httpx.get(url).json()["permits"] == 2
        lease = httpx.post(f"{stack.base_url}semaphore-wait/the%20printer", json={"id": "a"}).json()["lease"]
        declare(file, 3)
        stack.reload()
        found = httpx.get(url).json()
        assert (found["permits"], [each["id"] for each in found["leases"]]) == (3, [lease["id"]])
        paused_tasks_wait(stack)


def paused_tasks_wait(stack: Stack) -> None:
    running = RunningStack.of(stack.folder)
    for key, content in (("source", {"n": 1}), ("copy", {"to": {"key": "source"}})):
        httpx.put(f"{stack.base_url}documents/{key}", json=content).raise_for_status()
    stack.wait_until_idle(30)
    queue_pauses.pause(running, ["links"], ["sweep"])  # the queue of a fan-out's tasks
    httpx.put(f"{stack.base_url}documents/source", json={"n": 2}).raise_for_status()
    with pytest.raises(TimeoutError):
        stack.wait_until_idle(2)
    assert httpx.get(f"{stack.base_url}documents/copy").json()["to"]["n"] == 1
    queue_pauses.resume(running, load().queues, load().schedules)
    assert not list(stack.folder.glob(PAUSED_FILE.format("*")))
    stack.wait_until_idle(30)
    assert httpx.get(f"{stack.base_url}documents/copy").json()["to"]["n"] == 2
