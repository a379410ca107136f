"""The parts that follow from a function's code are all that it needs: each use of the kit runs to its end on them.

A function of the kit that is missing ends a run here, as it would fail in the cloud.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from signalbox.catalogue import parts, reading
from signalbox.testing import Harness
from signalbox.testing.simulated_cloud import UnknownFunction

MAIN = """
from signalbox import Function, Lease, Request, Response, Unit, {names}

app = Function("orders")
RAN = []


@app.task
def work(n: int) -> int:
    RAN.append(n)
    return n


{code}


@app.http("POST")
def begin(request: Request) -> Response:
    {begin}
    return Response(202)


@app.http("GET")
def shown(request: Request) -> Response:
    return Response(200, {{"ran": RAN}})


orders = app.entry_point()
"""


class Scenario(NamedTuple):
    """Code that uses the kit, the parts that it needs, and what has run at the end."""

    names: str
    code: str
    begin: str
    ran: list[object]
    part: str


def of_flow(body: str, names: str = "flow", ran: list[object] | None = None, part: str = "flows") -> Scenario:
    code = f"@app.flow\nasync def order() -> None:\n    {body}\n    RAN.append('ended')"
    return Scenario(names, code, 'order.start("o")', [*(ran or []), "ended"], part)


HELD = "@app.task\ndef held(lease: Lease, n: int) -> None:\n    RAN.append(n)"
COPIED = """def put_both() -> None:
    documents.put("town", {"name": "a"})
    documents.put("fred", {"home": {"key": "town"}})


@app.http("GET", "/copy")
def copy(request: Request) -> Response:
    RAN.append(documents.get("fred")["home"]["name"])
    return Response(200)


@app.http("POST", "/change")
def change(request: Request) -> Response:
    documents.put("town", {"name": "b"})
    return Response(200)"""

SCENARIOS: Mapping[str, Scenario] = {
    "a step": of_flow("await work.call(n=1)", ran=[1]),
    "a lock": of_flow(
        'async with flow.lock("s", lease_seconds=60):\n        await work.call(n=1)',
        "flow, semaphore",
        part="semaphores",
    )._replace(
        begin='semaphore("s").ensure(permits=1, lease_seconds=60)\n    [order.start(id) for id in ("o", "p")]',
        ran=[1, "ended", 1, "ended"],
    ),
    "a batch of a flow": of_flow("await flow.batch([work.call(n=n) for n in (1, 2)])", ran=[1, 2], part="batches"),
    "a rate of a flow": of_flow('await flow.rate("r")', "flow, rate", part="semaphores")._replace(
        begin='rate("r").ensure(per_minute=60, burst=1)\n    order.start("o")'
    ),
    "waits": Scenario(
        "semaphore",
        HELD,
        'semaphore("s").ensure(permits=1, lease_seconds=60)\n'
        '    [semaphore("s").wait(held.call(n=n), release_on_return=True) for n in (1, 2)]',
        [1, 2],
        "semaphores",
    ),
    "a rate": Scenario(
        "rate",
        "",
        'rate("r").ensure(per_minute=60, burst=1)\n    [rate("r").wait(work.call(n=n)) for n in (1, 2)]',
        [1, 2],
        "semaphores",
    ),
    "a section": Scenario(
        "critical_section", "", 'critical_section("k").run(work.call(n=1), debounce_seconds=1)', [1], "semaphores"
    ),
    "a batch": Scenario("batch", "", 'batch("b").populate([work.call(n=n) for n in (1, 2)])', [1, 2], "batches"),
    "a batch under permits": Scenario(
        "batch, semaphore",
        "",
        'semaphore("s").ensure(permits=1, lease_seconds=60)\n'
        '    batch("b").populate([work.call(n=n) for n in (1, 2)], semaphore="s")',
        [1, 2],
        "semaphores",
    ),
    "an object": Scenario(
        "objects",
        "@app.object\nclass Ledger:\n    sum: int = 0\n\n    def add(self, n: int) -> None:\n        RAN.append(n)",
        'objects("Ledger", "a").add(n=1)',
        [1],
        "objects",
    ),
    "counts": Scenario(
        "standings, yokes",
        '@app.http("GET", "/count")\ndef count(request: Request) -> Response:\n'
        '    RAN.append(standings("item", "tea").get()["count"])\n    return Response(200)',
        'yokes.put("ann", "tea")',
        [1],
        "standings",
    ),
    "copies": Scenario("documents", COPIED, "put_both()", ["b"], "documents"),
}
THEN = {"copies": ["POST change", "GET copy"], "counts": ["GET count"]}


def ran(root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """Run a scenario in a project with only the parts that follow from its code, and return what has run."""
    scenario = SCENARIOS[name]
    folder = root / "functions" / "orders"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text(MAIN.format(**scenario._asdict()))
    (root / "signalbox.yaml").write_text("functions: {orders: {}}\n")
    monkeypatch.chdir(root)
    with Harness() as harness:
        assert harness.post("orders").status == 202
        harness.run()
        for step in THEN.get(name, ()):
            method, path = step.split()
            assert harness.call("orders", f"/{path}", method=method).status_code == 200
            harness.run()
        found: list[object] = harness.get("orders").json["ran"]
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_use_of_the_kit_runs_on_the_parts_that_follow_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert ran(tmp_path, monkeypatch, name) == SCENARIOS[name].ran


@pytest.mark.parametrize("name", [name for name, each in SCENARIOS.items() if each.part not in ("flows", "objects")])
def test_a_part_that_does_not_follow_ends_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    part = SCENARIOS[name].part
    monkeypatch.setattr(reading, "OF_QUEUES", {queue: of for queue, of in parts.OF_QUEUES.items() if of != part})
    monkeypatch.setattr(reading, "OF_NAMES", {public: of for public, of in parts.OF_NAMES.items() if of != part})
    monkeypatch.setitem(parts.PARTS, "flows", parts.Part(queue="flows", needs=("tasks",)))
    try:
        found = ran(tmp_path, monkeypatch, name)
    except (UnknownFunction, reading.CatalogueError):
        return
    assert found != SCENARIOS[name].ran
