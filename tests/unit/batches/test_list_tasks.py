"""Tasks that take several units at once: which calls they may make, and how their arguments and results are divided."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from signalbox import (
    Function,
    TaskContext,
    Unit,
    batch,
    critical_section,
    documents,
    flow,
    flows,
    objects,
    rate,
    read_only,
    semaphore,
    sub_batch,
    transaction,
)
from signalbox.testing import Harness

N = 3


@pytest.fixture
def project() -> Iterator[Harness]:
    with Harness() as entered:
        yield entered


class Shop:
    """A function whose task of several units makes a call for each, and whose first delivery then raises.

    `calls` counts what the calls did.
    """

    def __init__(self, project: Harness) -> None:
        self.project, self.calls, self.operations = project, Counter[int](), dict[int, set[str]]()
        self.retried = False
        self.app = app = Function("shop")
        self.call: Callable[[Unit, int], Any] = lambda *_: None
        deliveries: list[int] = []

        @app.task
        def mail(n: int) -> None:
            self.calls[n] += 1

        @app.task
        def collect(ns: list[int]) -> None:
            self.calls.update(ns)

        @app.object
        class Box:
            opened: int = 0

            def open(self, n: int) -> None:
                self.opened += n

            @read_only
            def count(self) -> int:
                return self.opened

        @app.flow
        async def trip(n: int) -> None:
            await flow.event("go", int)
            self.calls[n] += 1

        @app.task
        def work(units: list[Unit], context: TaskContext, n: list[int]) -> list[int]:
            for unit, number in zip(units, n, strict=True):
                self.operations.setdefault(unit.index, set()).add(context.operation)
                self.call(unit, number)
            deliveries.append(len(units))
            if len(deliveries) == 1:
                raise RuntimeError("the process has a bad day")
            return n

        self.mail, self.collect, self.trip, self.work = mail, collect, trip, work
        project.add(app)
        semaphore("s").ensure(permits=10)
        rate("r").ensure(per_minute=600)

    def run(self, call: Callable[[Unit, int], Any], per_task: int | None = N) -> None:
        self.call = call
        batch("b").populate((self.work.call(n=[n]) for n in range(N)), per_task=per_task)
        self.project.run(raise_errors=False)

    def opened(self) -> int:
        count = objects("Box", "b").count()
        self.project.run()
        opened: int = count.result()
        return opened

    def errors(self) -> list[str]:
        return [unit["error"] for unit in batch("b").results("failed")]


@pytest.fixture
def shop(project: Harness) -> Shop:
    return Shop(project)


def id_of(unit: Unit) -> str:
    return f"{unit.batch}-{unit.index}"


def move(n: int) -> None:
    def code(tx: Any) -> None:
        account = tx.get(f"account-{n}") or {"moved": 0}
        tx.put(f"account-{n}", {"moved": account["moved"] + 1})

    transaction(code, id=f"move-{n}")


def move_without_an_id(n: int) -> None:
    def code(tx: Any) -> None:
        tx.put(f"account-{n}", {"moved": 1})

    transaction(code)


WITHOUT_AN_ID: dict[str, Callable[[Shop, Unit, int], Any]] = {
    "enqueue": lambda shop, _, n: shop.mail.call(n=n).enqueue(),
    "transaction": lambda _, __, n: move_without_an_id(n),
    "semaphore.wait": lambda shop, _, n: semaphore("s").wait(shop.mail.call(n=n)),
    "semaphore.acquire": lambda _, __, ___: semaphore("s").acquire(),
    "rate.wait": lambda shop, _, n: rate("r").wait(shop.mail.call(n=n)),
    "section": lambda shop, _, n: critical_section("c").run(shop.collect.call(ns=[n]), collect="ns"),
    "flow": lambda shop, _, n: shop.trip.start_new(n=n),
    "flow by name": lambda _, __, n: flows("trip").start(n=n),
    "event": lambda _, __, n: flows("trip", "t").event("go", n),
    "cancel": lambda _, __, ___: flows("trip", "t").cancel(),
    "object": lambda _, __, n: objects("Box", "b").open(n=n),
    "delete": lambda _, __, ___: objects("Box", "b").delete(),
}


def _acquire_and_signal(_: Shop, unit: Unit, __: int) -> None:
    lease = semaphore("s").acquire(id=f"{id_of(unit)}-{len(LEASES)}")
    assert lease is not None, "ten permits are free"
    LEASES.append(lease.id)
    semaphore("s").signal(lease)


LEASES: list[str] = []


def _event(shop: Shop, unit: Unit, n: int) -> None:
    run = shop.trip.start(id_of(unit), n=n)
    run.event("go", n, id=id_of(unit))


WITH_AN_ID: dict[str, Callable[[Shop, Unit, int], Any]] = {
    "enqueue": lambda shop, unit, n: shop.mail.call(n=n).enqueue(id=id_of(unit)),
    "transaction": lambda _, __, n: move(n),
    "semaphore.wait": lambda shop, unit, n: semaphore("s").wait(shop.mail.call(n=n), id=id_of(unit)),
    "semaphore.acquire": _acquire_and_signal,
    "rate.wait": lambda shop, unit, n: rate("r").wait(shop.mail.call(n=n), id=id_of(unit)),
    "section": lambda shop, unit, n: critical_section("c").run(shop.collect.call(ns=[n]), collect="ns", id=id_of(unit)),
    "flow and event": _event,
    "object": lambda _, unit, __: objects("Box", "b").with_(id=id_of(unit)).open(n=1),
    "a read of an object": lambda _, __, ___: objects("Box", "b").count().wait(0),
}
"""Calls that a task of several units may make."""

COUNTS: dict[str, Callable[[Shop], Counter[int]]] = {
    "transaction": lambda _: Counter({n: documents.get(f"account-{n}")["moved"] for n in range(N)}),
    "object": lambda shop: Counter(dict.fromkeys(range(shop.opened()), 1)),
    "semaphore.acquire": lambda _: Counter(dict.fromkeys(range(N), 1)),
    "a read of an object": lambda _: Counter(dict.fromkeys(range(N), 1)),
}
"""What a call did for each unit, if it is not a mail."""


@pytest.mark.parametrize("per_task", [None, N])
@pytest.mark.parametrize("kind", WITHOUT_AN_ID)
def test_a_call_without_an_id_is_refused_and_has_no_effect(shop: Shop, kind: str, per_task: int | None) -> None:
    shop.run(lambda unit, n: WITHOUT_AN_ID[kind](shop, unit, n), per_task)
    assert len(shop.errors()) == N
    assert all("take `Unit` instead of `list[Unit]`" in error for error in shop.errors())
    assert shop.calls == {}


@pytest.mark.parametrize("kind", WITH_AN_ID)
def test_a_call_with_an_id_is_made_once_however_often_the_group_is_delivered(shop: Shop, kind: str) -> None:
    shop.run(lambda unit, n: WITH_AN_ID[kind](shop, unit, n))
    assert shop.errors() == []
    did = COUNTS[kind](shop) if kind in COUNTS else shop.calls
    assert did == Counter(dict.fromkeys(range(N), 1))


def test_each_unit_has_one_operation_in_all_deliveries(shop: Shop) -> None:
    shop.run(lambda _, __: None)
    assert [len(names) for names in shop.operations.values()] == [1] * N


def test_a_delivery_that_is_retried_is_not_abandoned(shop: Shop) -> None:
    def call(unit: Unit, _: int) -> None:
        if not shop.retried:
            shop.retried = True
            raise RuntimeError(f"unit {unit.index} is not ready")

    shop.run(call)
    assert shop.retried
    assert shop.project.abandoned == []


# --- arguments ---


def translate(project: Harness, calls: Sequence[Any]) -> dict[int, str]:
    """Run a batch of translations, whose calls arrive over HTTP; return each unit's result or error."""
    app = Function("search")

    @app.task
    def translate(units: list[Unit], text: list[str], to: list[str] = []) -> list[str]:  # noqa: B006  the default is tested
        return [f"{one}->{to[n] if to else 'en'}" for n, one in enumerate(text[: len(units)])]

    project.add(app)
    task = {"function": "search", "task": "translate"}
    body = {"id": "t", "task": task, "units": calls, "sealed": True, "per_task": len(calls)}
    assert project.post("batches", json=body).status == 201
    project.run(raise_errors=False)
    return {unit["index"]: unit.get("result", "failed") for unit in batch("t").results()}


def test_an_argument_that_one_call_leaves_out_stays_with_the_others(project: Harness) -> None:
    calls = [{"text": ["a"]}, {"text": ["b"], "to": ["fr"]}, {"text": ["c"], "to": ["de"]}]
    assert translate(project, calls) == {0: "a->en", 1: "b->fr", 2: "c->de"}


def test_an_argument_that_only_the_first_call_has_stays_with_it(project: Harness) -> None:
    calls = [{"text": ["a"], "to": ["fr"]}, {"text": ["b"]}, {"text": ["c"], "to": ["de"]}]
    assert translate(project, calls) == {0: "a->fr", 1: "b->en", 2: "c->de"}


def test_items_of_one_unit_are_not_taken_for_those_of_another(project: Harness) -> None:
    calls = [{"text": ["a", "b"]}, {"text": []}, {"text": ["c"]}]
    assert translate(project, calls) == {0: "failed", 1: "failed", 2: "c->en"}


def test_a_text_is_not_a_list(project: Harness) -> None:
    calls = [{"text": "ab"}, {"text": ""}, {"text": "c"}, {"text": ["d"]}]
    assert translate(project, calls) == {0: "failed", 1: "failed", 2: "failed", 3: "d->en"}


# --- results ---


@pytest.mark.parametrize("per_task", [None, 2])
def test_a_batch_is_no_result_of_several_units(project: Harness, per_task: int | None) -> None:
    app = Function("painter")

    @app.task
    def paint(n: int) -> int:
        return n

    def parts(units: list[Unit]) -> Any:
        return [sub_batch([paint.call(n=unit.index)]) for unit in units]

    task = app.task(parts)
    project.add(app)
    batch("b").populate((task.call() for _ in range(2)), per_task=per_task)
    project.run(raise_errors=False)
    errors = [unit["error"] for unit in batch("b").results("failed")]
    assert len(errors) == 2
    assert all("Take `Unit` instead of `list[Unit]`" in error for error in errors)
