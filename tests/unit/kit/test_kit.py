"""A user's function as the framework calls it: addresses for people, tasks from queues, semaphores and batches."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.adapters import runtime
from shared.core.operations.ports import Query
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadArgument, BadBatch, BadKey
from shared.kit import (
    Call,
    Function,
    Lease,
    Problem,
    Request,
    Response,
    SubBatch,
    Unit,
    batch,
    documents,
    semaphore,
    sub_batch,
)
from tests.unit.kit.kit_town import Town


@pytest.fixture
def town() -> Iterator[Town]:
    created = Town()
    Function("any").bind(created.store, created, created)
    yield created
    runtime.bind(None)


class Sour(Problem):
    title = "Cook something sweeter"


@pytest.fixture
def kitchen(town: Town) -> Function:
    app = Function("kitchen")

    @app.http("GET", "/{dish}")
    def look(request: Request, dish: str) -> dict[str, Any]:
        return {"dish": dish, "query": request.query.get("q")}

    @app.http("PUT", "/{dish}")
    def order(request: Request, dish: str) -> Response:
        return Response(201, {"dish": dish, **request.json_object()})

    @app.http("DELETE", "/{dish}")
    def forget(request: Request, dish: str) -> None: ...

    @app.task
    def cook(dish: str, salt: float = 0) -> str:
        if dish == "lemon":
            raise Sour("It is sour.")
        if dish == "fire":
            raise RuntimeError
        documents.put(dish, {"salt": salt})
        return f"{dish} done"

    @app.task(attempts_max=2)
    def stir(lease: Lease, dish: str) -> None:
        documents.put(f"stirred-{dish}", {"token": lease.token})
        if dish == "fire":
            raise RuntimeError

    @app.task
    def taste(unit: Unit, dish: str) -> dict[str, Any]:
        return {"dish": dish, "index": unit.index}

    @app.task
    def course(unit: Unit, dishes: int) -> SubBatch:
        return sub_batch(taste.call(dish=f"dish {unit.index}-{number}") for number in range(dishes))

    town.functions["kitchen"] = app.entry_point()
    app.cook, app.stir, app.taste, app.course = cook, stir, taste, course  # type: ignore[attr-defined]
    return app


@pytest.mark.usefixtures("kitchen")
def test_people_are_answered_with_what_a_handler_returns(town: Town) -> None:
    entry = town.functions["kitchen"]
    assert town.ask(entry, "/soup?q=1", "GET") == (200, {"dish": "soup", "query": "1"})
    assert town.ask(entry, "/soup", "PUT", {"hot": True}) == (201, {"dish": "soup", "hot": True})
    assert town.ask(entry, "/soup", "DELETE")[0] == 204
    assert town.ask(entry, "/soup", "PATCH")[0] == 405
    assert town.ask(entry, "/tasks/cook", "GET")[0] == 405


@pytest.mark.usefixtures("town")
def test_a_document_is_merged_into_and_none_removes_only_if_told_to() -> None:
    assert documents.patch("soup", {"salt": {"sea": 1}}) == {"key": "soup", "salt": {"sea": 1}}
    assert documents.patch("soup", {"salt": {"rock": 2}, "hot": None})["hot"] is None
    documents.patch("soup", {"salt": {"sea": None}, "hot": None}, none_removes=True)
    assert documents.get("soup") == {"key": "soup", "salt": {"rock": 2}}


@pytest.mark.usefixtures("town")
def test_many_documents_end_each_for_itself_and_embed_each_other() -> None:
    bodies: list[dict[str, Any]] = [{"key": "soup", "with": {"key": "salt"}}, {"n": 1}, {"key": "salt", "n": 1}]
    soup, keyless, salt = documents.put_many(bodies)
    assert (soup, salt) == ({"key": "soup", "with": {"key": "salt", "n": 1}}, {"key": "salt", "n": 1})
    assert isinstance(keyless, BadKey)
    assert documents.get("soup") == soup


def test_a_task_says_how_it_is_called_and_can_be_run_in_a_test(kitchen: Any) -> None:
    assert kitchen.cook.call(dish="soup", salt=1.5) == Call("kitchen", "cook", {"dish": "soup", "salt": 1.5})
    with pytest.raises(BadArgument) as refused:
        kitchen.cook.call(dish=7)
    assert (refused.value.field, refused.value.detail) == ("dish", "cook: dish must be str, not int.")
    assert kitchen.cook(dish="soup") == "soup done"


def effect(call: Call, **beside: Any) -> Effect:
    return call.effect("operation", datetime(2026, 1, 1, tzinfo=UTC), **beside)


def test_a_task_runs_when_a_queue_delivers_it(town: Town, kitchen: Any) -> None:
    assert town.deliver(effect(kitchen.cook.call(dish="soup", salt=2))) == 204
    assert town.documents() == {"soup": {"key": "soup", "salt": 2}}


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (Call("kitchen", "cook", {"dish": "lemon"}), 204),
        (Call("kitchen", "cook", {"dish": 7}), 204),
        (Call("kitchen", "cook", {}), 204),
        (Call("kitchen", "bake", {}), 204),
        (Call("kitchen", "stir", {"dish": "soup"}), 204),
        (Call("kitchen", "cook", {"dish": "fire"}), 500),
    ],
)
@pytest.mark.usefixtures("kitchen")
def test_a_queue_is_told_to_ask_again_only_where_that_may_help(town: Town, call: Call, status: int) -> None:
    assert town.deliver(effect(call)) == status
    assert town.documents() == {}


@pytest.mark.usefixtures("kitchen")
def test_a_task_that_died_every_time_is_not_run_any_more(town: Town) -> None:
    call = Call("kitchen", "cook", {"dish": "fire"})
    assert [town.deliver(effect(call), execution=count) for count in (0, 9, 10)] == [500, 500, 204]


def test_a_continuation_runs_under_its_lease_and_the_permit_is_back_when_it_returns(town: Town, kitchen: Any) -> None:
    semaphore("stove").ensure(permits=1)
    assert semaphore("stove").wait(kitchen.stir.call(dish="soup"), release_on_return=True)
    assert not semaphore("stove").wait(kitchen.stir.call(dish="rice"), release_on_return=True)
    assert semaphore("stove").acquire() is None
    town.run()
    assert town.documents().keys() == {"stirred-soup", "stirred-rice"}
    assert semaphore("stove").acquire() is not None


def test_a_continuation_that_dies_every_time_gives_its_permit_back(town: Town, kitchen: Any) -> None:
    semaphore("stove").ensure(permits=1)
    semaphore("stove").wait(kitchen.stir.call(dish="fire"))
    [effect] = [each for each in town.waiting.values() if each.task == "stir"]
    assert [town.deliver(effect, execution=count) for count in (0, 1, 2)] == [500, 500, 204]
    assert semaphore("stove").acquire() is not None


def test_a_lease_is_renewed_and_signalled_once(town: Town) -> None:
    semaphore("stove").ensure(permits=1, lease_seconds=10)
    lease = semaphore("stove").acquire()
    assert lease is not None
    town.sleep(8)
    assert semaphore("stove").renew(lease)
    town.sleep(8)
    assert semaphore("stove").signal(lease)
    assert not semaphore("stove").signal(lease)
    assert not semaphore("stove").renew(lease.id)


def test_a_batch_of_calls_is_done_and_counted(town: Town, kitchen: Any) -> None:
    calls = [kitchen.taste.call(dish=f"dish {number}") for number in range(5)]
    batch("menu").populate(calls)
    town.run(twice=1)
    assert {name: batch("menu").status()[name] for name in ("state", "size", "succeeded", "failed")} == {
        "state": "completed",
        "size": 5,
        "succeeded": 5,
        "failed": 0,
    }
    assert batch("menu").populate(calls)["state"] == "completed"


def test_a_batch_counts_what_its_task_refuses_as_failed(town: Town, kitchen: Any) -> None:
    batch("menu").populate([kitchen.cook.call(dish=dish) for dish in ("soup", "lemon")])
    town.run()
    assert (batch("menu").status()["state"], batch("menu").status()["failed"]) == ("completed", 1)


@pytest.mark.parametrize("twice", [0, 1])
def test_a_unit_that_has_units_of_its_own_is_done_when_they_are(town: Town, kitchen: Any, twice: float) -> None:
    batch("dinner").populate(kitchen.course.call(dishes=dishes) for dishes in (0, 1, 3))
    town.run(twice)
    assert [batch("dinner").status()[name] for name in ("state", "size", "succeeded", "failed")] == [
        "completed",
        3,
        3,
        0,
    ]
    inner = [each for each in town.store.query(Query("batches", limit=100)) if each.id != "dinner"]
    assert sorted(batch(each.id).status()["size"] for each in inner) == [0, 1, 3]


def test_a_batch_is_of_one_task(kitchen: Any) -> None:
    with pytest.raises(BadBatch):
        batch("menu").populate([kitchen.cook.call(dish="soup"), kitchen.taste.call(dish="soup")])


def test_a_batch_larger_than_one_call_takes_is_loaded_page_by_page(
    town: Town, kitchen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "call_units_max", 3)
    batch("menu").populate(kitchen.taste.call(dish="soup") for _ in range(250))
    town.run()
    assert (batch("menu").status()["state"], batch("menu").status()["size"]) == ("completed", 250)


def test_two_tasks_of_one_name_and_a_handler_among_the_tasks_are_refused() -> None:
    app = Function("kitchen")
    app.task(_cook)
    with pytest.raises(ValueError, match="two tasks"):
        app.task(_cook)
    with pytest.raises(ValueError, match="where the tasks are"):
        app.http("POST", "/tasks/{name}")


@pytest.mark.parametrize("pattern", ["dict", "tasks/x", ""])
def test_a_pattern_without_a_leading_slash_is_refused_at_import(pattern: str) -> None:
    with pytest.raises(ValueError, match=f'write "/{pattern}"'):
        Function("kitchen").http("POST", pattern)


def test_query_parameters_are_the_functions_own_business_unless_it_names_them(town: Town) -> None:
    app = Function("kitchen")
    app.http("GET", "/any")(lambda request: dict(request.query))
    app.http("GET", "/named", query=("dish",))(lambda request: dict(request.query))
    entry = app.entry_point()
    assert town.ask(entry, "/any?wine=red", "GET") == (200, {"wine": "red"})
    assert town.ask(entry, "/named?dish=soup", "GET") == (200, {"dish": "soup"})
    status, problem = town.ask(entry, "/named?wine=red", "GET")
    assert (status, problem["field"]) == (400, "wine")


def _cook() -> None: ...
