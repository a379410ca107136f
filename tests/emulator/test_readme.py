"""What the README tells a stranger to type works as it stands."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.local import processes
from shared.core.rules.problems import Problem

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()
READY_SECONDS_MAX = 60
FOLLOW_SECONDS_MAX = 20
END_SECONDS_MAX = 5


def block(marker: str) -> str:
    """Return the fenced block after a marker."""
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert found, f"the README has no block marked {marker!r}"
    return found[1]


@pytest.fixture(scope="module")
def dev() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The README's `make dev`, on a free port."""
    port = processes.free_port()
    command = block("run: dev").partition("#")[0].split()
    environment = {**os.environ, "PORT": str(port)}
    serving = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        assert processes.wait_until(lambda: answers(port), serving, timeout_seconds=READY_SECONDS_MAX)
        yield serving, port
    finally:
        if serving.poll() is None:
            os.killpg(serving.pid, signal.SIGINT)
            serving.wait(30)


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/documents").status_code == 200
    except httpx.HTTPError:
        return False


def running() -> dict[int, int]:
    """Return each process's parent, without processes that have ended and are not yet reaped."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = map(str.split, listed.splitlines())
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}


def descendants(pid: int) -> set[int]:
    """Return all processes that a process has started, and theirs."""
    parents = running()
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def typed(calls: str, port: int) -> list[Any]:
    """Type calls into a shell; give the JSON values that it printed."""
    commands = f"base=http://127.0.0.1:{port}/\n" + calls.replace("base=http://127.0.0.1:8080/", "").replace(
        "curl", "curl -s"
    )
    shell = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], capture_output=True, text=True, check=True)
    decoder, text, printed = json.JSONDecoder(), shell.stdout, []
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        printed.append(value)
        text = text[end:]
    return printed


def test_the_first_calls_answer_as_the_readme_says(dev: tuple[subprocess.Popen[bytes], int]) -> None:
    serving, port = dev
    printed = typed(block("run: calls"), port)
    assert printed[1]["address"] == {**printed[0], "key": "1234567"}
    fred = f"http://127.0.0.1:{port}/documents/897654"
    assert processes.wait_until(
        lambda: httpx.get(fred).json()["address"]["city"] == "somewheretown",
        serving,
        timeout_seconds=FOLLOW_SECONDS_MAX,
    )
    found = httpx.get(f"http://127.0.0.1:{port}/documents", params={"where": "address.zipcode==12345"}).json()
    assert [document["name"] for document in found["documents"]] == ["Fred"]


def test_merges_loads_counts_and_transforms_answer_as_the_readme_says(
    dev: tuple[subprocess.Popen[bytes], int],
) -> None:
    serving, port = dev
    merged, loaded, counted, _ = typed(block("run: more calls"), port)
    assert (merged["name"], merged["phone"]) == ("Fred", {"home": "555-0101"})
    assert [each["status"] for each in loaded["results"]] == [201, 201]
    assert counted == {"count": 2}
    ann = f"http://127.0.0.1:{port}/documents/ann"
    assert processes.wait_until(
        lambda: httpx.get(ann).json()["address"] == {"key": "town-hall", "fulladdr": "stuffville 54321"},
        serving,
        timeout_seconds=FOLLOW_SECONDS_MAX,
    )


def test_semaphores_and_batches_answer_as_the_readme_says(dev: tuple[subprocess.Popen[bytes], int]) -> None:
    _, port = dev
    _, mine, yours, *_, batch = typed(block("run: coordination"), port)
    assert (mine["acquired"], yours["acquired"]) == (True, False)
    assert (batch["state"], batch["size"], batch["done"]) == ("completed", 3, 3)


def test_ctrl_c_leaves_no_process_behind(dev: tuple[subprocess.Popen[bytes], int]) -> None:
    serving, _ = dev
    started = descendants(serving.pid)
    os.killpg(serving.pid, signal.SIGINT)
    serving.wait(30)
    assert len(started) > 5
    deadline = time.monotonic() + END_SECONDS_MAX  # of what was killed with its group, make waits for the leaders only
    while started & running().keys() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert started & running().keys() == set()


def test_every_make_target_in_the_readme_exists() -> None:
    named = set(re.findall(r"make ([a-z-]+)", README)) - {"and"}
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    assert named - targets == set()


def test_every_file_the_readme_names_exists() -> None:
    linked = re.findall(r"\]\(([A-Z]+\.md)\)", README) + re.findall(
        r"`((?:shared|functions|tests|infra)/[\w./]+)`", README
    )
    assert [name for name in linked if not (PROJECT / name).exists()] == []
    assert len(linked) > 5


def test_the_readmes_function_loads_and_holds_its_calls_to_the_signature() -> None:
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code
    names: dict[str, Any] = {}
    exec(compile(code[1], "README.md", "exec"), names)  # noqa: S102 - the README is ours
    assert names["printers"].__name__ == "printers"
    assert names["printed"].call(text="hello").record()["task"] == "printed"
    with pytest.raises(Problem):
        names["printed"].call(txt="hello")
