"""Batches as callers meet them: what is answered, what is refused, and that a refusal changes nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from shared.adapters import runtime
from shared.batches.operations import batches
from shared.batches.rules import units
from shared.batches.rules.batches import Unit
from shared.batches.rules.requests import Order
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from tests.unit.batches.batch_town import ANNOUNCE, TASK, Town


@pytest.fixture
def town() -> Iterator[Town]:
    yield Town()
    runtime.bind(None)


def squares(count: int) -> list[dict[str, int]]:
    return [{"square": number} for number in range(count)]


def batch(count: int, **more: Any) -> dict[str, Any]:
    return {"id": "b", "units": squares(count), "task": TASK, "on_complete": ANNOUNCE, "sealed": True} | more


def status(state: str, size: int, done: int, failed: int, pages: int, **more: Any) -> dict[str, Any]:
    return {"id": "b", "state": state, "size": size, "done": done, "failed": failed, "pages": pages} | more


def test_a_batch_runs_every_unit_once_and_is_announced_once(town: Town) -> None:
    assert town.ask("POST", "/", batch(250)) == (201, status("sealed", 250, 0, 0, 3))
    town.work()
    assert sorted(effect.payload["square"] for effect in town.ran) == list(range(250))
    assert town.ran[0].payload == {"color": "red", "square": 0}
    assert (town.ran[0].path, town.ran[0].queue) == ("/tasks/paint", "tasks")
    assert town.announced == [{"id": "b", "state": "completed", "size": 250, "done": 250, "failed": 0}]
    assert town.ask("GET", "/b") == (200, status("completed", 250, 250, 0, 3))


def test_an_empty_batch_completes_at_once(town: Town) -> None:
    assert town.ask("POST", "/", batch(0)) == (201, status("completed", 0, 0, 0, 0))
    town.work()
    assert [said["state"] for said in town.announced] == ["completed"]


def test_the_same_batch_again_is_no_news_and_another_under_its_id_is_refused(town: Town) -> None:
    town.ask("POST", "/", batch(3))
    before = town.records()
    assert town.ask("POST", "/", batch(3))[0] == 200
    code, problem = town.ask("POST", "/", batch(4))
    assert (code, problem["type"]) == (409, "urn:signalbox:problem:other-body")
    assert town.records() == before


def test_a_cancelled_batch_ordered_again_is_shown_as_it_is(town: Town) -> None:
    town.ask("POST", "/", batch(3))
    town.ask("DELETE", "/b")
    code, shown = town.ask("POST", "/", batch(3))
    assert (code, shown["state"]) == (200, "cancelled")


def test_a_call_that_died_half_way_is_finished_by_its_repeat(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as dying:
        dying.setattr("shared.batches.operations.batches.seal", lambda *_: 1 / 0)
        assert town.ask("POST", "/", batch(150))[0] == 500
    assert town.ask("POST", "/", batch(150))[0] == 200
    town.work()
    assert [said["done"] for said in town.announced] == [150]
    assert len(town.ran) == 150


def test_a_batch_has_at_most_as_many_pages_as_its_tree_holds(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "node_children_max", 1)
    town.ask("POST", "/", batch(100, sealed=False))
    code, problem = town.ask("POST", "/b/units", {"page": 1, "units": [{}]})
    assert (code, problem["detail"]) == (413, "A batch has at most 1 pages of 100.")


def test_an_idempotency_key_is_the_id_of_a_batch_that_names_none(town: Town) -> None:
    body = {"units": squares(1), "task": TASK}
    first = town.ask("POST", "/", body, headers={"Idempotency-Key": "order-7"})
    again = town.ask("POST", "/", body, headers={"Idempotency-Key": "order-7"})
    assert (first[0], again[0], first[1]["id"]) == (201, 200, "order-7")


def test_pages_are_loaded_in_order_and_the_seal_is_the_next_number(town: Town) -> None:
    assert town.ask("POST", "/", {"id": "b", "task": TASK, "on_complete": ANNOUNCE})[0] == 201
    page = {"page": 0, "units": squares(2)}
    assert town.ask("POST", "/b/units", page) == (201, {"id": "b", "page": 0, "units": 2})
    assert town.ask("POST", "/b/units", page)[0] == 200
    town.work()
    assert town.ask("POST", "/b/units", {"page": 1, "units": squares(3)})[0] == 201
    assert town.ask("GET", "/b") == (200, status("open", 5, 2, 0, 2))
    assert town.ask("POST", "/b/seal", {"pages": 2})[0] == 200
    assert town.ask("POST", "/b/seal", {"pages": 2})[0] == 200
    assert town.ask("POST", "/b/units", page)[0] == 200
    town.work()
    assert [said["size"] for said in town.announced] == [5]
    assert sorted(unit["index"] for unit in town.ask("GET", "/b/units")[1]["units"]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("path", "body", "code", "kind", "field"),
    [
        ("/b/units", {"page": 2, "units": [{}]}, 409, "page-out-of-order", "page"),
        ("/b/units", {"page": 0, "units": [{"other": 1}]}, 409, "other-body", "page"),
        ("/b/units", {"page": 1, "units": []}, 400, "bad-batch", "units"),
        ("/b/units", {"page": 1, "units": [{}] * 101}, 413, "too-large", "units"),
        ("/b/units", {"page": 1, "units": [{}, 7]}, 400, "bad-batch", "units[1]"),
        ("/b/units", {"page": 1, "units": [{"x": "x" * 102_400}]}, 413, "too-large", "units[0]"),
        ("/b/units", {"page": 1, "units": [{"x": "x" * 95_000}] * 10}, 413, "too-large", "units"),
        ("/b/units", {"page": -1, "units": [{}]}, 400, "bad-batch", "page"),
        ("/b/units", {"page": True, "units": [{}]}, 400, "bad-batch", "page"),
        ("/b/units", {"units": [{}]}, 400, "bad-batch", "page"),
        ("/b/units", {"page": 1, "units": [{}], "x": 1}, 400, "bad-batch", "x"),
        ("/b/units", {"page": 10**8, "units": [{}]}, 409, "page-out-of-order", "page"),
        ("/b/seal", {"pages": 0}, 409, "page-out-of-order", "pages"),
        ("/b/seal", {"pages": 3}, 409, "page-out-of-order", "page"),
        ("/b/seal", {}, 400, "bad-batch", "pages"),
        ("/b/retry", {"units": ["x"]}, 400, "bad-batch", "units"),
        ("/b/retry", {"units": [0] * 1_001}, 413, "too-large", "units"),
        ("/c/units", {"page": 0, "units": [{}]}, 404, "not-found", "id"),
        ("/c/seal", {"pages": 0}, 404, "not-found", "id"),
        ("/c/retry", {}, 404, "not-found", "id"),
        ("/", {"id": "b/c"}, 400, "bad-key", "id"),
        ("/", {"id": 7}, 400, "bad-key", "id"),
        ("/", {"id": "n", "units": [{}] * 10_001}, 413, "too-large", "units"),
        ("/", {"id": "n", "units": {}}, 400, "bad-batch", "units"),
        ("/", {"id": "n", "task": {"function": "x"}}, 400, "bad-call", "task.task"),
        ("/", {"id": "n", "sealed": 1}, 400, "bad-batch", "sealed"),
        ("/", {"id": "n", "deadline_seconds": 0}, 400, "bad-batch", "deadline_seconds"),
        ("/", {"id": "n", "failures_max": -1}, 400, "bad-batch", "failures_max"),
        ("/", {"id": "n", "colour": 1}, 400, "bad-batch", "colour"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field_and_changes_nothing(
    town: Town, path: str, body: Any, code: int, kind: str, field: str
) -> None:
    town.ask("POST", "/", batch(2, sealed=False))
    before, names = town.records(), set(town.names)
    answered, problem = town.ask("POST", path, body)
    assert (answered, problem["type"], problem.get("field")) == (code, f"urn:signalbox:problem:{kind}", field)
    assert (town.records(), town.names) == (before, names)


def test_a_call_over_8_mib_is_refused(town: Town) -> None:
    code, problem = town.ask("POST", "/", {"units": [{"x": "x" * 90_000}] * 95, "id": "b"})
    assert (code, problem["type"]) == (413, "urn:signalbox:problem:too-large")
    assert town.records() == {}


def test_large_units_are_cut_into_pages_that_fit(town: Town) -> None:
    units_of_90_kb = [{"x": "x" * 90_000}] * 25
    assert town.ask("POST", "/", {"id": "b", "units": units_of_90_kb, "task": TASK})[1]["pages"] == 3


@pytest.mark.parametrize("path", ["/b/units", "/b/seal"])
def test_nothing_is_added_to_a_sealed_batch(town: Town, path: str) -> None:
    town.ask("POST", "/", batch(2))
    before = town.records()
    code, problem = town.ask("POST", path, {"/b/units": {"page": 1, "units": [{}]}, "/b/seal": {"pages": 2}}[path])
    assert (code, problem["type"]) == (409, "urn:signalbox:problem:batch-sealed")
    assert town.records() == before


@pytest.mark.parametrize(("method", "path"), [("GET", "/c"), ("GET", "/c/units"), ("DELETE", "/c")])
def test_a_batch_that_is_not_there_is_not_found(town: Town, method: str, path: str) -> None:
    assert town.ask(method, path)[0] == 404


@pytest.mark.parametrize("query", ["state=lost", "page_token=x", "page_token=-1"])
def test_units_are_asked_for_by_a_state_and_a_token_of_ours(town: Town, query: str) -> None:
    town.ask("POST", "/", batch(2))
    assert town.ask("GET", f"/b/units?{query}")[1]["type"] == "urn:signalbox:problem:bad-query"


def test_units_are_listed_page_by_page_in_the_order_of_their_index(town: Town) -> None:
    town.ask("POST", "/", batch(150))
    town.work()
    first = town.ask("GET", "/b/units?state=done")[1]
    second = town.ask("GET", f"/b/units?state=done&page_token={first['next_page_token']}")[1]
    assert [unit["index"] for unit in first["units"] + second["units"]] == list(range(150))
    assert second["units"][0] == {"index": 100, "state": "done", "attempt": 0, "result": "painted"}
    assert "next_page_token" not in second


def broken_at(*squares_: int) -> Any:
    return lambda effect: units.failed("dry brush") if effect.payload["square"] in squares_ else units.succeeded(None)


def test_a_failed_unit_is_listed_counts_as_done_and_can_be_tried_again(town: Town) -> None:
    town.ask("POST", "/", batch(130))
    town.work(broken_at(7, 120))
    assert town.announced[0] | {"id": "b"} == {"id": "b", "state": "completed", "size": 130, "done": 130, "failed": 2}
    failed = town.ask("GET", "/b/units?state=failed")[1]["units"]
    assert failed[0] == {"index": 7, "state": "failed", "attempt": 0, "error": "dry brush"}
    town.ran.clear()
    assert town.ask("POST", "/b/retry", {"units": [7, 8]})[0] == 202
    assert town.ask("POST", "/b/retry", {})[0] == 202
    town.work()
    assert [effect.payload["square"] for effect in town.ran] == [7, 120]
    assert town.ask("GET", "/b/units?state=failed")[1] == {"units": []}
    assert len(town.announced) == 1


def test_more_failures_than_tolerated_cancel_a_batch(town: Town) -> None:
    town.ask("POST", "/", batch(300, failures_max=2))
    town.work(broken_at(0, 5, 10))
    [said] = town.announced
    assert (said["state"], said["reason"], said["failed"]) == ("cancelled", "failures", 3)
    assert said["done"] < 300


def test_a_cancelled_batch_is_announced_as_cancelled_and_wants_no_units(town: Town) -> None:
    town.ask("POST", "/", batch(3))
    assert town.ask("DELETE", "/b") == (200, status("cancelled", 3, 0, 0, 1, reason="cancelled"))
    assert town.ask("DELETE", "/b")[0] == 200
    wanted: list[bool] = []

    def look(effect: Effect) -> units.Outcome:
        wanted.append(batches.unit_is_wanted(town.ports, Unit.of(effect.context["unit"])))
        return units.succeeded(None)

    town.work(look)
    assert wanted == [False] * 3
    assert [said["state"] for said in town.announced] == ["cancelled"]
    assert town.ask("POST", "/b/retry", {})[1]["type"] == "urn:signalbox:problem:batch-sealed"


def test_units_without_a_task_are_completed_from_outside_and_the_first_outcome_stays(town: Town) -> None:
    town.ask("POST", "/", {"id": "b", "units": ["a", "b"], "on_complete": ANNOUNCE, "sealed": True})
    assert town.waiting[0].task == "check"
    assert town.ask("POST", "/b/0", {"result": 1}, "batch_complete") == (200, {"id": "b", "index": 0})
    assert town.ask("POST", "/b/0", {"error": "late"}, "batch_complete")[0] == 200
    town.ask("POST", "/b/1", {"error": "torn"}, "batch_complete")
    town.work()
    assert [(said["done"], said["failed"]) for said in town.announced] == [(2, 1)]
    assert [unit.get("result") for unit in town.ask("GET", "/b/units")[1]["units"]] == [1, None]
    assert town.ask("POST", "/b/retry", {})[1]["type"] == "urn:signalbox:problem:nothing-to-run"


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/b/2", {"result": 1}, 404),
        ("/b/x", {"result": 1}, 404),
        ("/c/0", {"result": 1}, 404),
        ("/b/0", {}, 400),
        ("/b/0", {"result": 1, "error": "x"}, 400),
        ("/b/0", {"error": 7}, 400),
        ("/b/0", {"result": "x" * 102_400}, 413),
    ],
)
def test_an_outcome_that_cannot_be_recorded_is_refused(town: Town, path: str, body: Any, code: int) -> None:
    town.ask("POST", "/", {"id": "b", "units": [1, 2], "sealed": True})
    before = town.records()
    assert town.ask("POST", path, body, "batch_complete")[0] == code
    assert town.records() == before


def test_a_result_too_large_to_keep_makes_the_unit_a_failed_one(town: Town) -> None:
    town.ask("POST", "/", batch(1))
    town.work(lambda _: units.succeeded("x" * 102_400))
    assert town.announced[0]["failed"] == 1
    assert "at most 102,400" in town.ask("GET", "/b/units")[1]["units"][0]["error"]


def test_a_unit_that_comes_again_keeps_its_outcome_and_counts_once(town: Town) -> None:
    town.ask("POST", "/", batch(2, sealed=False))
    town.work()
    for effect in town.ran:
        unit = Unit.of(effect.context["unit"])
        assert batches.resume_unit(town.ports, unit)
        batches.complete_unit(town.ports, unit, units.succeeded("again"))
    town.ask("POST", "/b/seal", {"pages": 1})
    town.work()
    assert [said["done"] for said in town.announced] == [2]
    assert {unit["result"] for unit in town.ask("GET", "/b/units")[1]["units"]} == {"painted"}


def test_a_batch_ends_at_its_deadline_and_names_what_is_missing(town: Town) -> None:
    town.ask("POST", "/", batch(30, deadline_seconds=600, task=None))
    town.ask("POST", "/b/4", {"result": 1}, "batch_complete")
    town.pass_time(599)
    batches.sweep(town.ports)
    assert town.ask("GET", "/b")[1]["state"] == "sealed"
    town.pass_time(1)
    batches.sweep(town.ports)
    town.work()
    [said] = town.announced
    assert (said["state"], said["reason"], said["done"]) == ("cancelled", "deadline", 1)
    assert said["missing"] == [index for index in range(30) if index != 4]


def test_the_sweeper_passes_on_what_a_dead_process_left_full(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    town.ask("POST", "/", batch(45))
    with monkeypatch.context() as dead:
        dead.setattr("shared.batches.operations.walk.pass_counter", lambda *_: None)
        town.work()
    assert town.announced == []
    town.pass_time(LIMITS.batch_look_seconds + 1)
    batches.sweep(town.ports)
    town.work()
    assert [said["done"] for said in town.announced] == [45]


def test_an_ended_batch_is_removed_after_a_while_and_its_id_is_free_again(town: Town) -> None:
    town.ask("POST", "/", batch(120))
    town.work()
    late = Unit.of(town.ran[0].context["unit"])
    town.pass_time(LIMITS.batch_keep_seconds + 1)
    batches.sweep(town.ports)
    assert town.records() == {}
    batches.complete_unit(town.ports, late, units.succeeded("late"))
    assert batches.resume_unit(town.ports, late)
    assert town.records() == {}
    assert town.ask("POST", "/", batch(1))[0] == 201
    town.work()
    assert [said["size"] for said in town.announced] == [120, 1]


def test_a_batch_may_be_the_work_of_a_unit_and_outlives_its_own_time_with_it(town: Town) -> None:
    town.ask("POST", "/", batch(1))
    town.waiting.sort(key=lambda effect: effect.task != "expand")
    batches.follow(town.ports, town.waiting[0].task, town.waiting.pop(0).payload)
    parent = Unit.of(town.waiting.pop().context["unit"])
    order = Order(units=squares(2), task=Call.from_request(TASK, "task"), sealed=True)
    batches.populate(town.ports, parent.child, order, parent)
    town.work(broken_at(1))
    assert [said["state"] for said in town.announced] == ["completed"]
    result = town.ask("GET", "/b/units")[1]["units"][0]["result"]
    assert result == {"batch": parent.child, "state": "completed", "size": 2, "done": 2, "failed": 1}


def test_a_deadline_of_a_week_is_given_to_a_batch_that_names_none(town: Town) -> None:
    town.ask("POST", "/", {"id": "b"})
    town.pass_time(LIMITS.batch_deadline_seconds + 1)
    batches.sweep(town.ports)
    assert town.ask("GET", "/b") == (200, status("cancelled", 0, 0, 0, 0, reason="deadline") | {"pages": None})
