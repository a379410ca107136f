"""A user's function as the framework calls it: addresses for people, tasks from queues, semaphores and batches."""

from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox import (
    Call,
    Function,
    Lease,
    LeaseEnded,
    Problem,
    Request,
    Response,
    SubBatch,
    Unavailable,
    Unit,
    batch,
    documents,
    semaphore,
    sub_batch,
)
from signalbox.batches.limits import LIMITS as BATCHES_LIMITS
from signalbox.batches.problems import BadBatch
from signalbox.core.effects import Effect
from signalbox.core.ports import Query
from signalbox.core.problems import BadKey
from signalbox.tasks.requests.signatures import WrongArguments
from signalbox.testing import Faults, Harness
from signalbox.testing.fixtures import harness as harness


class TooSour(Problem):
    title = "Too sour"


@pytest.fixture
def kitchen(harness: Harness) -> Function:
    app = Function("kitchen")

    @app.http("GET", "/{dish}")
    def show(request: Request, dish: str) -> dict[str, Any]:
        return {"dish": dish, "query": request.query.get("q")}

    @app.http("PUT", "/{dish}")
    def order(request: Request, dish: str) -> Response:
        return Response(201, {"dish": dish, **request.json_object()})

    @app.http("DELETE", "/{dish}")
    def remove(request: Request, dish: str) -> None: ...

    @app.task
    def cook(dish: str, salt: float = 0) -> str:
        if dish == "lemon":
            raise TooSour("It is sour.")
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

    harness.add(app)
    app.cook, app.stir, app.taste, app.course = cook, stir, taste, course  # type: ignore[attr-defined]  # the tasks of this application, for the tests
    return app


@pytest.mark.usefixtures("kitchen")
def test_what_a_handler_returns_is_the_response(harness: Harness) -> None:
    soup = harness.get("kitchen/soup?q=1")
    assert (soup.status, soup.json) == (200, {"dish": "soup", "query": "1"})
    soup = harness.put("kitchen/soup", json={"hot": True})
    assert (soup.status, soup.json) == (201, {"dish": "soup", "hot": True})
    assert harness.delete("kitchen/soup").status == 204
    assert harness.patch("kitchen/soup").status == 405
    assert harness.get("kitchen/tasks/cook").status == 405


@pytest.mark.usefixtures("harness")
def test_a_merge_into_a_document_removes_a_none_only_on_request() -> None:
    assert documents.patch("soup", {"salt": {"sea": 1}}) == {"key": "soup", "salt": {"sea": 1}}
    assert documents.patch("soup", {"salt": {"rock": 2}, "hot": None})["hot"] is None
    documents.patch("soup", {"salt": {"sea": None}, "hot": None}, none_removes=True)
    assert documents.get("soup") == {"key": "soup", "salt": {"rock": 2}}


@pytest.mark.usefixtures("harness")
def test_documents_put_together_have_results_of_their_own_and_embed_each_other() -> None:
    bodies: list[dict[str, Any]] = [{"key": "soup", "with": {"key": "salt"}}, {"n": 1}, {"key": "salt", "n": 1}]
    soup, keyless, salt = documents.put_many(bodies)
    assert (soup, salt) == ({"key": "soup", "with": {"key": "salt", "n": 1}}, {"key": "salt", "n": 1})
    assert isinstance(keyless, BadKey)
    assert documents.get("soup") == soup


def test_a_task_makes_calls_and_can_be_called_directly(kitchen: Any) -> None:
    assert kitchen.cook.call(dish="soup", salt=1.5) == Call("kitchen", "cook", {"dish": "soup", "salt": 1.5})
    with pytest.raises(WrongArguments) as error:
        kitchen.cook.call(dish=7)
    assert (error.value.argument, str(error.value)) == ("dish", "cook: dish must be str, not int.")
    assert kitchen.cook(dish="soup") == "soup done"


def effect(call: Call[Any], **context: Any) -> Effect:
    return call.effect("operation", datetime(2026, 1, 1, tzinfo=UTC), **context)


def stored(harness: Harness) -> dict[str, Any]:
    return {each.id: documents.get(each.id) for each in harness.store.query(Query("documents"))}


def test_a_task_runs_when_a_queue_delivers_it(harness: Harness, kitchen: Any) -> None:
    assert harness.deliver_task(effect(kitchen.cook.call(dish="soup", salt=2))).status == 204
    assert stored(harness) == {"soup": {"key": "soup", "salt": 2}}


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
def test_only_transient_errors_of_a_task_are_retried(harness: Harness, call: Call[Any], status: int) -> None:
    assert harness.deliver_task(effect(call)).status == status
    assert stored(harness) == {}


@pytest.mark.usefixtures("kitchen")
def test_a_task_that_failed_in_every_attempt_is_not_run_again(harness: Harness) -> None:
    call: Call[str] = Call("kitchen", "cook", {"dish": "fire"})
    statuses = [harness.deliver_task(effect(call), executions=count).status for count in range(11)]
    assert statuses == [500] * 10 + [204]


def test_a_store_that_is_away_for_minutes_costs_a_task_none_of_its_attempts(
    harness: Harness, kitchen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    semaphore("stove").ensure(permits=1)
    semaphore("stove").wait(kitchen.stir.call(dish="soup"), release_on_return=True)
    batch("menu").populate(kitchen.taste.call(dish="rice") for _ in range(10))
    harness.deliver_task(harness.take("expand"))
    with monkeypatch.context() as patch:
        for call in ("read", "commit"):
            patch.setattr(harness.store, call, _away)
        assert {_retried(harness, task) for task in harness.tasks * 50} == {503}
    harness.run()
    assert (batch("menu").status()["succeeded"], batch("menu").status()["failed"]) == (10, 0)
    assert stored(harness).keys() == {"stirred-soup"}


def _away(*_: Any, **__: Any) -> Any:
    raise Unavailable("the store is away")


def _retried(harness: Harness, task: Effect) -> int:
    """Deliver a task; return its status, after which the queue will retry it."""
    status = harness.deliver_task(task).status
    harness.queue.retry(task, executed=True)
    return status


def test_a_continuation_runs_with_its_lease_which_is_released_when_it_returns(harness: Harness, kitchen: Any) -> None:
    semaphore("stove").ensure(permits=1)
    assert semaphore("stove").wait(kitchen.stir.call(dish="soup"), release_on_return=True)
    assert not semaphore("stove").wait(kitchen.stir.call(dish="rice"), release_on_return=True)
    assert semaphore("stove").acquire() is None
    harness.run()
    assert stored(harness).keys() == {"stirred-soup", "stirred-rice"}
    assert semaphore("stove").acquire() is not None


def test_a_continuation_that_fails_in_every_attempt_releases_its_lease(harness: Harness, kitchen: Any) -> None:
    semaphore("stove").ensure(permits=1)
    semaphore("stove").wait(kitchen.stir.call(dish="fire"))
    task = harness.take("stir")
    assert [harness.deliver_task(task, executions=count).status for count in (0, 1, 2)] == [500, 500, 204]
    assert semaphore("stove").acquire() is not None


def test_a_lease_is_renewed_and_signalled_once(harness: Harness) -> None:
    semaphore("stove").ensure(permits=1, lease_seconds=10)
    lease = semaphore("stove").acquire()
    assert lease is not None
    harness.advance(8)
    assert semaphore("stove").renew(lease)
    harness.advance(8)
    assert semaphore("stove").signal(lease)
    assert not semaphore("stove").signal(lease)
    assert not semaphore("stove").renew(lease.id)


def test_a_task_that_acquired_and_signalled_acquires_again_when_it_is_delivered_again(harness: Harness) -> None:
    app = Function("door")
    held: list[Lease | None] = []

    @app.task
    def enter() -> None:
        lease = semaphore("door").acquire()
        held.append(lease)
        if lease:
            semaphore("door").signal(lease)

    harness.add(app)
    semaphore("door").ensure(permits=1)
    delivered = effect(Call("door", "enter", {}))
    assert harness.deliver_task(delivered).status == 204
    other = semaphore("door").acquire()
    assert harness.deliver_task(delivered).status == 204
    assert other
    semaphore("door").signal(other)
    assert harness.deliver_task(delivered).status == 204
    first, beside, anew = held
    assert first
    assert anew
    assert (beside, anew.token > other.token > first.token) == (None, True)


def test_an_acquire_under_an_id_whose_lease_has_ended_is_refused(harness: Harness) -> None:
    semaphore("stove").ensure(permits=1, lease_seconds=10)
    assert semaphore("stove").acquire(id="once") == semaphore("stove").acquire(id="once")
    harness.advance(11)
    with pytest.raises(LeaseEnded):
        semaphore("stove").acquire(id="once")


def test_a_batch_of_calls_completes_and_counts_them(harness: Harness, kitchen: Any) -> None:
    calls = [kitchen.taste.call(dish=f"dish {number}") for number in range(5)]
    batch("menu").populate(calls)
    harness.run(Faults(duplicate=1))
    assert {name: batch("menu").status()[name] for name in ("state", "size", "succeeded", "failed")} == {
        "state": "completed",
        "size": 5,
        "succeeded": 5,
        "failed": 0,
    }
    assert batch("menu").populate(calls)["state"] == "completed"


def test_a_batch_counts_units_that_raise_a_problem_as_failed(harness: Harness, kitchen: Any) -> None:
    batch("menu").populate([kitchen.cook.call(dish=dish) for dish in ("soup", "lemon")])
    harness.run()
    assert (batch("menu").status()["state"], batch("menu").status()["failed"]) == ("completed", 1)


@pytest.mark.parametrize("twice", [0, 1])
def test_a_unit_with_a_sub_batch_is_done_when_that_completes(harness: Harness, kitchen: Any, twice: float) -> None:
    batch("dinner").populate(kitchen.course.call(dishes=dishes) for dishes in (0, 1, 3))
    harness.run(Faults(duplicate=twice))
    assert [batch("dinner").status()[name] for name in ("state", "size", "succeeded", "failed")] == [
        "completed",
        3,
        3,
        0,
    ]
    inner = [each for each in harness.store.query(Query("batches", limit=100)) if each.id != "dinner"]
    assert sorted(batch(each.id).status()["size"] for each in inner) == [0, 1, 3]


def test_the_units_of_a_batch_are_calls_of_one_task(kitchen: Any) -> None:
    with pytest.raises(BadBatch):
        batch("menu").populate([kitchen.cook.call(dish="soup"), kitchen.taste.call(dish="soup")])


def test_a_batch_larger_than_one_call_is_loaded_in_pages(
    harness: Harness, kitchen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BATCHES_LIMITS, "call_units_max", 3)
    batch("menu").populate(kitchen.taste.call(dish="soup") for _ in range(250))
    harness.run()
    assert (batch("menu").status()["state"], batch("menu").status()["size"]) == ("completed", 250)


def test_wrong_arguments_in_a_handlers_own_call_are_a_500_with_a_traceback_in_the_log(harness: Harness) -> None:
    app = Function("waiter")

    @app.task
    def serve(table: int) -> None: ...

    @app.http("POST")
    def order(_: Request) -> None:
        semaphore("table").wait(serve.call(table="seven"))  # type: ignore[arg-type]  # refused also when it runs

    harness.add(app)
    answer = harness.post("waiter")
    assert (answer.status, answer.json["type"]) == (500, "urn:signalbox:problem:internal")
    [(_, values)] = harness.log.errors
    assert isinstance(values["exception"], WrongArguments)


def test_wrong_arguments_in_a_tasks_own_call_are_retried_and_those_of_a_request_are_not(harness: Harness) -> None:
    app = Function("waiter")

    @app.task
    def serve(table: int) -> None:
        serve.call(tabel=table)  # type: ignore[call-arg]  # refused also when it runs

    harness.add(app)
    assert harness.deliver_task(effect(Call("waiter", "serve", {"table": 7}))).status == 500
    assert harness.deliver_task(effect(Call("waiter", "serve", {"tabel": 7}))).status == 204


def test_a_call_names_a_task_that_exists_under_the_name_it_is_delivered_to(harness: Harness, kitchen: Any) -> None:
    for task in (kitchen.cook, kitchen.taste):
        batch(task.name).populate([task.call(dish="soup")])
    harness.run()
    assert [batch(name).status()["failed"] for name in ("cook", "taste")] == [0, 0]
    assert harness.abandoned == []


def test_a_second_task_of_one_name_is_refused() -> None:
    app = Function("kitchen")
    app.task(_cook)
    with pytest.raises(ValueError, match="two tasks"):
        app.task(_cook)


@pytest.mark.parametrize("pattern", ["/tasks", "/tasks/{name}", "/objects", "/turns/{name}", "tasks/x", "dict", ""])
def test_a_pattern_of_the_kits_own_or_without_a_leading_slash_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"the kit.s own|write \"/"):
        Function("kitchen").http("POST", pattern)


def test_query_parameters_are_unrestricted_unless_the_route_names_them(harness: Harness) -> None:
    app = Function("kitchen")
    app.http("GET", "/any")(lambda request: dict(request.query))
    app.http("GET", "/named", query=("dish",))(lambda request: dict(request.query))
    harness.add(app)
    assert harness.get("kitchen/any?wine=red").json == {"wine": "red"}
    assert harness.get("kitchen/named?dish=soup").json == {"dish": "soup"}
    assert harness.get("kitchen/any?dish=").json == harness.get("kitchen/named?dish").json == {"dish": ""}
    refused = harness.get("kitchen/named?wine=red")
    assert (refused.status, refused.json["field"]) == (400, "wine")


def _cook() -> None: ...
