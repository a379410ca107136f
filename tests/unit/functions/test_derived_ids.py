"""Ids that the kit derives: a caller that has read or computed one before cannot take what the kit will make with it.

Each work of the table runs once, and its derived ids are noted. Then it runs in another deployment with the same ids,
after a caller has named each of them at every operation that takes an id of that kind.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from signalbox import (
    Function,
    SubBatch,
    Unit,
    batch,
    critical_section,
    flow,
    flows,
    objects,
    rate,
    semaphore,
    sub_batch,
    transaction,
)
from signalbox.core import idempotency_keys
from signalbox.core.idempotency_keys import Leaves
from signalbox.core.keys import IdSpace
from signalbox.core.problems import BadKey, Problem
from signalbox.documents import api as documents_api
from signalbox.flows.api import runs as runs_api
from signalbox.semaphores import api as semaphores_api
from signalbox.tasks import api as tasks_api
from signalbox.testing import Harness
from signalbox.testing.memory_store import MemoryStore

ran: list[str] = []
"""The tasks, methods and steps that have run, in order."""

shop = Function("shop")


@shop.task
def pack(order: str) -> None:
    """Pack an order."""
    ran.append(order)


@shop.task
def split(order: str) -> SubBatch:
    """Return the parts of an order."""
    return sub_batch([pack.call(order=f"{order}.{part}") for part in range(2)])


@shop.task
def fail_once(order: str) -> None:
    """Raise an error when it runs first."""
    ran.append(order)
    if ran.count(order) == 1:
        raise RuntimeError("the first attempt")


@shop.task
def refuse_once(order: str) -> None:
    """Raise a permanent error when it runs first."""
    ran.append(order)
    if ran.count(order) == 1:
        raise Problem("the first attempt")


@shop.task
def pack_together(units: list[Unit], order: list[str]) -> list[int]:
    """Pack several orders."""
    ran.extend(order)
    return [unit.index for unit in units]


@shop.task
def end(lease: str) -> None:
    """End a lease."""
    ran.append(f"ended {semaphore('ovens').signal(lease)}")


@shop.task
def act(name: str) -> None:
    """Make one of the calls of the table `CALLS`."""
    CALLS[name]()


@shop.object
class Cart:
    count: int = 0

    def add(self, item: str) -> int:
        """Count an item."""
        ran.append(item)
        self.count += 1
        return self.count

    def pass_on(self, item: str) -> None:
        """Send an item to another cart."""
        objects("Cart", "ann").add(item=item)


@shop.flow
async def buy(order: str = "") -> str:
    """Wait until an order is paid."""
    paid = await flow.event("paid")
    ran.append(f"paid {paid}")
    return order


@shop.flow
async def ask() -> None:
    """Answer an update."""
    update = await flow.update("ask")
    ran.append(f"asked {update.value}")
    update.answer(1)


@shop.flow
async def part(order: str) -> str:
    """Be a part of another flow."""
    ran.append(f"part {order}")
    return order


@shop.flow
async def use(what: str) -> str:
    """Use what another subject has."""
    match what:
        case "batch":
            await flow.batch([pack.call(order="of a flow")])
        case "lock":
            async with flow.lock("ovens"):
                ran.append("locked")
        case "rate":
            await flow.rate("mails")
        case "object":
            await objects("Cart", "ann").add(item="of a flow")
        case "flow":
            await part.call(order="a")
    ran.append("went on")
    return what


@shop.flow
async def stumble() -> None:
    """Raise an error in the first two attempts."""
    await flow.run(stumble_twice)


def stumble_twice() -> None:
    ran.append("stumbled")
    if ran.count("stumbled") < 3:
        raise Problem("an early attempt")


CALLS: dict[str, Callable[[], object]] = {
    "wait": lambda: semaphore("ovens").wait(pack.call(order="granted")),
    "acquire": lambda: ran.append(f"acquired {semaphore('ovens').acquire() is not None}"),
    "rate": lambda: rate("mails").wait(pack.call(order="granted")),
    "section": lambda: critical_section("a").run(pack.call(order="alone")),
    "call": lambda: objects("Cart", "ann").add(item="called"),
    "then": lambda: objects("Cart", "ann").with_(id="own").add(item="called").then(pack.call(order="then")),
    "delete": lambda: objects("Cart", "ann").delete(),
    "start": lambda: buy.start_new(order="new"),
    "event": lambda: flows("buy", "run").event("paid", "by a task"),
    "update": lambda: flows("ask", "run").update("ask", "by a task"),
    "retry": lambda: flows("stumble", "run").retry(),
    "enqueue": lambda: pack.call(order="by a task").enqueue(),
    "transaction": lambda: transaction(lambda change: change.put("k", {"n": 1})),
    "cancel": lambda: flows("buy", "run").cancel(),
}


def by_a_task(name: str) -> Callable[[Harness], object]:
    """Return the work of a task that makes a call. Its operation follows from an id that a caller knows."""
    return lambda _: act.call(name=name).enqueue(id="known")


def failed_then_retried(begin: Callable[[], object]) -> Callable[[Harness], None]:
    """Return the work of a task that is given up, and then retried."""

    def work(harness: Harness) -> None:
        begin()
        harness.run()
        for failure in harness.get("failures").json["failures"]:
            assert harness.post(f"failures/{failure['id']}/retry").status in (200, 202)

    return work


def _post(path: str, body: Any, key: str = "") -> Callable[[Harness], None]:
    def work(harness: Harness) -> None:
        assert harness.post(path, json=body, headers={"Idempotency-Key": key} if key else {}).status in (201, 202)

    return work


Work = Callable[[Harness], object]

PREFIXES = {
    "batches": "batch~",
    "semaphores": "wait~",
    "rates": "wait~",
    "sections": "call~",
    "objects": "call~",
    "flows": "run~",
    "messages": "message~",
    "retries": "retry~",
}

WORKS: dict[str, tuple[str, Work]] = {
    "the batch that follows": (
        "batches",
        lambda _: batch("b").populate([pack.call(order="a")], then=sub_batch([pack.call(order="b")])),
    ),
    "a unit's sub-batch": ("batches", lambda _: batch("b").populate([split.call(order="a")])),
    "the batch of a flow": ("batches", lambda _: use.start("r", "batch")),
    "an action on all runs": ("batches", _post("shop/flows/buy/:act", {"action": "cancel", "prefix": "r"}, "k")),
    "a task's wait": ("semaphores", by_a_task("wait")),
    "a task's lease": ("semaphores", by_a_task("acquire")),
    "the wait after a failure": (
        "semaphores",
        lambda _: semaphore("ovens").wait(fail_once.call(order="a"), id="w", release_on_failure=True),
    ),
    "the wait of a retry": (
        "semaphores",
        failed_then_retried(lambda: semaphore("ovens").wait(refuse_once.call(order="a"), id="w")),
    ),
    "a unit's wait": ("semaphores", lambda _: batch("b").populate([pack.call(order="a")], semaphore="ovens")),
    "a flow's lock": ("semaphores", lambda _: use.start("r", "lock")),
    "a task's wait for a rate": ("rates", by_a_task("rate")),
    "a unit's wait for a rate": ("rates", lambda _: batch("b").populate([pack.call(order="a")], rate="mails")),
    "a group's wait for a rate": (
        "rates",
        lambda _: batch("b").populate([pack_together.call(order=[each]) for each in "abc"], rate="mails", per_task=3),
    ),
    "a flow's wait for a rate": ("rates", lambda _: use.start("r", "rate")),
    "a task's call of a section": ("sections", by_a_task("section")),
    "the call of a retry": (
        "sections",
        failed_then_retried(lambda: critical_section("a").run(refuse_once.call(order="a"))),
    ),
    "a task's call of an object": ("objects", by_a_task("call")),
    "what follows a call": ("objects", by_a_task("then")),
    "a deletion by a task": ("objects", by_a_task("delete")),
    "what a method sends": ("objects", lambda _: objects("Cart", "bob").pass_on(item="sent")),
    "a flow's call of an object": ("objects", lambda _: use.start("r", "object")),
    "a sub-flow": ("flows", lambda _: use.start("r", "flow")),
    "a task's start": ("flows", by_a_task("start")),
    "a start under a key": ("flows", _post("shop/flows/buy", {"arguments": {"order": "a"}}, "k")),
    "a task's event": ("messages", by_a_task("event")),
    "a task's update": ("messages", by_a_task("update")),
    "a task's retry": ("retries", by_a_task("retry")),
}
"""Each work, and the kind of the ids that it derives."""

TASK = {"function": "shop", "task": "pack", "payload": {"order": "of a caller"}}
OF_A_CALLER = pack.call(order="of a caller")

Door = Callable[[Harness, str], object]


def at(path: str, body: Any, *, is_key: bool = True) -> Door:
    """Return a request that names an id: as its `Idempotency-Key`, or in its path or body."""

    def door(harness: Harness, id_: str) -> None:
        named = {name: value.format(id=id_) if value == "{id}" else value for name, value in body.items()}
        headers = {"Idempotency-Key": id_} if is_key else {}
        answer = harness.post(path.format(id=id_), json=named, headers=headers)
        if answer.status == 400:
            raise BadKey(answer.json["detail"], field=answer.json["field"])

    return door


DOORS: dict[str, dict[str, Door]] = {
    "batches": {
        "POST /batches": at("batches", {"units": [], "sealed": True}),
        "POST /batches, in the body": at("batches", {"id": "{id}", "units": [], "sealed": True}, is_key=False),
        "batch.populate": lambda _, id_: batch(id_).populate([OF_A_CALLER]),
    },
    "semaphores": {
        "POST /semaphore-wait/{name}": at("semaphore-wait/ovens", {"continuation": TASK}),
        "POST /semaphore-wait/{name}, at once": at("semaphore-wait/ovens", {"id": "{id}"}, is_key=False),
        "semaphore.wait": lambda _, id_: semaphore("ovens").wait(OF_A_CALLER, id=id_),
        "semaphore.acquire": lambda _, id_: semaphore("ovens").acquire(id=id_),
    },
    "rates": {
        "POST /rates/{name}/waits": at("rates/mails/waits", {"continuation": TASK}),
        "POST /rates/{name}/waits, in the body": at(
            "rates/mails/waits", {"id": "{id}", "continuation": TASK}, is_key=False
        ),
        "rate.wait": lambda _, id_: rate("mails").wait(OF_A_CALLER, id=id_),
    },
    "sections": {
        "POST /critical-section/{key}": at("critical-section/a", {"continuation": TASK}),
        "critical_section.run": lambda _, id_: critical_section("a").run(OF_A_CALLER, id=id_),
    },
    "objects": {
        "POST …/objects/{class_name}/{key}/{method}": at("shop/objects/Cart/ann/add", {"item": "of a caller"}),
        "POST …/calls/{call_id}/then": at("shop/objects/Cart/ann/calls/before/then", {"continuation": TASK}),
        "an object's call": lambda _, id_: objects("Cart", "ann").with_(id=id_).add(item="of a caller"),
    },
    "flows": {
        "POST …/flows/{flow}/{id}": at("shop/flows/buy/{id}", {"arguments": {"order": "of a caller"}}, is_key=False),
        "POST …/flows/{flow}/{id}, a sub-flow": at(
            "shop/flows/part/{id}", {"arguments": {"order": "of a caller"}}, is_key=False
        ),
        "POST …/fork": at("shop/flows/buy/run/fork", {"id": "{id}", "from_entry": 0}, is_key=False),
        "POST …/events/{name} with a start": at(
            "shop/flows/buy/{id}/events/paid", {"start": {"arguments": {"order": "of a caller"}}}, is_key=False
        ),
        "a flow's start": lambda _, id_: buy.start(id_, "of a caller"),
        "a flow's start by name": lambda _, id_: flows("buy", id_).start(order="of a caller"),
        "a flow's fork": lambda _, id_: buy.fork("run", id_, 0),
        "an event with a start": lambda _, id_: flows("buy", id_).event("paid", start=buy.starting("of a caller")),
        "an update with a start": lambda _, id_: flows("ask", id_).update("ask", start=ask.starting()),
    },
    "messages": {
        "POST …/events/{name}": at("shop/flows/buy/run/events/other", {"value": 1}),
        "POST …/updates/{name}": at("shop/flows/ask/run/updates/other?wait_seconds=0", {"value": 1}),
        "an event": lambda _, id_: flows("buy", "run").event("other", id=id_),
        "an update": lambda _, id_: flows("ask", "run").update("other", id=id_),
    },
    "retries": {
        "POST …/retry": at("shop/flows/stumble/run/retry", {}),
        "a flow's retry": lambda _, id_: flows("stumble", "run").retry(key=id_),
    },
}
"""The operations that take an id, by kind."""


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make all ids of a deployment the same each time, and note those that the kit derives."""
    noted: list[str] = []
    derive = IdSpace.derived

    def note(self: IdSpace, digest: str) -> str:
        noted.append(derive(self, digest))
        return noted[-1]

    monkeypatch.setattr(IdSpace, "derived", note)
    return noted


def outcome(monkeypatch: pytest.MonkeyPatch, work: Work, meanwhile: Work = lambda _: None) -> list[str]:
    """Return what has run in a new deployment, and what was given up there."""
    ran.clear()
    numbers = count()
    monkeypatch.setattr(MemoryStore, "new_id", lambda _: f"drawn{next(numbers):04}")
    with Harness() as harness:
        harness.add(shop)
        semaphore("ovens").ensure(permits=2)
        rate("mails").ensure(per_minute=50, burst=50)
        flows("buy", "run").start(order="first")
        flows("ask", "run").start()
        flows("stumble", "run").start()
        objects("Cart", "ann").with_(id="before").add(item="before")
        harness.run()
        monkeypatch.setattr(MemoryStore, "new_id", lambda _: f"other{next(numbers):04}")
        meanwhile(harness)
        numbers = count(100)
        monkeypatch.setattr(MemoryStore, "new_id", lambda _: f"drawn{next(numbers):04}")
        work(harness)
        harness.run(raise_errors=False)
        for _ in range(3):
            harness.travel(600)
            harness.run(raise_errors=False)
        ran.extend(harness.ids("documents"))
        stuck = [each["id"] for each in harness.get("shop/flows/use?state=stuck").json["flows"]]
        failures = [each["detail"] for each in harness.get("failures").json["failures"] if each["state"] == "failed"]
        return [*ran, *stuck, *failures]


@pytest.mark.parametrize("name", WORKS)
def test_no_caller_takes_an_id_that_the_kit_derives(
    monkeypatch: pytest.MonkeyPatch, derived: list[str], name: str
) -> None:
    kind, work = WORKS[name]
    expected = outcome(monkeypatch, work)
    ids = [id_ for id_ in dict.fromkeys(derived) if id_.startswith(PREFIXES[kind])]
    assert ids
    refused: list[str] = []

    def take(harness: Harness) -> None:
        for id_ in ids:
            for door, name_it in DOORS[kind].items():
                with suppress(BadKey):
                    name_it(harness, id_)
                    continue
                refused.append(door)

    assert outcome(monkeypatch, work, take) == expected
    assert len(refused) == len(ids) * len(DOORS[kind])


HASHED: dict[str, tuple[Work, Door]] = {
    "an enqueued task": (by_a_task("enqueue"), lambda _, id_: OF_A_CALLER.enqueue(id=id_)),
    "a transaction": (by_a_task("transaction"), lambda _, id_: transaction(lambda _: None, id=id_)),
    "a cancel": (by_a_task("cancel"), at("shop/flows/stumble/run/cancel", {})),
}
"""Works whose derived names are not in the space of callers' ids, since a chosen id is hashed first."""


@pytest.mark.parametrize("name", HASHED)
def test_a_chosen_id_meets_no_derived_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    work, take = HASHED[name]
    noted: list[str] = []
    key_of = idempotency_keys.idempotency_key

    def note(*call: object, leaves: Leaves | None = None) -> str | None:
        noted.append(key_of(*call, leaves=leaves) or "")
        return noted[-1] or None

    for module in (tasks_api, documents_api, runs_api):
        monkeypatch.setattr(module, "idempotency_key", note)
    expected = outcome(monkeypatch, work)
    names = [name for name in noted if name]
    assert names
    after = outcome(monkeypatch, work, lambda harness: [take(harness, name) for name in names])
    assert [each for each in after if each != "of a caller"] == expected


def test_a_lease_that_a_caller_ends_under_the_key_of_a_tasks_signal_is_not_ended_by_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys: list[str] = []
    key_of = idempotency_keys.idempotency_key

    def note(*call: object, leaves: Leaves | None = None) -> str:
        keys.append(key_of(*call, leaves=leaves) or "")
        return keys[-1]

    monkeypatch.setattr(semaphores_api, "idempotency_key", note)
    ran.clear()
    for is_ended in (False, True):
        with Harness() as harness:
            harness.add(shop)
            semaphore("ovens").ensure(permits=1)
            lease = semaphore("ovens").acquire(id="a")
            assert lease
            if is_ended:
                key = {"Idempotency-Key": keys[-1]}
                assert harness.post("semaphore-signal/ovens", json={"lease": lease.id}, headers=key).json["released"]
            end.call(lease=lease.id).enqueue(id="known")
            harness.run()
    assert ran == ["ended True", "ended False"]
    assert len(set(keys)) == 1


def test_what_contains_a_derived_id_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids of units and runs are in ids that people choose: a unit's batch may be one that the kit has made."""
    digest = "0" * 40
    with Harness() as harness:
        harness.add(shop)
        semaphore("ovens").ensure(permits=2)
        assert batch(f"batch~{digest}-3").populate([])["state"] == "completed"
        assert batch(f"run~{digest}").populate([])["state"] == "completed"
        assert batch(f"batch~{digest[:-1]}").populate([])["state"] == "completed"
        assert batch("a~b").populate([])["state"] == "completed"
        assert semaphore("ovens").acquire(id=f"batch~{digest}")
        assert semaphore("ovens").acquire(id=f"wait~{digest}~1767225600000023")
        assert buy.start(f"call~{digest}", "a").id == f"call~{digest}"


def test_only_the_kit_adds_pages_to_a_batch_that_it_makes() -> None:
    with Harness() as harness:
        harness.add(shop)
        batch("b").populate([split.call(order="a")])
        harness.run()
        [made] = [each["id"] for each in harness.get("batches").json["batches"] if each["id"] != "b"]
        assert made.startswith("batch~")
        for path, body in (("units", {"page": 1, "units": [{"order": "b"}]}), ("seal", {"pages": 1})):
            refused = harness.post(f"batches/{made}/{path}", json=body)
            assert (refused.status, refused.json["type"]) == (409, "urn:signalbox:problem:batch-sealed")
        assert harness.get(f"batches/{made}").json["state"] == "completed"
