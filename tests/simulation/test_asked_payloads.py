"""What is stored of large values, and what callers see, is what their page says: small programs, and single rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from signalbox import (
    Function,
    Problem,
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
from signalbox.testing import Faults
from tests.simulation.worlds.asked_payloads import shop
from tests.simulation.worlds.asked_payloads.acts import Act, listed
from tests.simulation.worlds.asked_payloads.compared import Program, difference, shrunk
from tests.simulation.worlds.asked_payloads.kit import Kit
from tests.simulation.worlds.asked_payloads.model import AWAITED_MAX, DAY, INLINE_MAX, KIB, STATE_MAX, STORED_MAX, Json
from tests.simulation.worlds.asked_payloads.values import NULL, Value

LARGE = Value("text", INLINE_MAX + 1)
OTHER = Value("umlauts", INLINE_MAX + 50, 1)
SETTLE = Act("settle")
FAULTS = Faults(duplicate=0.5, lose_answer=0.5, reorder=True, seed=3)


def run(*ops: tuple[Any, ...], a: Value = LARGE, b: Value = NULL, how: str = "") -> Act:
    return Act("start", "r", (a, b), ops, how)


HELD: dict[str, list[Act]] = {
    "a value goes through steps, a sub-flow, an object and a batch": [
        run(("step", "c", "a", "b"), ("sub", "d", "c"), ("echo", "c", "k", "d"), ("batch", "c"), ("return", "c"))
    ],
    "equal values of a run are stored once": [run(("make", "c", LARGE), ("inline", "d", LARGE), b=LARGE)],
    "a generation takes its values with it": [run(("make", "c", OTHER), ("again", "c", "b"), ("return", "a"))],
    "values of messages stay when their generation ends": [
        run(("event", "c"), ("again", "b", "b"), ("update", "d", "a"), ("return", "d")),
        Act("message", "r", (OTHER,), how="event"),
        Act("message", "r", (LARGE,), how="update"),
    ],
    "a run that is continued keeps its values for 32 days more": [run(("make", "c", OTHER), ("fail",)), Act("retry")],
    "a fork has its own copies": [
        run(("make", "c", OTHER), ("make", "d", LARGE), ("return", "c")),
        Act("fork", "r"),
        Act("delete", "r"),
    ],
    "the late result of a step is not kept for long": [Act("cut", "c", (LARGE,))],
    "a state is replaced, and deleted with its object": [
        Act("call", "k", (Value("text", STATE_MAX),), how="put http"),
        Act("call", "k", (Value("umlauts", STATE_MAX + 60),), how="put http"),
        SETTLE,
        Act("call", "k", (NULL,), how="put"),
        SETTLE,
        Act("call", "k", (Value("text", STATE_MAX),), how="put http"),
        Act("remove", "k"),
    ],
    "a task follows a call": [Act("call", "k", (LARGE, OTHER), how="echo then")],
    "a method sends a task, and calls another object": [
        Act("call", "k", (LARGE,), how="tell"),
        Act("call", "k", (LARGE,), how="hand"),
    ],
    "the arguments of a unit are counted with those of its batch's task": [
        Act("populate", "b", (Value("text", 60_000), Value("text", 42_000), Value("text", 43_000)), how="http")
    ],
    "units in groups, from outside, and retried": [
        Act("populate", "b", (LARGE, OTHER, NULL, LARGE), how="grouped"),
        Act("populate", "c", (LARGE, OTHER), how="outside"),
        Act("populate", "d", (OTHER,), how="failing"),
        Act("again", "d", (LARGE,)),
    ],
    "batches follow one another": [
        Act("chain", "b", tuple(Value("text", bytes_) for bytes_ in (90, 80, 110_000, 100_000, 50_000, 30_000)))
    ],
    "tasks of a month share a value": [
        *(Act("task", values=(LARGE, NULL), how=how) for how in ("http", "transaction", "")),
        Act("refused", values=(LARGE,)),
    ],
}


@pytest.mark.parametrize("what", HELD)
def test_the_kit_agrees_with_the_model(what: str) -> None:
    assert difference(HELD[what], with_terms=True) is None


@pytest.mark.slow
@pytest.mark.parametrize("what", HELD)
def test_the_kit_agrees_with_the_model_if_deliveries_and_the_bucket_fail(what: str) -> None:
    assert difference(HELD[what], with_terms=True, faults=FAULTS) is None


@pytest.mark.parametrize("what", ["equal values of a run are stored once", "a task follows a call"])
def test_without_the_setting_the_same_calls_are_refused(what: str) -> None:
    assert difference(HELD[what], is_on=False) is None


def test_a_difference_is_shrunk_to_a_small_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The acts before and after, and the operations of the flow, do not matter."""
    monkeypatch.setattr("signalbox.payloads.model.json_text", json.dumps)
    many = Value("items", INLINE_MAX - 90, 0)
    program = Program((run(("make", "c", OTHER), a=many), Act("task", values=(NULL,)), SETTLE))
    found = program.difference()
    assert found is not None
    assert list(map(str, shrunk(program, found).acts)) == ["start r items/102_310/0 none/4/0"]


# --- rules that the programs do not reach ---


@pytest.fixture
def kit() -> Iterator[Kit]:
    made = Kit(is_on=True)
    with made.harness as harness:
        harness.add(shop.app)
        yield made


def test_a_large_value_keeps_the_order_of_its_members_and_its_hash_counts_it(kit: Kit) -> None:
    first, second = ({"b": "x" * INLINE_MAX, "a": 1}, {"a": 1, "b": "x" * INLINE_MAX})
    for id_, value in (("1", first), ("2", second)):
        shop.inner.start(id_, value)
    kit.settle()
    shown = [kit.json(f"shop/flows/inner/{id_}")["result"]["$payload"]["sha256"] for id_ in "12"]
    texts = [json.dumps(value, separators=(",", ":")) for value in (first, second)]
    assert shown == [sha256(text.encode()).hexdigest() for text in texts]
    assert list(flows("inner", "1").status().result) == ["b", "a"]


def test_a_value_that_is_lost_stops_its_run_until_it_is_restored(kit: Kit) -> None:
    script = [["event", "c"], ["step", "d", "a", "b"], ["return", "d"]]
    lost = Value("text", STORED_MAX // 16).json
    shop.told.start("r", script=script, a=lost)
    kit.settle()
    bucket = kit.harness.payloads
    contents, stored = dict(bucket.contents), dict(bucket.stored)
    bucket.contents.clear()
    kit.forget()
    flows("told", "r").event("told", None)
    kit.harness.travel(60, raise_errors=False)
    assert flows("told", "r").status().state == "running"
    assert "payload damaged" in {message for message, _ in kit.harness.log.errors}
    bucket.contents.update(contents)
    bucket.stored.update(stored)
    kit.harness.travel(3_600, raise_errors=False)
    assert flows("told", "r").status().result == lost


def test_an_archive_has_the_value_next_to_it(kit: Kit) -> None:
    with TemporaryDirectory() as folder:
        app = Function("ferry")

        @app.flow(archive=folder)
        async def crossing(value: Any) -> Any:
            return value

        kit.harness.add(app)
        crossing.start("c1", OTHER.json)
        kit.settle()
        [file] = Path(folder).rglob("c1~*~*.ndjson")
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert file.stem.rpartition("~")[2] == sha256(json.dumps(OTHER.json, separators=(",", ":")).encode()).hexdigest()
    assert json.loads("".join(line["text"] for line in lines)) == OTHER.json


def test_the_value_of_a_callback_is_stored_once_for_the_run(kit: Kit) -> None:
    app, approvals = Function("orders"), Function("approvals")
    approvals.callbacks()
    sent: list[str] = []

    @app.task
    def mail(text: str) -> None:
        sent.append(text)

    @app.flow
    async def order() -> Any:
        await mail.call(await flow.callback("approval", through="approvals", expires_seconds=600))
        return await flow.event("approval")

    kit.harness.add(app)
    kit.harness.add(approvals)
    order.start("7")
    kit.harness.travel(10)
    path = sent[0].partition("/approvals")[2]
    for _ in range(2):
        assert kit.harness.call("approvals", path, method="POST", json=OTHER.json).status_code in (200, 202)
    kit.settle()
    assert flows("order", "7").status().result == OTHER.json
    assert list(kit.stored().values()) == [2], "of the messages, and of the execution, whose result it is"


def problem_of(call: Callable[[], object]) -> str:
    try:
        call()
    except Problem as problem:
        return problem.slug()
    return ""


@pytest.mark.slow
@pytest.mark.parametrize(("more", "problem"), [(0, ""), (1, "too-large")])
def test_the_arguments_of_a_start_have_at_most_32_mib_together(more: int, problem: str, kit: Kit) -> None:
    value = Value("text", STORED_MAX - len('{"value":}') + more).json
    assert problem_of(lambda: shop.inner.start("r", value)) == problem
    assert kit.stored().total() == (0 if problem else 1)


@pytest.mark.slow
@pytest.mark.parametrize(("bytes_", "problem"), [(2 * KIB * KIB - 200, ""), (2 * KIB * KIB + 200, "too-large")])
def test_batches_that_follow_have_at_most_8_mib(bytes_: int, problem: str, kit: Kit) -> None:
    follows = sub_batch([shop.give.call(value=Value("text", bytes_, seed).json) for seed in range(4)])
    assert problem_of(lambda: batch("b").populate([shop.give.call(value=1)], then=follows)) == problem
    kit.harness.travel(600)
    assert kit.stored().total() == (0 if problem else 5), "each argument, and the units before they were expanded"


LIMITED = Value("text", INLINE_MAX + 1).json


@pytest.mark.parametrize("is_on", [True, False])
def test_values_that_are_not_in_the_table_keep_their_limit(is_on: bool) -> None:
    app = Function("slow")

    @app.flow
    async def progressing() -> None:
        flow.progress(LIMITED)

    kit = Kit(is_on=is_on)
    with kit.harness as harness:
        harness.add(shop.app)
        harness.add(app)
        semaphore("s").ensure(permits=1)
        rate("r").ensure(per_minute=60)
        continued = [
            lambda: semaphore("s").wait(shop.take.call(value=LIMITED)),
            lambda: rate("r").wait(shop.take.call(value=LIMITED)),
            lambda: critical_section("c").run(shop.take.call(value=LIMITED)),
            lambda: batch("b").populate([shop.give.call(value=1)], on_complete=shop.take.call(value=LIMITED)),
            lambda: shop.inner.with_(on_complete=shop.take.call(value=LIMITED)).start("r", 1),
            lambda: objects("Box", "k").echo(value=1).then(shop.take.call(value=LIMITED)),
        ]
        for call in continued:
            assert problem_of(call) == "too-large"
        progressing.start("p")
        harness.run(raise_errors=False)
        assert flows("progressing", "p").status().state == "stuck"
        assert kit.stored().total() == 0


@pytest.mark.parametrize("is_on", [True, False])
def test_a_query_may_have_a_large_answer_with_any_setting(is_on: bool) -> None:
    app = Function("asked")

    @app.flow
    async def answering() -> None:
        flow.answer("all", lambda: "x" * AWAITED_MAX)
        await flow.event("told")

    kit = Kit(is_on=is_on)
    with kit.harness as harness:
        harness.add(app)
        answering.start("q")
        harness.travel(10)
        assert harness.get("asked/flows/answering/q/queries/all").json["result"] == "x" * AWAITED_MAX
        assert kit.stored().total() == 0


def test_the_terms_of_a_flow_that_is_kept_longer_are_those_of_the_flow(kit: Kit) -> None:
    app = Function("kept")

    @app.flow(retention_days=90)
    async def keeping(value: Any) -> None: ...

    kit.harness.add(app)
    keeping.start("k", OTHER.json)
    kit.settle()
    kit.travel_to(89.9 * DAY)
    assert kit.stored().total() == 1
    kit.travel_to(90.2 * DAY)
    assert kit.stored().total() == 0


# --- requests to the bucket, as docs/reference/costs.md has them ---


def bucket_requests(kit: Kit, call: Callable[[], object]) -> dict[str, int]:
    """Return the requests of a call, and of what follows from it."""
    kit.requests.clear()
    call()
    kit.harness.travel(60)
    return {name: number for name, number in kit.requests.items() if number}


def told(*ops: tuple[Any, ...], **arguments: Json) -> Callable[[], object]:
    return lambda: shop.told.start(f"r{ops}", script=listed(ops), **arguments)


COSTS: dict[str, tuple[Callable[[], object], dict[str, int]]] = {
    "a step has a large result, which the code passes to a step": (
        told(("make", "c", LARGE), ("step", "d", "b", "c"), ("return", "b")),
        {"create": 1},
    ),
    "an inline step has a large result": (told(("inline", "c", LARGE), ("return", "b")), {"create": 1}),
    "a large value goes to a sub-flow and back": (
        told(("make", "c", LARGE), ("sub", "d", "c"), ("return", "b")),
        {"create": 2},
    ),
    "a start has a large argument": (told(("return", "b"), a=LARGE.json), {"create": 1}),
    "a call of an object has a large argument and a large result": (
        lambda: objects("Box", "k").echo(value=LARGE.json),
        {"create": 2},
    ),
    "a turn changes a large state": (
        lambda: objects("Box", "k").put(value=Value("text", STATE_MAX).json),
        {"create": 2},
    ),
    "a page of a batch has two large arguments, which are the results of its units": (
        lambda: batch("b").populate([shop.give.call(value=value.json) for value in (LARGE, OTHER)]),
        {"create": 2},
    ),
    "a task with a large argument is enqueued": (lambda: shop.take.call(value=LARGE.json).enqueue(), {"create": 1}),
    "a transaction enqueues a task with a large argument": (
        lambda: transaction(shop.transacted({"value": LARGE.json}), id="t"),
        {"create": 1},
    ),
}


@pytest.mark.parametrize("what", COSTS)
def test_an_operation_makes_the_requests_that_the_page_of_costs_has(what: str, kit: Kit) -> None:
    call, expected = COSTS[what]
    assert bucket_requests(kit, call) == expected


def test_another_process_reads_a_value_once_and_a_removal_deletes_it(kit: Kit) -> None:
    shop.told.start("r", script=[["event", "c"], ["step", "d", "b", "b"], ["return", "b"]], a=LARGE.json)
    kit.settle()
    kit.forget()
    assert bucket_requests(kit, lambda: flows("told", "r").event("told", None)) == {"read": 1}
    assert bucket_requests(kit, flows("told", "r").delete) == {}
    assert bucket_requests(kit, lambda: kit.harness.run_schedule("sweep"))["delete"] == 1
