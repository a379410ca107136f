"""Measure the kit's flows on a local stack, by HTTP, from the times that their steps return."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import yaml

from signalbox.catalogue import reading as catalogues
from signalbox_tools.local.stack import Stack
from tests.bench.batches import processor_seconds
from tests.bench.flows.measures import Measures

CLIENTS = 16
LOOK_SECONDS = 30
SECONDS_MAX = 1_200.0
LIST_WIDTH_MAX = 90
"""The most steps of a fan-out that are measured as a list."""

FUNCTION = {
    "folder": str(Path(__file__).parent / "stepper"),
    "invoked_by": ["people", "queue"],
    "enqueues": ["batches", "flows", "tasks"],
    "tasks": ["step"],
    "flows": ["chain", "inline", "listed", "listed_inline", "batched"],
}
WARM_UP_STEPS_MIN = 200
"""The smallest number of steps of the chain that is not measured: meanwhile Java compiles the emulator's code."""

IDS = count()


@contextmanager
def stepping(folder: Path) -> Iterator[httpx.Client]:
    """Run a stack of the kit with the function that is measured, and open a client of its flows."""
    content = yaml.safe_load(catalogues.CATALOGUE.read_text("utf-8"))
    for name, function in catalogues.load().functions.items():
        content["functions"][name]["folder"] = str(function.folder)
    content["functions"]["stepper"] = FUNCTION
    catalogue = folder / "project" / "infra" / "catalogue.yaml"
    catalogue.parent.mkdir(parents=True)
    catalogue.write_text(yaml.safe_dump(content), "utf-8")
    with Stack(folder=folder / "state", catalogue=catalogue) as stack:
        limits = httpx.Limits(max_connections=CLIENTS)
        with httpx.Client(base_url=f"{stack.base_url}stepper/flows/", timeout=60, limits=limits) as client:
            yield client


def measure(
    client: httpx.Client, steps: int, rounds: int, width: int, flows: int, flow_steps: int, *, inline: bool = False
) -> Measures:
    """Measure chains of `steps` steps, fan-outs of `width` steps, and flows of `flow_steps` steps that run at once.

    The steps are tasks, or `inline` steps.
    """
    chain, list_of_steps = ("inline", "listed_inline") if inline else ("chain", "listed")
    _run(client, chain, steps=max(steps, WARM_UP_STEPS_MIN))
    started, chains = zip(*(_run(client, chain, steps=steps) for _ in range(rounds)), strict=True)
    listed = min(width, LIST_WIDTH_MAX)
    fan_outs = {f"list of {listed}": [_there_and_back(client, list_of_steps, listed) for _ in range(rounds)]}
    if not inline:
        fan_outs[f"batch of {width}"] = [_there_and_back(client, "batched", width) for _ in range(rounds)]
    before = processor_seconds()
    seconds, crowded = _at_once(client, chain, flows, flow_steps)
    used = {part: (after - before[part]) / (flows * flow_steps) for part, after in processor_seconds().items()}
    return Measures(
        chains=[[began for _, began in times] for times in chains],
        first=[times[0][1] - start for start, times in zip(started, chains, strict=True)],
        fan_outs=fan_outs,
        at_once=flows,
        at_once_steps=flow_steps,
        at_once_seconds=seconds,
        crowded=crowded,
        alone=[_seconds(client, chain, steps=1) for _ in range(rounds)],
        processor=used,
        dispatches=[] if inline else [began - due for times in chains for due, began in times[1:]],
    )


def _run(client: httpx.Client, flow: str, **arguments: int) -> tuple[float, list[tuple[float, float]]]:
    """Run a flow; return when it was started, and what it returned."""
    path, at = _start(client, flow, **arguments)
    return at, _ended(client, path)["result"]


def _seconds(client: httpx.Client, flow: str, **arguments: int) -> float:
    """Run a flow; return the seconds until its caller has the result."""
    began = time.monotonic()
    _run(client, flow, **arguments)
    return time.monotonic() - began


def _start(client: httpx.Client, flow: str, **arguments: int) -> tuple[str, float]:
    path, at = f"{flow}/f{next(IDS)}", time.time()
    client.post(path, json={"arguments": arguments}).raise_for_status()
    return path, at


def _ended(client: httpx.Client, path: str) -> dict[str, Any]:
    give_up_at = time.monotonic() + SECONDS_MAX
    while time.monotonic() < give_up_at:
        response = client.get(path, params={"wait_seconds": LOOK_SECONDS}).raise_for_status()
        status: dict[str, Any] = response.json()
        if status["state"] == "completed":
            return status
        assert status["state"] == "running", status
    raise TimeoutError(f"{path} does not end")


def _there_and_back(client: httpx.Client, flow: str, width: int) -> float:
    _, ((_, before), (_, behind)) = _run(client, flow, width=width)
    return behind - before


def _at_once(client: httpx.Client, flow: str, flows: int, steps: int) -> tuple[float, list[float]]:
    """Start flows by many clients; return the seconds until the last has ended, and until the first step of each."""
    began = time.time()
    with ThreadPoolExecutor(CLIENTS) as pool:
        started = list(pool.map(lambda _: _start(client, flow, steps=steps), range(flows)))
    ends = [(_ended(client, path), at) for path, at in started]
    assert all(len(status["result"]) == steps for status, _ in ends), "a step was lost, or told twice"
    last = max(datetime.fromisoformat(status["ended_at"]).timestamp() for status, _ in ends)
    return last - began, [status["result"][0][1] - at for status, at in ends]
