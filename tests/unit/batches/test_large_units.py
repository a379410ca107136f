"""Large arguments and results of units, and of enqueued tasks, of a function in a project that stores payloads."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from signalbox import Function, Problem, Transaction, Unit, batch, flow, rate, semaphore, sub_batch, transaction
from signalbox.adapters.cost_meter import Cost
from signalbox.batches import storage
from signalbox.batches import sweep as batches_sweep
from signalbox.batches.model.pages import Page, loaded
from signalbox.batches.model.units import succeeded
from signalbox.batches.requests import RetryRequest
from signalbox.batches.service import lists, retries
from signalbox.batches.service.units import complete_by_index
from signalbox.core import effects
from signalbox.core.limits import DECLARED
from signalbox.core.ports import Query
from signalbox.core.problems import TooLarge
from signalbox.flows import sweep as flows_sweep
from signalbox.payloads import sweep
from signalbox.payloads.problems import NoPayload
from signalbox.tasks.model.contexts import context_of, is_named
from signalbox.testing import Harness, TaskFailed
from tests.unit.cost_table import row_cost
from tests.unit.operations_platform import OperationsPlatform

LARGE = "x" * 200_000
DAY_SECONDS = 24 * 3600


@pytest.fixture
def at() -> Iterator[Harness]:
    harness = Harness()
    harness.functions._catalogue = replace(harness.functions._catalogue, payloads=True)
    with harness:
        yield harness


def keys(at: Harness) -> list[str]:
    return sorted(at.payloads.contents)


def painter(at: Harness) -> Function:
    app = Function("painter")

    @app.task
    def paint(text: str, fail: bool = False) -> str:
        if fail:
            raise Problem("No.")
        return text[::-1]

    @app.task
    def divide(text: str) -> Any:
        return sub_batch(paint.call(text=f"{text}{part}") for part in range(2))

    @app.task
    def together(text: list[str], units: list[Unit]) -> list[str]:
        return [f"{len(units)} {each}" for each in text]

    app.paint, app.divide, app.together = paint, divide, together  # type: ignore[attr-defined]  # for the tests
    at.add(app)
    return app


def results(id_: str) -> dict[int, Any]:
    return {unit["index"]: unit.get("result", unit.get("error")) for unit in batch(id_).results()}


def test_large_arguments_and_results_of_units_arrive_and_are_removed_with_the_batch(at: Harness) -> None:
    app: Any = painter(at)
    batch("b").populate([app.paint.call(text=f"{LARGE}{number}") for number in range(3)] + [app.paint.call(text="ab")])
    assert len(keys(at)) == 3
    at.travel(5)
    assert results("b") == {**{number: f"{number}{LARGE}" for number in range(3)}, 3: "ba"}
    assert len(keys(at)) == 6
    at.travel(40 * DAY_SECONDS)
    for _ in range(2):
        batches_sweep.sweep(at.ports)
        sweep.sweep(at.ports)
    assert keys(at) == []


def test_a_repeat_with_the_same_large_units_changes_nothing(at: Harness) -> None:
    app: Any = painter(at)
    for _ in range(2):
        batch("b").populate([app.paint.call(text=LARGE)])
    at.travel(5)
    assert batch("b").status()["succeeded"] == 1


def test_lists_and_downloads_show_a_large_result_by_size_and_it_can_be_read(at: Harness) -> None:
    app: Any = painter(at)
    batch("b").populate([app.paint.call(text=LARGE)])
    at.travel(5)
    [unit] = at.call("batches", "/b/units").json["units"]  # type: ignore[index]  # an object
    named = unit["result"]["$payload"]
    assert named["bytes"] == 200_002
    found = at.call("batches", f"/b/units/0/payloads/{named['sha256']}")
    assert (found.status_code, found.json) == (200, {"sha256": named["sha256"], "value": LARGE})
    assert found.content_type == "application/json; charset=utf-8"
    assert at.call("batches", f"/b/units/0/payloads/{'0' * 64}").status_code == 404
    line = json.loads(at.call("batches", "/b/results").get_data(as_text=True))
    assert line["result"] == unit["result"]


def test_a_large_value_is_sent_as_it_is_stored_and_not_parsed(at: Harness) -> None:
    value = [LARGE, "é\u2028\ud800", 2**60 + 1, 1e-7, {"value": '"}'}]
    app = Function("painter")

    @app.task
    def draw() -> Any:
        return value

    at.add(app)
    batch("b").populate([draw.call()])
    at.travel(5)
    [unit] = at.call("batches", "/b/units").json["units"]  # type: ignore[index]  # an object
    [content], sha256 = at.payloads.contents.values(), unit["result"]["$payload"]["sha256"]
    found = at.call("batches", f"/b/units/0/payloads/{sha256}")
    assert found.get_data() == b'{"sha256": "%s", "value": %s}\n' % (sha256.encode(), content)
    assert found.json["value"] == value  # type: ignore[index]  # an object


@pytest.mark.parametrize("content", [None, b'"xx', b""])
def test_a_large_result_that_is_damaged_is_refused_at_once_and_can_be_read_once_it_is_restored(
    at: Harness, content: bytes | None
) -> None:
    app: Any = painter(at)
    batch("b").populate([app.paint.call(text=LARGE)])
    at.travel(5)
    [unit] = at.call("batches", "/b/units").json["units"]  # type: ignore[index]  # an object
    address = f"/b/units/0/payloads/{unit['result']['$payload']['sha256']}"
    whole = dict(at.payloads.contents)
    at.payloads.contents.update(dict.fromkeys(whole, content))  # type: ignore[arg-type]  # None is read as missing
    at.ports.payloads.forget()  # type: ignore[union-attr]  # it keeps contents
    refused = at.call("batches", address)
    assert (refused.status_code, refused.json["type"]) == (404, "urn:signalbox:problem:no-payload")  # type: ignore[index]  # an object
    assert "is missing in the store, or damaged" in refused.json["detail"]  # type: ignore[index]  # an object
    at.payloads.contents.update(whole)
    assert at.call("batches", address).json["value"] == LARGE  # type: ignore[index]  # an object


def test_a_large_result_is_refused_at_once_while_the_deployment_stores_none(at: Harness) -> None:
    app: Any = painter(at)
    batch("b").populate([app.paint.call(text=LARGE)])
    at.travel(5)
    [unit] = at.call("batches", "/b/units").json["units"]  # type: ignore[index]  # an object
    sha256 = unit["result"]["$payload"]["sha256"]
    with pytest.raises(NoPayload, match="write `payloads: true`"):
        lists.result_by_hash(replace(at.ports, payloads=None), "b", 0, sha256)


def test_units_in_groups_receive_and_return_large_values(at: Harness) -> None:
    app: Any = painter(at)
    calls = [app.paint.call(text=f"{LARGE}{number}", fail=number == 2) for number in range(5)]
    batch("b").populate(calls, per_task=3)
    at.travel(5)
    assert results("b") == {number: "No." if number == 2 else f"{number}{LARGE}" for number in range(5)}


def test_one_call_for_several_units_receives_their_large_values(at: Harness) -> None:
    app: Any = painter(at)
    batch("b").populate([app.together.call(text=[f"{LARGE}{number}"]) for number in range(4)], per_task=2)
    at.travel(5)
    assert results("b") == {number: f"2 {LARGE}{number}" for number in range(4)}


def test_a_retry_of_a_unit_has_its_large_arguments(at: Harness) -> None:
    app: Any = painter(at)
    batch("b").populate([app.paint.call(text=LARGE, fail=True)])
    at.travel(5)
    assert results("b") == {0: "No."}
    at.call("batches", "/b/retry", method="POST", json={"payload": {"fail": False}})
    at.travel(5)
    assert results("b") == {0: LARGE}


def test_units_under_permits_and_in_chains_keep_their_large_arguments(at: Harness) -> None:
    app: Any = painter(at)
    semaphore("s").ensure(permits=1)
    batch("b").populate([app.paint.call(text=f"{LARGE}{number}") for number in range(3)], semaphore="s")
    batch("c").populate([app.paint.call(text=f"{LARGE}{number}") for number in range(3)], concurrency=1)
    at.travel(30)
    for id_ in ("b", "c"):
        assert results(id_) == {number: f"{number}{LARGE}" for number in range(3)}


def test_groups_that_wait_for_a_rate_keep_their_large_arguments(at: Harness) -> None:
    app: Any = painter(at)
    rate("r").ensure(600, burst=2)
    calls = [app.paint.call(text=f"{LARGE}{number}", fail=number == 2) for number in range(4)]
    batch("b").populate([*calls, app.paint.call(text="ab")], rate="r", per_task=2)
    batch("c").populate([app.together.call(text=[f"{LARGE}{number}"]) for number in range(4)], rate="r", per_task=2)
    at.travel(60)
    assert results("b") == {**{number: f"{number}{LARGE}" for number in range(4)}, 2: "No.", 4: "ba"}
    assert results("c") == {number: f"2 {LARGE}{number}" for number in range(4)}


@pytest.mark.parametrize("large", ["", LARGE])
@pytest.mark.parametrize("options", [{"rate": "r"}, {"rate": "r", "per_task": 2}, {"per_task": 2}, {"semaphore": "s"}])
def test_no_unit_opens_the_payload_that_its_arguments_seem_to_name(at: Harness, options: Any, large: str) -> None:
    app, value = Function("painter"), {"$payload": [1, "hash", "key"]}

    @app.task
    def echo(value: dict[str, Any], text: str) -> dict[str, Any]:
        return value

    at.add(app)
    rate("r").ensure(600, burst=2)
    semaphore("s").ensure(permits=1)
    batch("b").populate([echo.call(value=value, text=text) for text in ("x", large, "y")], **options)
    run, _ = storage.read_header(at.ports, "b")
    page = loaded(at.ports.store.read(run.page_path(0))[0].data)
    at.travel(60)
    assert results("b") == dict.fromkeys(range(3), value)
    assert isinstance(page, Page)
    assert page.has_payloads == bool(large)


@pytest.mark.parametrize("options", [{"rate": "r"}, {"rate": "r", "per_task": 2}, {"semaphore": "s"}])
def test_waits_of_units_with_large_arguments_and_their_tasks_have_named_ones(at: Harness, options: Any) -> None:
    app: Any = painter(at)
    rate("r").ensure(600, burst=2)
    semaphore("s").ensure(permits=1)
    limiter: Any = rate("r") if "rate" in options else semaphore("s")
    limiter.pause()
    batch("b").populate([app.paint.call(text=f"{LARGE}{number}") for number in range(4)], **options)
    contexts = list[Any]()
    with mock.patch.object(effects, "check_task", lambda _, context: contexts.append(context)):
        at.travel(5)
        collection = "rate_waits" if "rate" in options else "waiters"
        waits = [wait.data for wait in at.ports.store.query(Query(collection, group=True))]
        limiter.resume()
        at.travel(60)
    tasks = [context for context in contexts if not context.keys().isdisjoint({"unit", "group", "lease"})]
    count = 2 if "per_task" in options else 4
    assert ['"named": true' in (wait or {})["unit"] for wait in waits] == [True] * count
    assert [is_named(context_of(context)) for context in tasks] == [True] * 2 * count


def test_a_sub_batch_has_its_own_payloads(at: Harness) -> None:
    app: Any = painter(at)
    batch("b").populate([app.divide.call(text=LARGE)])
    at.travel(10)
    [child] = [result["batch"] for result in results("b").values()]
    assert results(child) == {number: f"{number}{LARGE}" for number in range(2)}
    assert len({key.split("/")[1] for key in keys(at)}) == 2


def test_a_unit_that_looks_like_the_name_of_a_payload_arrives_as_it_is(at: Harness) -> None:
    app, value = Function("painter"), {"$payload": [1, "hash", "key"]}

    @app.task
    def echo(value: dict[str, Any], text: str = "") -> dict[str, Any]:
        return value

    at.add(app)
    batch("b").populate([echo.call(value=value), echo.call(value=value, text=LARGE)])
    batch("c").populate([echo.call(value=value)])
    at.travel(5)
    assert (results("b"), results("c")) == ({0: value, 1: value}, {0: value})


def test_a_unit_that_is_completed_from_outside_can_have_a_large_result(at: Harness) -> None:
    at.call("batches", "/", method="POST", json={"id": "b", "units": [LARGE, 1], "sealed": True})
    for index, value in enumerate((LARGE, LARGE + "y")):
        assert at.call("batch_complete", f"/b/{index}", method="POST", json={"result": value}).status_code == 200
    assert results("b") == {0: LARGE, 1: LARGE + "y"}


def test_without_the_setting_a_large_unit_is_refused_and_the_refusal_names_it(at: Harness) -> None:
    app: Any = painter(at)
    with mock.patch.dict(DECLARED, {"payloads": "off"}):
        with pytest.raises(TooLarge, match="payloads: true"):
            app.paint.call(text=LARGE)
        batch("b").populate([app.together.call(text=["x"])])
    assert keys(at) == []


# --- enqueued tasks ---


def told(at: Harness) -> tuple[Any, list[str]]:
    app, seen = Function("teller"), list[str]()

    @app.task
    def tell(text: str, fail: bool = False) -> None:
        seen.append(text)
        if fail:
            raise Problem("No.")

    @app.task
    def pass_on(text: str) -> None:
        tell.call(text=text).enqueue()

    at.add(app)
    app.tell, app.pass_on = tell, pass_on  # type: ignore[attr-defined]  # for the tests
    return app, seen


def test_a_task_that_is_enqueued_with_a_large_argument_receives_it(at: Harness) -> None:
    app, seen = told(at)
    app.tell.call(text=LARGE).enqueue()
    app.tell.call(text=LARGE + "id").enqueue(id="i")
    app.tell.call(text=LARGE + "id").enqueue(id="i")
    app.pass_on.call(text=LARGE + "task").enqueue(delay_seconds=60)
    at.travel(100)
    assert sorted(map(len, seen)) == [200_000, 200_002, 200_004]
    assert {key.split("/")[0] for key in keys(at)} == {"tasks"}
    at.travel(140 * DAY_SECONDS)
    sweep.sweep(at.ports)
    assert keys(at) == []


def test_a_task_of_a_transaction_receives_its_large_argument(at: Harness) -> None:
    app, seen = told(at)
    for _ in range(2):
        transaction(lambda t: t.enqueue(app.tell.call(text=LARGE)), id="once")
    transaction(lambda t: t.enqueue(app.tell.call(text=LARGE + "later").after(60)))
    at.travel(100)
    assert sorted(map(len, seen)) == [200_000, 200_005]
    assert {key.split("/")[0] for key in keys(at)} == {"tasks"}


def test_a_transaction_that_is_refused_enqueues_and_keeps_nothing(at: Harness) -> None:
    app, seen = told(at)

    def code(t: Transaction) -> None:
        t.enqueue(app.tell.call(text=LARGE))
        raise Problem("No.")

    with pytest.raises(Problem):
        transaction(code)
    at.travel(100)
    assert (seen, keys(at)) == ([], [])


def test_a_failure_shows_a_large_argument_by_size_and_its_retry_receives_it(at: Harness) -> None:
    app, seen = told(at)
    app.tell.call(text=LARGE, fail=True).enqueue()
    at.travel(5)
    [failure] = at.call("failures", "/").json["failures"]  # type: ignore[index]  # an object
    assert failure["payload"]["text"]["$payload"]["bytes"] == 200_002
    at.call("failures", f"/{failure['id']}/retry", method="POST")
    at.travel(5)
    assert seen == [LARGE, LARGE]


def test_a_large_call_that_continues_something_is_refused(at: Harness) -> None:
    app, _ = told(at)
    with pytest.raises(TooLarge):
        batch("b").populate([app.tell.call(text="x")], on_complete=app.tell.call(text=LARGE))


# --- batches that follow ---


def test_batches_with_large_units_follow_each_other_and_are_removed(at: Harness) -> None:
    app: Any = painter(at)
    third = sub_batch([app.paint.call(text=f"{LARGE}3"), app.paint.call(text="small")])
    second = sub_batch([app.paint.call(text=f"{LARGE}2")], then=third)
    first = batch("b")
    first.populate([app.paint.call(text="ab")], then=second)
    assert first.populate([app.paint.call(text="ab")], then=second)["state"] == "sealed"
    assert {key.split("/")[0] for key in keys(at)} == {"batches"}
    at.travel(5)
    follows = first.status()["then"]
    assert results(follows) == {0: f"2{LARGE}"}
    assert results(batch(follows).status()["then"]) == {0: f"3{LARGE}", 1: "llams"}
    at.travel(40 * DAY_SECONDS)
    for _ in range(2):
        batches_sweep.sweep(at.ports)
        sweep.sweep(at.ports)
    assert keys(at) == []


def test_batches_with_large_units_follow_the_sub_batch_of_a_unit(at: Harness) -> None:
    app: Any = painter(at)

    @app.task  # type: ignore[untyped-decorator]  # of Any
    def begin() -> Any:
        then = sub_batch([app.paint.call(text=f"{LARGE}{number}") for number in range(2)])
        return sub_batch([app.paint.call(text="ab")], then=then)

    batch("b").populate([begin.call()])
    at.travel(5)
    assert results("b")[0]["size"] == 2


def test_many_small_units_of_a_batch_that_follows_are_stored_together(at: Harness) -> None:
    app: Any = painter(at)
    batch("b").populate(
        [app.paint.call(text="ab")], then=sub_batch(app.paint.call(text=f"{number}" * 1_000) for number in range(300))
    )
    assert len(keys(at)) == 1
    at.travel(5)
    assert len(results(batch("b").status()["then"])) == 300


def test_a_repeat_of_a_batch_that_large_ones_follow_stores_nothing(at: Harness) -> None:
    app: Any = painter(at)
    for _ in range(2):
        batch("b").populate([app.paint.call(text="ab")], then=sub_batch([app.paint.call(text=LARGE * 2)]))
        assert len(keys(at)) == 1


def test_batches_that_follow_are_bounded_also_with_payloads(at: Harness) -> None:
    app: Any = painter(at)
    with pytest.raises(TooLarge, match="have at most 8,388,608 bytes"):
        batch("b").populate([], then=sub_batch(app.paint.call(text=LARGE) for _ in range(50)))
    large_task = {"function": "painter", "task": "paint", "payload": {"text": "x" * 90_000}}
    then: dict[str, Any] = {"units": [], "task": large_task, "on_complete": large_task, "on_failure": large_task}
    answer = at.call("batches", "/", method="POST", json={"id": "c", "units": [], "sealed": True, "then": then})
    assert (answer.status[:3], answer.json["field"]) == ("413", "then")  # type: ignore[index]  # an object
    assert keys(at) == []


def test_a_flow_awaits_a_batch_with_large_units_in_all(at: Harness) -> None:
    app = painter(at)
    paint: Any = vars(app)["paint"]

    @app.flow
    async def paints(parts: int) -> int:
        painted: Any = await flow.batch([paint.call(text=f"{LARGE}{part}") for part in range(parts)])
        return int(painted["succeeded"])

    run = paints.start("f", parts=3)
    at.travel(5)
    assert run.status().result == 3
    assert {key.split("/")[0] for key in keys(at)} == {"flows", "batches"}
    at.travel(80 * DAY_SECONDS)
    for _ in range(2):
        for each in (flows_sweep, batches_sweep, sweep):
            each.sweep(at.ports)
    assert keys(at) == []


def test_a_batch_that_a_flow_awaits_is_refused_without_payloads() -> None:
    with Harness() as harness:
        app = painter(harness)
        paint: Any = vars(app)["paint"]

        @app.flow
        async def paints() -> int:
            painted: Any = await flow.batch([paint.call(text="x" * 90_000) for part in range(4)])
            return int(painted["succeeded"])

        paints.start("f")
        with pytest.raises(TaskFailed, match="need `payloads: true`"):
            harness.travel(5)


# --- retries ---


def retried(at: Harness, id_: str, **payload: Any) -> None:
    at.call("batches", f"/{id_}/retry", method="POST", json={"payload": payload})


@pytest.mark.parametrize("concurrency", [None, 1])
@pytest.mark.parametrize("first", ["ab", LARGE])
def test_a_retry_receives_a_large_changed_argument(at: Harness, first: str, concurrency: int | None) -> None:
    app: Any = painter(at)
    calls = [app.paint.call(text=first, fail=True), app.paint.call(text="cd", fail=True)]
    batch("b").populate(calls, concurrency=concurrency)
    at.travel(5)
    before = keys(at)
    for _ in range(2):
        at.call(
            "batches",
            "/b/retry",
            method="POST",
            json={"payload": {"text": f"1{LARGE}", "fail": False}},
            headers={"Idempotency-Key": "k"},
        )
    assert len(keys(at)) == len(before) + 1
    at.travel(5)
    assert results("b") == {0: f"{LARGE}1", 1: f"{LARGE}1"}
    at.travel(40 * DAY_SECONDS)
    for _ in range(2):
        batches_sweep.sweep(at.ports)
        sweep.sweep(at.ports)
    assert keys(at) == []


def test_a_retry_with_a_large_argument_keeps_the_others_of_a_unit_as_they_are(at: Harness) -> None:
    app, seen = Function("painter"), list[Any]()

    @app.task
    def paint(text: str, other: Any) -> None:
        seen.append(other)
        if len(text) < 10:
            raise Problem("No.")

    at.add(app)
    other = {"$payload": {"value": 1}}
    batch("b").populate([paint.call(text="ab", other=other)])
    at.travel(5)
    retried(at, "b", text=LARGE)
    at.travel(5)
    assert seen == [other, other]


# --- costs ---

cost_of = OperationsPlatform.cost_of


def added(work: Any) -> Cost:
    large, small = work(LARGE), work("x")
    names = ("round_trips", "reads", "writes", "deletes", "tasks")
    return Cost(**{name: getattr(large, name) - getattr(small, name) for name in names})


def test_what_large_units_and_tasks_cost(at: Harness) -> None:
    app: Any = painter(at)
    teller, _ = told(at)

    def populated(text: str) -> Cost:
        return cost_of(lambda: batch(f"b{len(text)}").populate([app.paint.call(text=text)]))

    def enqueued(text: str) -> Cost:
        return cost_of(lambda: teller.tell.call(text=text).enqueue())

    def in_a_transaction(text: str) -> Cost:
        return cost_of(lambda: transaction(lambda t: t.enqueue(teller.tell.call(text=f"{text}alone"))))

    def of_a_transaction_that_reads(text: str) -> Cost:
        def code(t: Transaction) -> None:
            t.get("a")
            t.enqueue(teller.tell.call(text=f"{text}read"))

        return cost_of(lambda: transaction(code))

    def followed(text: str) -> Cost:
        then = sub_batch([app.paint.call(text=f"{text}{number}") for number in range(2)])
        return cost_of(lambda: batch(f"f{len(text)}").populate([app.paint.call(text="x")], then=then))

    def of_a_retry(text: str) -> Cost:
        id_ = f"r{len(text)}"
        batch(id_).populate([app.paint.call(text="x", fail=True)])
        at.travel(5)
        return cost_of(lambda: retries.retry(at.ports, id_, RetryRequest(payload={"text": f"{text}retry"})))

    assert added(of_a_retry) == row_cost("payloads", "retry")
    assert added(followed) == row_cost("payloads", "then", n=1)
    assert added(in_a_transaction) == row_cost("payloads", "enqueue")
    assert added(of_a_transaction_that_reads) == row_cost("payloads", "enqueue_in_transaction")
    assert added(populated) == row_cost("payloads", "unit", n=1)
    assert added(enqueued) == row_cost("payloads", "enqueue")


def test_what_large_results_and_removals_cost(at: Harness) -> None:
    def created(id_: str) -> None:
        at.call("batches", "/", method="POST", json={"id": id_, "units": [1], "sealed": True})

    def completed(text: str) -> Cost:
        created(f"c{len(text)}")
        return cost_of(lambda: complete_by_index(at.ports, f"c{len(text)}", 0, succeeded(text)))

    def removed(setting: str) -> Cost:
        created(setting)
        at.call("batch_complete", f"/{setting}/0", method="POST", json={"result": 1})
        at.travel(40 * DAY_SECONDS)
        with mock.patch.dict(DECLARED, {"payloads": setting}):
            return cost_of(lambda: batches_sweep.sweep(at.ports))

    assert added(completed) == row_cost("payloads", "unit_result")
    at.travel(40 * DAY_SECONDS)
    batches_sweep.sweep(at.ports)
    names = ("round_trips", "reads", "writes", "deletes", "tasks")
    more, less = removed("on"), removed("off")
    difference = Cost(**{name: getattr(more, name) - getattr(less, name) for name in names})
    assert difference == row_cost("payloads", "batch_removal")
