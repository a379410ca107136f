"""The parts that follow from a function's code are all that it needs: each use of the kit runs to its end on them.

A function of the kit that is missing ends a run here, as it would fail in the cloud. Each function enqueues only to the
queues of its `enqueues`, to which alone its account may enqueue there.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from signalbox.catalogue import parts, reading
from signalbox.core.effects import Effect
from signalbox.testing import Harness
from signalbox.testing.held_task_queue import HeldTaskQueue
from signalbox.testing.simulated_cloud import Platform, UnknownFunction

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


WITHOUT_BATCHES = "functions: {orders: {}}\n"


@pytest.mark.parametrize(("catalogue", "status"), [(WITHOUT_BATCHES, 404), (f"api: [batches]\n{WITHOUT_BATCHES}", 202)])
def test_an_action_on_all_runs_that_match_needs_batches_and_names_their_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalogue: str, status: int
) -> None:
    lay_out(tmp_path, monkeypatch, of_flow('await flow.event("e")'), catalogue)
    body = {"action": "cancel", "state": "running"}
    with rights_watched() as refused, Harness() as harness:
        harness.post("orders")
        harness.run()
        counted = harness.call("orders", "/flows/order/:act", method="POST", json={**body, "dry_run": True})
        answer = harness.call("orders", "/flows/order/:act", method="POST", json=body)
        harness.run()
        run: Any = harness.call("orders", "/flows/order/o").json
    assert (counted.json, answer.status_code, refused) == ({"count": 1}, status, [])
    assert run["state"] == ("running" if status == 404 else "cancelled")
    assert ("add `api: [batches]`" in answer.text) == (status == 404)


PRINTERS = """
from signalbox import Function

app = Function("printers")


@app.task
def printed(n: int) -> int:
    return n


printers = app.entry_point()
"""
PRINTED = 'Call("printers", "printed", {"n": n})'
OF_TWO_FUNCTIONS: Mapping[str, tuple[Scenario, str]] = {
    "waits": (SCENARIOS["waits"]._replace(names="Call, semaphore"), "held.call(n=n)"),
    "a batch": (SCENARIOS["a batch"]._replace(names="Call, batch"), "work.call(n=n)"),
    "a batch under permits": (
        SCENARIOS["a batch under permits"]._replace(names="Call, batch, semaphore"),
        "work.call(n=n)",
    ),
    "a batch of a flow": (SCENARIOS["a batch of a flow"]._replace(names="Call, flow"), "work.call(n=n)"),
}


@contextmanager
def rights_watched() -> Iterator[list[tuple[str, str]]]:
    """Yield the functions that have enqueued without a right, each with the queue."""
    calls: list[tuple[str, Collection[str]]] = []
    refused: list[tuple[str, str]] = []
    call, create = Platform.call, HeldTaskQueue.create

    def called(platform: Platform, function: str, path: str, **request: Any) -> Any:
        calls.append((function, reading.load().functions[function].enqueues))
        try:
            return call(platform, function, path, **request)
        finally:
            calls.pop()

    def created(queue: HeldTaskQueue, effects: Sequence[Effect]) -> Collection[str]:
        for function, enqueues in calls[-1:]:
            refused.extend((function, each.queue) for each in effects if each.queue not in enqueues)
        return create(queue, effects)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Platform, "call", called)
        patch.setattr(HeldTaskQueue, "create", created)
        yield refused


@pytest.mark.parametrize("name", OF_TWO_FUNCTIONS)
def test_tasks_of_another_function_end_their_part_of_the_work_with_its_own_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scenario, own = OF_TWO_FUNCTIONS[name]
    for folder, code in (("orders", MAIN.format(**scenario._asdict()).replace(own, PRINTED)), ("printers", PRINTERS)):
        (tmp_path / "functions" / folder).mkdir(parents=True)
        (tmp_path / "functions" / folder / "main.py").write_text(code)
    (tmp_path / "signalbox.yaml").write_text("functions: {orders: {}, printers: {}}\n")
    monkeypatch.chdir(tmp_path)
    with rights_watched() as refused, Harness() as harness:
        assert harness.post("orders").status == 202
        harness.run()
        assert (harness.tasks, refused) == ([], [])


def lay_out(root: Path, monkeypatch: pytest.MonkeyPatch, scenario: Scenario, catalogue: str) -> None:
    folder = root / "functions" / "orders"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text(MAIN.format(**scenario._asdict()))
    (root / "signalbox.yaml").write_text(catalogue)
    monkeypatch.chdir(root)


def ran(root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """Run a scenario in a project with only the parts that follow from its code, and return what has run."""
    lay_out(root, monkeypatch, SCENARIOS[name], "functions: {orders: {}}\n")
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
    with rights_watched() as refused:
        assert ran(tmp_path, monkeypatch, name) == SCENARIOS[name].ran
    assert refused == []


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
