"""Each operation of openapi.yaml, called over HTTP by the blocking client and by the one that is awaited."""

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from signalbox.batches.service import lifecycle
from signalbox.catalogue.reading import load
from signalbox.client import ApiError, AsyncClient, CallFailed, Client, Conflict, NotFound, PreconditionFailed, call
from signalbox.testing import Harness
from signalbox_tools.local.functions.server import mounted
from tests.serving import serving
from tests.yaml_files import read_yaml

OPENAPI: dict[str, Any] = read_yaml(Path(__file__).parents[3] / "openapi.yaml")
OPERATIONS = {
    (method.upper(), path) for path, item in OPENAPI["paths"].items() for method in item if method != "parameters"
}
OF_PEOPLE = {("GET", "/{function}/callbacks/{token}"), ("POST", "/{function}/callbacks/{token}")}
"""A callback's address is opened as it is, by a person or another system."""

PAINT = call("quilt", "paint", {"row": 0, "column": 0})


class Asked:
    """The requests of a client, as operations."""

    def __init__(self) -> None:
        self.operations: set[tuple[str, str]] = set()
        self._patterns = [
            (
                method,
                path,
                re.compile(re.sub(r"\{\w+\}", "[^/]+", re.escape(path).replace(r"\{", "{").replace(r"\}", "}"))),
            )
            for method, path in sorted(OPERATIONS, key=lambda operation: operation[1].count("{"))
        ]

    def note(self, request: httpx.Request) -> None:
        path = request.url.raw_path.decode().partition("?")[0]
        for method, template, pattern in self._patterns:
            if method == request.method and pattern.fullmatch(path):
                self.operations.add((method, template))
                return
        raise AssertionError(f"no operation is {request.method} {path}")


class Awaited:
    """An object of the client that is awaited, as the blocking one has it: each call runs to its end."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner, self._loop = inner, loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return self._called(value) if callable(value) else self._shown(value)

    def _called(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            found = function(*args, **named)
            if asyncio.iscoroutine(found):
                found = self._loop.run_until_complete(found)
            elif hasattr(found, "__aiter__"):
                return iter(self._loop.run_until_complete(collected(found)))
            return self._shown(found)

        return run

    def _shown(self, value: Any) -> Any:
        return Awaited(value, self._loop) if type(value).__module__.startswith("signalbox.client.aio") else value


async def collected(items: Any) -> list[Any]:
    return [item async for item in items]


@pytest.fixture
def stack() -> Iterator[tuple[Harness, str]]:
    with Harness() as harness, serving(mounted(load())) as base:
        yield harness, base


@pytest.fixture(params=["blocking", "aio"])
def client(request: pytest.FixtureRequest, stack: tuple[Harness, str]) -> Iterator[Any]:
    asked = Asked()
    if request.param == "blocking":
        with Client(stack[1]) as client:
            client._transport._http.event_hooks["request"].append(asked.note)
            client.asked = asked  # type: ignore[attr-defined]  # for the tests
            yield client
        return

    async def note(sent: httpx.Request) -> None:
        asked.note(sent)

    loop = asyncio.new_event_loop()
    inner = AsyncClient(stack[1])
    inner._transport._http.event_hooks["request"].append(note)
    inner.asked = asked  # type: ignore[attr-defined]  # as above
    yield Awaited(inner, loop)
    loop.run_until_complete(inner.close())
    loop.close()


@pytest.fixture
def base(stack: tuple[Harness, str]) -> str:
    return stack[1]


@pytest.fixture
def harness(stack: tuple[Harness, str]) -> Harness:
    return stack[0]


@pytest.mark.slow
def test_each_operation_is_called(client: Any, harness: Harness) -> None:
    for part in (documents, transforms, semaphores, rates, batches, tasks, things, runs, standings):
        part(client, harness)
    assert client.asked.operations == OPERATIONS - OF_PEOPLE


def test_the_page_of_the_client_names_each_operation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "client.md").read_text("utf-8")
    table = page.partition("## Operations")[2].partition("Lists are iterators")[0]
    with Client() as client:
        flow, kept = client.flow("shop", "checkout"), client.object("accounts", "Account", "b-0")
        several = (client.objects("accounts", "Account"), client.semaphore("s"), client.rate("r"), client.batch("b"))
        groups = (client.documents, client.transforms, client.verifications, client.semaphores, client.rates)
        others = (client.batches, client.tasks, client.failures, client.yokes, client.standings)
        of_all = (flow, flow.run("1"), kept, client.critical_section("k"), *several, *groups, *others)
        operations = {name for one in of_all for name in dir(one) if name[0] != "_" and callable(getattr(one, name))}
    assert {name for name in operations if f"`{name}`" not in table} == set()


def test_a_route_of_a_function_is_called_by_its_address(base: str) -> None:
    with Client(base) as client:
        assert client.request("POST", "shop/stock", body={"item": "tea", "count": 1}) == {"item": "tea"}
        with pytest.raises(NotFound):
            client.request("GET", "shop/orders/a%20b")
        client.documents.put("a b", {"n": 1})
        [found] = client.request("GET", "documents?where=n==1&limit=5", parameters={"order_by": "-n"})["documents"]
        assert (found["key"], client.request("GET", "documents/a%20b")["n"]) == ("a b", 1)


def documents(client: Any, harness: Harness) -> None:
    ann = client.documents.put("ann", {"name": "Ann", "age": 30, "tags": ["a b", "c/d"]})
    assert (ann.key, ann["name"], client.documents.get("ann")) == ("ann", "Ann", dict(ann))
    with pytest.raises(PreconditionFailed) as failed:
        client.documents.put("ann", {}, if_none_match="*")
    assert (failed.value.slug, failed.value.is_repeated) == ("precondition-failed", False)
    assert client.documents.merge("ann", {"age": 31}, if_match=ann.etag)["age"] == 31
    assert "age" not in client.documents.patch("ann", {"age": None})
    added = client.documents.add({"name": "Bob"})
    assert client.documents.get(added.key)["name"] == "Bob"
    report = client.documents.load([{"key": f"many-{n}", "n": n} for n in range(1_203)] + [{"n": 1}])
    assert (report.stored, [key for key, _ in report.refused]) == (1_203, [None])
    assert len(list(client.documents.find("n>=0", limit=400))) == 1_203
    assert [each["n"] for each in client.documents.find(("n", ">", 1_200), order_by="-n")] == [1_202, 1_201]
    assert client.documents.count("n>=3") == 1_200
    assert client.documents.first("n>=3", order_by="-n")["n"] == 1_202
    assert client.documents.first(("n", "==", -1)) is None
    assert client.documents.page("n==3", limit=1)["documents"][0]["key"] == "many-3"
    client.documents.delete(added.key)
    with pytest.raises(NotFound):
        client.documents.get(added.key)
    assert list(client.documents.versions("ann")) == []
    client.documents.forget_versions("ann")
    with pytest.raises(NotFound):
        client.documents.version("ann", 1)
    with pytest.raises(NotFound):
        client.documents.changes("ann", 1, 2)
    with pytest.raises(NotFound):
        client.documents.restore("ann", 1)


def transforms(client: Any, harness: Harness) -> None:
    client.transforms.put("address", {"label": "{{.city}}"})
    assert client.transforms.get("address") == {"label": "{{.city}}"}
    assert [each["name"] for each in client.transforms.list()] == ["address"]
    client.transforms.delete("address")
    begun = client.verifications.begin()
    harness.travel(5)
    assert client.verifications.get(begun["run"])["state"] == "ended"
    assert begun["run"] in [each["run"] for each in client.verifications.list()]


def semaphores(client: Any, harness: Harness) -> None:
    till = client.semaphore("till")
    till.ensure(permits=1, lease_seconds=60)
    assert till.change(permits=2)["permits"] == 2
    lease = till.acquire()
    assert till.renew(lease, 120)
    till.change(permits=1)
    assert till.acquire() is None
    assert till.wait(PAINT, id="w")["waiting"]
    assert [each["waiting"] for each in client.semaphores.list(waiting=True)] == [1]
    assert client.semaphores.deadlocks()["complete"]
    assert till.cancel("w")
    assert till.signal(lease)
    assert not till.signal(lease)
    assert not till.renew(lease)
    other = till.acquire()
    assert till.show()["leases"][0]["id"] == other["id"]
    assert till.end_lease(other["id"], reason="a test")
    assert "paused_at" in till.pause()
    assert "paused_at" not in till.resume()
    till.delete()
    with pytest.raises(NotFound) as failed:
        till.acquire()
    assert failed.value.slug == "no-semaphore"
    section = client.critical_section("town")
    assert not section.run(PAINT, debounce_seconds=5, id="s")
    assert section.show()["key"] == "town"


def rates(client: Any, harness: Harness) -> None:
    mails = client.rate("mails")
    assert mails.ensure(per_minute=1)["burst"] == 1
    assert mails.change(burst=2)["per_minute"] == 1
    assert mails.acquire(2) == 0
    assert 0 < mails.acquire() <= 60
    assert mails.wait(PAINT, id="w") == "w"
    assert mails.show()["waiting"] == 1
    assert "mails" in [each["name"] for each in client.rates.list()]
    assert mails.cancel("w")
    assert "paused_at" in mails.pause()
    assert "paused_at" not in mails.resume()
    mails.delete()


def batches(client: Any, harness: Harness) -> None:
    batch = client.batch("outside")
    shown = batch.populate({"n": n} for n in range(2_500))
    assert (shown["state"], shown["size"]) == ("sealed", 2_500)
    batch.complete(0, result={"x": 1})
    batch.complete(1, error="broken")
    assert [unit["index"] for unit in batch.units("failed")] == [1]
    assert [unit.get("result") for unit in batch.results()] == [{"x": 1}, None]
    with pytest.raises(NotFound):
        batch.payload(0, "0" * 64)
    assert "outside" in [each["id"] for each in client.batches.list(state="sealed")]
    with pytest.raises(TimeoutError):
        batch.result(timeout_seconds=0.2)
    assert batch.cancel()["state"] == "cancelled"
    assert batch.result(timeout_seconds=1)["state"] == "cancelled"
    assert [event["event"] for event in batch.watch()][-1] == "complete"
    with pytest.raises(Conflict):
        batch.retry([1])
    with pytest.raises(NotFound):
        client.batch("none").show()
    ends_while_populated(client, harness)


def ends_while_populated(client: Any, harness: Harness) -> None:
    def units() -> Iterator[dict[str, int]]:
        for n in range(2_500):
            if n == 2_400:
                lifecycle.cancel(harness.ports, "overtaken")
            yield {"n": n}

    assert client.batch("overtaken").populate(units())["state"] == "cancelled"
    with pytest.raises(Conflict):
        client.batch("outside").populate({"n": n} for n in range(2_600))


def tasks(client: Any, harness: Harness) -> None:
    operation = client.tasks.enqueue(PAINT, id="without-a-unit")
    assert client.tasks.enqueue(PAINT, id="without-a-unit") == operation
    with pytest.raises(ApiError) as refused:
        client.tasks.enqueue(call("quilt", "pant"))
    assert (refused.value.status, refused.value.slug, refused.value.field) == (400, "bad-call", "task")
    harness.travel(5)
    [failure] = [each for each in client.failures.list() if each["id"] == operation]
    assert (failure["function"], failure["task"]) == ("quilt", "paint")
    assert client.failures.get(operation)["problem"] == "bad-argument"
    assert client.failures.count() == len(list(client.failures.list()))
    assert client.failures.count("retrying") == 0
    client.failures.retry(operation)
    client.failures.delete(client.failures.get(operation)["id"])


def things(client: Any, harness: Harness) -> None:
    stock = client.object("shop", "Stock", "lamp")
    assert stock.call("put", count=5) == 5
    with pytest.raises(CallFailed) as failed:
        stock.call("reserve", order="o", count=9)
    assert (failed.value.slug, failed.value.status, failed.value.detail) == ("sold-out", 409, "5 of lamp are left.")
    posted = stock.post("put", count=1)
    harness.travel(5)
    assert posted.result() == 6
    posted.then(call("shop", "undo", {"order": "o"}))
    followed = posted.call("show")
    harness.travel(5)
    with pytest.raises(CallFailed, match="no-object"):
        followed.result()
    assert stock.show()["exists"]
    for payload in (stock.payload, posted.payload):
        with pytest.raises(NotFound):
            payload("0" * 64)
    assert "lamp" in [each["key"] for each in client.objects("shop", "Stock").list()]
    stock.delete()


def runs(client: Any, harness: Harness) -> None:
    client.semaphore("dock").ensure(permits=2)
    checkout = client.flow("shop", "checkout")
    client.object("shop", "Stock", "cup").call("put", count=100)
    order = {"order": "7", "item": "cup", "count": 1, "amount": 10_000}
    run = checkout.start("o-7", **order)
    with pytest.raises(Conflict):
        checkout.start("o-7", **order | {"count": 2})
    harness.travel(5)
    assert run.show()["progress"] == {"waits_for": "approval"}
    with pytest.raises(TimeoutError):
        run.result(timeout_seconds=0.2)
    run.send("approval", {"approved": True, "by": "Ann"})
    harness.travel(5)
    assert run.result(timeout_seconds=1)["paid"] == "receipt of 7"
    assert next(entry["entry"] for entry in run.log()) == "done"
    assert (run.queries(), run.query("receipt")["paid"]) == (["receipt"], "receipt of 7")
    with pytest.raises(NotFound):
        run.payload("0" * 64)
    events = list(run.watch())
    assert (events[0]["event"], events[-1]["event"], events[-1]["data"]["state"]) == ("entry", "complete", "completed")
    late = checkout.start("o-8", **order | {"order": "8"})
    late.cancel("too late")
    harness.travel(5)
    with pytest.raises(CallFailed, match="too late"):
        late.result(timeout_seconds=1)
    timed = checkout.with_(labels={"tenant": "a"}).with_(timeout_seconds=86_400)
    ended = timed.start("o-9", **order | {"order": "9"})
    assert (ended.show()["labels"], "deadline_at" in ended.show()) == ({"tenant": "a"}, True)
    assert [each["id"] for each in checkout.runs(label="tenant:a")] == ["o-9"]
    assert checkout.act_on_all("resume", label="tenant:b").show()["size"] == 0
    assert (checkout.count(state="running", label="tenant:a"), checkout.count()) == (1, 3)
    long_ago, now = datetime(2020, 1, 1, tzinfo=UTC), harness.clock.now + timedelta(seconds=1)
    assert [each["id"] for each in checkout.runs(started_after=long_ago, started_before=now)] == ["o-9", "o-8", "o-7"]
    assert [each["id"] for each in checkout.runs(newest_first=True)] == ["o-9", "o-8", "o-7"]
    assert (checkout.count(started_before=long_ago), checkout.count(started_after=long_ago)) == (0, 3)
    sent = checkout.run("o-11").send("early", 1, start={"arguments": order | {"order": "11"}})
    assert (sent["started"], "warning" in sent) == (True, False)
    update = checkout.run("o-11").post_update("rename", "b", key="u1")
    assert checkout.run("o-11").post_update("rename", "b", key="u1").id == update.id == "u1"
    assert update.warning.startswith("The code does not wait for the update `rename` now")
    with pytest.raises(
        TimeoutError, match=r"has no answer after the given time\. The code does not wait for the update `rename`"
    ):
        checkout.run("o-11").update("rename", "b", key="u1", timeout_seconds=0.2)
    assert checkout.run("o-11").sent_update("u1").warning == ""
    with pytest.raises(NotFound):
        update.payload("0" * 64)
    with pytest.raises(Conflict, match="There is a run"):
        checkout.run("o-11").update("rename", "c", start={"arguments": order}, if_exists="refuse")
    checkout.run("o-11").terminate()
    checkout.run("o-11").delete()
    with pytest.raises(NotFound, match="There is no run"):
        update.result()
    drawn = checkout.with_(labels={"tenant": "d"}).start_new(**order | {"order": "10"})
    assert [each["id"] for each in checkout.runs(label="tenant:d")] == [drawn.id]
    drawn.terminate()
    drawn.delete()
    with pytest.raises(Conflict, match=r"has not failed|not failed|running"):
        ended.retry(dry_run=True)
    fork = ended.fork("o-10", 0, labels={"tenant": "c"})
    assert (fork.show()["forked_from"], fork.show()["labels"]) == ({"id": "o-9", "entries": 0}, {"tenant": "c"})
    fork.terminate()
    fork.delete()
    ended.suspend("a test")
    assert (ended.show()["state"], ended.show()["suspended"]["reason"]) == ("suspended", "a test")
    ended.resume()
    assert ended.show()["state"] == "running"
    ended.terminate("a test")
    assert sorted(each["id"] for each in checkout.runs(state="cancelled")) == ["o-8", "o-9"]
    for each in (run, late, ended):
        each.delete()
    harness.travel(5)


def standings(client: Any, harness: Harness) -> None:
    client.standings.declare("taste", by=["taste"])
    assert client.standings.kinds()["taste"]["by"] == ["taste"]
    client.yokes.put("ann", "tea", 5, {"taste": "hot"})
    client.yokes.put("bob", "tea", 4, {"taste": "mild"})
    client.yokes.put("bob", "milk", 3, {"taste": "mild"})
    harness.travel(5)
    assert client.yokes.get("bob", "tea")["attributes"] == {"taste": "mild"}
    assert sorted(each["item"] for each in client.yokes.list(user="bob")) == ["milk", "tea"]
    assert client.standings.get("item", "tea")["count"] == 2
    assert [each["id"] for each in client.standings.list("taste")] == ["mild", "hot"]
    assert client.standings.rank("item", "milk", neighbours=1)["rank"] == 2
    client.standings.recount("item", "tea")
    client.standings.recount_all()
    client.yokes.delete("ann", "tea")
    client.yokes.delete_all(user="bob")
    harness.travel(5)
    client.standings.remove("taste")
    harness.travel(5)
