"""Every operation under which a caller names an id: a repeat is recognised, and another body under the id is 409."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from signalbox import (
    Function,
    SectionRun,
    add_resource,
    batch,
    critical_section,
    flow,
    flows,
    objects,
    rate,
    semaphore,
    sub_batch,
)
from signalbox.batches.limits import LIMITS as BATCHES_LIMITS
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness

TASK = {"function": "shop", "task": "pack", "payload": {"order": 1}}
OTHER_TASK = {"function": "shop", "task": "pack", "payload": {"order": 2}}
BATCH = {"function": "shop", "task": "pack"}


class Order:
    item: str


shop = Function("shop")


@shop.task
def pack(order: int) -> None:
    """Pack an order."""


@shop.flow
async def buy(order: int) -> int:
    """Wait until an order is paid."""
    await flow.event("paid")
    return order


@shop.object
class Cart:
    count: int = 0

    def add(self, item: str) -> int:
        """Count an item that has a name."""
        self.count += bool(item)
        return self.count

    def mark(self, token: int) -> None:
        """Receive a token."""


add_resource(shop, Order)

DOORS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "POST /documents": ("documents", {"n": 1}, {"n": 2}),
    "POST /documents, with a key in the body": ("documents", {"key": "a", "n": 1}, {"key": "b", "n": 1}),
    "POST /semaphore-wait/{name}, at once": ("semaphore-wait/ovens", {}, {"permits": 3}),
    "POST /semaphore-wait/{name}": ("semaphore-wait/ovens", {"continuation": TASK}, {"continuation": OTHER_TASK}),
    "POST /semaphore-wait/{name}, other permits": (
        "semaphore-wait/ovens",
        {"continuation": TASK},
        {"continuation": TASK, "permits": 2},
    ),
    "POST /rates/{name}/acquire": ("rates/mails/acquire", {"weight": 1}, {"weight": 40}),
    "POST /rates/{name}/waits": ("rates/mails/waits", {"continuation": TASK}, {"continuation": OTHER_TASK}),
    "POST /rates/{name}/waits, other weight": (
        "rates/mails/waits",
        {"continuation": TASK},
        {"continuation": TASK, "weight": 40},
    ),
    "POST /critical-section/{key}": ("critical-section/a", {"continuation": TASK}, {"continuation": OTHER_TASK}),
    "POST /batches": ("batches", {"task": BATCH, "units": [{"order": 1}]}, {"task": BATCH, "units": [{"order": 2}]}),
    "POST /tasks": ("tasks", TASK, OTHER_TASK),
    "POST /{function}/objects/{class_name}/{key}/{method}": (
        "shop/objects/Cart/ann/add",
        {"item": "pen"},
        {"item": "ink"},
    ),
    "POST /{function}/flows/{flow}": ("shop/flows/buy", {"arguments": {"order": 1}}, {"arguments": {"order": 2}}),
    "POST /{function}/flows/{flow}/{id}/events/{name}": (
        "shop/flows/buy/run/events/paid",
        {"value": 1},
        {"value": 2},
    ),
    "POST /{function}/flows/{flow}/{id}/updates/{name}": (
        "shop/flows/buy/run/updates/paid",
        {"value": 1},
        {"value": 2},
    ),
    "POST /{function}/objects/{class_name}/{key}/calls/{call_id}/then": (
        "shop/objects/Cart/bob/calls/first/then",
        {"continuation": TASK},
        {"continuation": OTHER_TASK},
    ),
    "POST /{function}/flows/{flow}/:act": (
        "shop/flows/buy/:act",
        {"action": "cancel", "prefix": "r"},
        {"action": "terminate", "prefix": "r"},
    ),
    "POST of a resource": ("shop", {"item": "pen"}, {"item": "ink"}),
}
"""For each operation that identifies a repeat by an id: its path, a body, and another body."""

ELSEWHERE = {
    "POST /verifications": "it has no body: a repeat is the same run",
    "POST /standings": "it has no body: a repeat is the same run",
    "POST /semaphore-signal/{name}": "an id names the end of one lease: another lease is another operation",
    "POST /batches/{id}/retry": "a request for other units under its id is another retry, which runs",
    "DELETE /{function}/objects/{class_name}/{key}": "it has no body",
    "POST /{function}/objects/{class_name}/{key}/calls/{call_id}/object/{method}": "it is the same call as `then`",
    "POST /{function}/flows/{flow}/{id}/retry": "test_retries has it, with runs that have failed",
    "POST /{function}/flows/{flow}/{id}/cancel": "the id names the cancel of one run: its reason is only a note",
}


@pytest.fixture(autouse=True)
def started(harness: Harness) -> Iterator[None]:
    harness.add(shop)
    semaphore("ovens").ensure(permits=4)
    rate("mails").ensure(per_minute=50, burst=50)
    flows("buy", "run").start(order=1)
    harness.post("shop/objects/Cart/bob/add", json={"item": "pen"}, headers={"Idempotency-Key": "first"})
    return iter([None])


@pytest.mark.parametrize("door", DOORS)
def test_a_repeat_under_an_id_is_recognised_and_another_body_is_refused(harness: Harness, door: str) -> None:
    path, body, other = DOORS[door]
    key = {"Idempotency-Key": "k"}
    first = harness.post(path, json=body, headers=key)
    assert first.status in (200, 201, 202), first.json
    assert harness.post(path, json=body, headers=key).status in (200, 202)
    refused = harness.post(path, json=other, headers=key)
    assert (refused.status, refused.json["type"]) == (409, "urn:signalbox:problem:other-body"), refused.json
    harness.run()
    assert harness.post(path, json=other, headers=key).status == 409


OPERATIONS: dict[str, Callable[[int], object]] = {
    "enqueue": lambda token: pack.call(order=token).enqueue(id="i"),
    "semaphore.wait": lambda token: semaphore("ovens").wait(pack.call(order=token), id="i"),
    "rate.wait": lambda token: rate("mails").wait(pack.call(order=token), id="i"),
    "critical_section.run": lambda token: critical_section("other").run(pack.call(order=token), id="i"),
    "a flow's start": lambda token: buy.start("i", token),
    "a flow's start by name": lambda token: flows("buy", "i").start(order=token),
    "a flow's start with a task": lambda token: flows("buy", "i").start(pack.call(order=token), order=1),
    "a flow's start_new": buy.start_new,
    "an event": lambda token: flows("buy", "run").event("paid", token, id="i"),
    "an event without an id": lambda token: flows("buy", "run").event("paid", token),
    "an object's call": lambda token: objects("Cart", "ann").with_(id="i").mark(token=token),
    "an object's call without an id": lambda token: objects("Cart", "ann").mark(token=token),
    "an object's continuation": lambda token: (
        objects("Cart", "ann").with_(id="i").add(item="pen").then(pack.call(order=token))
    ),
    "batch.populate": lambda token: batch("i").populate([pack.call(order=token)]),
    "batch.populate, in pages": lambda token: batch("i").populate(pack.call(order=token) for _ in range(2)),
    "batch.populate, with a task": lambda token: batch("i").populate([], on_complete=pack.call(order=token)),
    "batch.populate, what follows": lambda token: batch("i").populate(
        [pack.call(order=1)], then=sub_batch([pack.call(order=token)])
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_task_that_passes_its_lease_under_an_id_is_recognised_when_it_is_delivered_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    tokens: list[int] = []
    bakery = Function("bakery")

    @bakery.task
    def bake(run: SectionRun) -> None:
        tokens.append(run.token)
        OPERATIONS[operation](run.token)
        if len(tokens) == 1:
            raise RuntimeError("the second delivery has another lease")

    monkeypatch.setattr(BATCHES_LIMITS, "call_units_max", 1)
    harness.add(bakery)
    critical_section("bread").run(bake.call())
    harness.run(raise_errors=False)
    assert len({*tokens}) == 2
    assert list(harness.get("failures").json["failures"]) == []


def test_a_task_that_forks_a_run_with_its_lease_is_recognised_when_it_is_delivered_again(harness: Harness) -> None:
    tokens: list[int] = []
    bakery = Function("bakery")

    @bakery.flow
    async def prove(token: int) -> int:
        return await flow.event("risen") or token

    @bakery.task
    def bake(run: SectionRun) -> None:
        tokens.append(run.token)
        prove.fork("run", "i", 0, arguments={"token": run.token})
        if len(tokens) == 1:
            raise RuntimeError("the second delivery has another lease")

    harness.add(bakery)
    flows("prove", "run").start(token=0)
    harness.run()
    critical_section("bread").run(bake.call())
    harness.run(raise_errors=False)
    assert len({*tokens}) == 2
    assert list(harness.get("failures").json["failures"]) == []


def test_the_table_has_every_operation_with_an_idempotency_key() -> None:
    described = yaml.safe_load(Path("openapi.yaml").read_text())["paths"]
    operations = {
        f"{method.upper()} {path}"
        for path, item in described.items()
        for method, operation in item.items()
        if method in ("post", "put", "patch", "delete")
        if any("Idempotency" in str(parameter) for parameter in operation.get("parameters", ()))
    }
    named = {door.partition(",")[0] for door in DOORS if door != "POST of a resource"}
    assert named | ELSEWHERE.keys() == operations
    assert not named & ELSEWHERE.keys()
