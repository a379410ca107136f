"""Objects on a local stack, used as their pages show: on the Firestore emulator, and on the SQLite store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually
from tests.required_programs import EMULATOR

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0
CATALOGUE = """
functions:
  counters: {{folder: counters, invoked_by: [people, queue], enqueues: [objects, tasks], objects: [Counter, Shop],
    tasks: [keep, sent]}}
  callers: {{folder: callers, invoked_by: [people], enqueues: [objects]}}
  documents: {{folder: {root}/functions/documents, invoked_by: [people]}}
  failures: {{folder: {root}/functions/failures, invoked_by: [people], enqueues: [tasks]}}
queues:
  objects: &queue {{dispatches_per_second: 100, concurrent_max: 4, attempts_max: -1, backoff_min_seconds: 0.1,
    backoff_max_seconds: 1, doublings_max: 4, shards: 2}}
  tasks: *queue
"""
COUNTERS = """
from signalbox import Function, Object, Outcome, Problem, documents, later, objects, read_only, send

app = Function("counters")


@app.object
class Counter:
    key: str
    total: int = 0
    seen: list[str] = []

    def add(self, amount: int = 1, who: str = "") -> int:
        if amount < 0:
            raise Problem("Only upwards.")
        self.total += amount
        self.seen.append(who)
        return self.total

    def tell(self, other: str) -> None:
        objects("Counter", other).add(who=self.key)
        send(sent.call(name=f"sent-by-{self.key}"))
        later(1).add(who="later")

    @read_only
    def show(self) -> dict:
        return {"total": self.total, "seen": self.seen}


@app.object
class Shop:
    opened: int = 0

    def open(self) -> Object:
        self.opened += 1
        return objects("Counter", f"basket-{self.opened}")


@app.task
def keep(outcome: Outcome, name: str) -> None:
    documents.put(name, {"result": outcome.result, "call": outcome.call})


@app.task
def sent(name: str) -> None:
    documents.put(name, {"sent": True})


counters = app.entry_point()
"""
CALLERS = """
from signalbox import Function, Request, objects

app = Function("callers")


@app.http("POST", "/{key}")
def add(request: Request, key: str) -> dict:
    placeholders = [objects("Counter", key).add(who=str(number)) for number in range(10)]
    basket = objects("Shop", "s").open()
    last = [basket.object.add(who=who) for who in ("tea", "cup")]
    return {"waited": last[-1].wait(seconds=20), "results": [each.result() for each in (*placeholders, *last)]}


callers = app.entry_point()
"""


@pytest.fixture(params=["emulator", "sqlite"])
def http(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[httpx.Client]:
    """Return a client of a stack with a function that has objects, and one that only calls them."""
    if request.param == "emulator":
        EMULATOR.require()
    for path, text in {
        "counters/main.py": COUNTERS,
        "callers/main.py": CALLERS,
        "infra/catalogue.yaml": CATALOGUE.format(root=Path(__file__).parents[3]),
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    catalogue = tmp_path / "infra" / "catalogue.yaml"
    with (
        Stack(folder=tmp_path / "state", catalogue=catalogue, store=request.param) as stack,
        httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as client,
    ):
        yield client


def test_objects_count_once_in_order_for_people_functions_and_continuations(http: httpx.Client) -> None:
    first = http.post("counters/objects/Counter/a/add", json={"amount": 5}, headers={"Idempotency-Key": "k"})
    assert (first.status_code, first.json()) == (200, {"call": "k", "ready": True, "result": 5})
    assert http.post("counters/objects/Counter/a/add", json={"amount": 5}, headers={"Idempotency-Key": "k"}).json() == (
        first.json()
    )
    assert http.post("counters/objects/Counter/a/add", json={"amount": -1}).json()["detail"] == "Only upwards."

    posted = http.post("counters/objects/Counter/a/add?wait_seconds=0", json={"who": "posted"}).json()
    follow = {"continuation": {"function": "counters", "task": "keep", "payload": {"name": "kept"}}}
    http.post(f"counters/objects/Counter/a/calls/{posted['call']}/then", json=follow).raise_for_status()
    assert http.get(f"counters/objects/Counter/a/calls/{posted['call']}?wait_seconds=20").json()["result"] == 6
    assert eventually(lambda: http.get("documents/kept").json().get("result")) == 6

    called = http.post("callers/b").json()
    assert called == {"waited": True, "results": [*range(1, 11), 1, 2]}
    assert shown(http, "b") == {"total": 10, "seen": [str(number) for number in range(10)]}
    assert shown(http, "basket-1") == {"total": 2, "seen": ["tea", "cup"]}

    http.post("counters/objects/Counter/c/tell", json={"other": "d"}).raise_for_status()
    assert eventually(lambda: http.get("documents/sent-by-c").json().get("sent"))
    assert eventually(lambda: shown(http, "c")["seen"]) == ["later"]
    assert shown(http, "d")["seen"] == ["c"]

    keys = [each["key"] for each in http.get("counters/objects/Counter").json()["objects"]]
    assert keys == ["a", "b", "basket-1", "c", "d"]
    assert http.delete("counters/objects/Counter/a").status_code == 204
    assert eventually(lambda: http.get("counters/objects/Counter/a").json()["exists"] is False)
    assert http.get("failures").json()["failures"] == []


def shown(http: httpx.Client, key: str) -> Any:
    """Return the state that an object shows."""
    return http.post(f"counters/objects/Counter/{key}/show", json={}).json()["result"]
