"""What the README and docs/http.md tell a reader to type works as printed."""

import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from signalbox.catalogue.derived_keys import completed, usage_of
from signalbox.core.problems import Problem
from signalbox_tools.local import child_processes
from tests.emulator.pages.page_blocks import PROJECT, README, block, run_calls, serving
from tests.started_commands import interrupt

pytestmark = pytest.mark.slow

FOLLOW_SECONDS_MAX = 20
Dev = tuple[subprocess.Popen[bytes], int]
END_SECONDS_MAX = 5


@pytest.fixture(scope="module")
def dev() -> Iterator[Dev]:
    """The README's `make dev`, on a free port."""
    port = child_processes.free_port()
    with serving(PROJECT, port) as process:
        yield process, port


def running() -> dict[int, int]:
    """Return each process's parent, without processes that have ended and are not yet reaped."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = map(str.split, listed.splitlines())
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}


def descendants(pid: int) -> set[int]:
    """Return a process and all its descendants."""
    parents = running()
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def test_the_first_calls_answer_as_the_readme_shows(dev: Dev) -> None:
    process, port = dev
    _, mine, yours, *_, batch, _, fred, _, _ = run_calls(block("run: calls"), port)
    assert (mine["acquired"], yours["acquired"]) == (True, False)
    assert (batch["state"], batch["size"], batch["failed"]) == ("completed", 2, 1)
    assert fred["home"] == {"key": "town", "name": "stuffville"}
    address = f"http://127.0.0.1:{port}/documents/fred"
    assert child_processes.wait_until(
        lambda: httpx.get(address).json()["home"] == {"key": "town", "name": "somewheretown"},
        process,
        timeout_seconds=FOLLOW_SECONDS_MAX,
    )


def test_queries_merges_loads_and_transforms_answer_as_the_http_page_shows(dev: Dev) -> None:
    process, port = dev
    loaded, found, counted, merged, written_back, _ = run_calls(block("run: documents", "docs/http.md"), port)
    assert [each["status"] for each in loaded["results"]] == [201, 201]
    assert [each["name"] for each in found["documents"]] == ["Ann"]
    assert counted == {"count": 1}
    assert (merged["name"], merged["phone"]) == ("Ann", {"home": "555-0101"})
    assert written_back["address"]["city"] == "somewheretown"
    ann = f"http://127.0.0.1:{port}/documents/ann"
    assert child_processes.wait_until(
        lambda: httpx.get(ann).json()["address"] == {"key": "town-hall", "label": "somewheretown 54321"},
        process,
        timeout_seconds=FOLLOW_SECONDS_MAX,
    )


def test_ctrl_c_leaves_no_process_behind(dev: Dev) -> None:
    process, _ = dev
    started = descendants(process.pid)
    interrupt(process)
    assert len(started) > 5
    deadline = time.monotonic() + END_SECONDS_MAX  # of what was killed with its group, make waits for the leaders only
    while started & running().keys() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert started & running().keys() == set()


def test_the_readmes_function_loads_and_checks_its_calls_against_the_signature() -> None:
    names = loaded_function()
    assert names["printers"].__name__ == "printers"
    assert names["printed"].call(text="hello").task == "printed"
    with pytest.raises((Problem, TypeError)):
        names["printed"].call(txt="hello")


def test_the_readmes_catalogue_entry_is_that_of_its_function_and_leaves_out_what_the_code_says() -> None:
    found = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert found
    assert code
    [(name, entry)] = yaml.safe_load(found[1]).items()
    read, _ = completed(entry, usage_of({"main.py": code[1].encode()}), scheduled=False)
    assert name in loaded_function()
    assert (entry, read["tasks"]) == ({"folder": name}, ["printed"])
    assert set(read["invoked_by"]) == {"people", "queue"}
    assert {"admit", "tasks"} <= set(read["enqueues"])


def loaded_function() -> dict[str, Any]:
    """Run the README's Python block and return its names."""
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code
    names: dict[str, Any] = {}
    exec(compile(code[1], "README.md", "exec"), names)  # noqa: S102 - the README is ours
    return names
