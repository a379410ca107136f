"""A critical section as callers and its task see it: one run at a time, shared by the calls that arrive during it."""

import json
from typing import Any

import pytest

from signalbox import Function, Problem, SectionRun, Unavailable, critical_section
from signalbox.critical_sections import service
from signalbox.critical_sections.limits import LIMITS
from signalbox.critical_sections.model import Grant
from signalbox.critical_sections.problems import OtherTask
from signalbox.critical_sections.requests import SectionRequest
from signalbox.testing import Faults, Harness
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.replaced_limits import replaced


class Broken(Problem):
    title = "Broken"


class Index:
    """A function that rebuilds. `seen` has the arguments of each run; a run calls the next function of `during`."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.runs: list[SectionRun] = []
        self.during: list[Any] = []
        self.app = app = Function("index")

        @app.task(attempts_max=2)
        def rebuild(run: SectionRun, page: int) -> None:
            self.seen.append(page)
            self.runs.append(run)
            if self.during:
                self.during.pop(0)()

        @app.task
        def collect(pages: list[int], note: str = "") -> None:
            self.seen.append((pages, note))
            if self.during:
                self.during.pop(0)()

        self.rebuild, self.collect = rebuild, collect

    def call(self, page: int, **more: Any) -> bool:
        return critical_section("index").run(self.rebuild.call(page=page), **more)


@pytest.fixture
def index(harness: Harness) -> Index:
    made = Index()
    harness.add(made.app)
    return made


def test_calls_that_arrive_while_one_runs_share_exactly_one_run_after_it_with_the_last_arguments(
    harness: Harness, index: Index
) -> None:
    def burst() -> None:
        assert [index.call(page) for page in range(2, 50)] == [False] * 48

    index.during = [burst]
    assert index.call(1)
    harness.run()
    assert index.seen == [1, 49]
    assert harness.get("critical-section/index").json == {"key": "index"}


def test_calls_that_collect_share_a_run_with_the_items_of_all(harness: Harness, index: Index) -> None:
    def call(page: int, note: str) -> None:
        critical_section("index").run(index.collect.call(pages=[page], note=note), collect="pages")

    call(1, "a")
    for page in (2, 3, 3):
        call(page, f"after {page}")
    harness.run()
    assert index.seen == [([1], "a"), ([2, 3, 3], "after 3")]


def test_collected_items_are_bounded_and_a_call_beyond_them_must_be_retried(harness: Harness, index: Index) -> None:
    def call(pages: list[int]) -> None:
        critical_section("index").run(index.collect.call(pages=pages), collect="pages")

    with replaced(collected_items_max=3):
        call([1])
        call([2, 3])
        with pytest.raises(Unavailable):
            call([4, 5])
        call([6])
        harness.run()
        call([4, 5])
        harness.run()
    assert index.seen == [([1], ""), ([2, 3, 6], ""), ([4, 5], "")]


def test_a_debounced_call_runs_once_no_call_has_arrived_for_that_time(harness: Harness, index: Index) -> None:
    for page in range(5):
        assert not index.call(page, debounce_seconds=10)
        harness.advance(9)
        harness.run(due_only=True)
    assert index.seen == []
    harness.advance(2)
    harness.run(due_only=True)
    assert index.seen == [4]


def test_a_debounced_call_runs_at_most_its_delay_after_the_first_one(harness: Harness, index: Index) -> None:
    for page in range(6):
        index.call(page, debounce_seconds=10, debounce_max_seconds=25)
        harness.advance(5)
        harness.run(due_only=True)
    assert index.seen == [4]


def test_calls_without_a_limit_do_not_postpone_a_run_beyond_the_limit_of_another_call(
    harness: Harness, index: Index
) -> None:
    index.call(0, debounce_seconds=5, debounce_max_seconds=10)
    for page in range(1, 5):
        harness.advance(3)
        harness.run(due_only=True)
        index.call(page, debounce_seconds=5)
    assert index.seen == [3]


def test_debounced_calls_do_not_postpone_the_run_of_a_call_without_a_debounce_that_came_during_a_run(
    harness: Harness, index: Index
) -> None:
    index.during = [lambda: (index.call(1), index.call(2, debounce_seconds=1000))]
    index.call(0)
    harness.run(due_only=True)
    assert index.seen == [0, 2]


def test_a_call_without_a_debounce_does_not_wait_for_those_with_one(harness: Harness, index: Index) -> None:
    index.call(1, debounce_seconds=1000)
    assert index.call(2)
    harness.run()
    assert index.seen == [2]


def test_a_run_whose_code_fails_is_repeated_at_once_and_then_the_next_begins(harness: Harness, index: Index) -> None:
    def fail() -> None:
        index.call(2)
        raise RuntimeError

    index.during = [fail]
    index.call(1)
    harness.run(raise_errors=False)
    assert index.seen == [1, 1, 2]
    assert [run.token for run in index.runs] == sorted({run.token for run in index.runs})


@pytest.mark.parametrize("error", [Broken("no"), RuntimeError("bug")])
def test_a_run_that_fails_for_good_does_not_block_the_key(harness: Harness, index: Index, error: Exception) -> None:
    def fail() -> None:
        index.call(2)
        raise error

    index.during = [fail, fail] if isinstance(error, RuntimeError) else [fail]
    index.call(1)
    harness.run(raise_errors=False)
    assert index.seen[-1] == 2
    [failure] = harness.get("failures").json["failures"]
    assert failure["payload"] == {"page": 1}
    assert harness.post(f"failures/{failure['id']}/retry").status < 300
    harness.run()
    assert index.seen[-1] == 1


def test_a_second_delivery_waits_for_the_lease_of_the_first_and_takes_over_after_it(
    harness: Harness, index: Index
) -> None:
    index.call(1, lease_seconds=30)
    granted = Grant.from_context(harness.queue.tasks[0].context["section"])
    first = service.claim(harness.ports, granted)
    assert first is not None
    with pytest.raises(Unavailable):
        service.claim(harness.ports, granted)
    harness.advance(31)
    second = service.claim(harness.ports, granted)
    assert second is not None
    assert second.token > first.token
    assert not service.end(harness.ports, first)
    assert service.end(harness.ports, second)
    assert service.claim(harness.ports, granted) is None


def test_every_call_is_followed_by_a_run_whatever_is_delivered_twice(harness: Harness, index: Index) -> None:
    for page in range(10):
        index.call(page)
        harness.run(Faults(duplicate=1))
    assert index.seen == list(range(10))


def test_a_call_of_another_task_or_another_collect_is_refused_while_a_run_is_due(
    harness: Harness, index: Index
) -> None:
    index.call(1)
    index.call(2)
    for collect in ("", "pages"):
        with pytest.raises(OtherTask):
            critical_section("index").run(index.collect.call(pages=[1]), collect=collect)
    harness.run()
    critical_section("index").run(index.collect.call(pages=[1]))


def test_a_repeat_of_a_call_is_recognised(harness: Harness, index: Index) -> None:
    for _ in range(3):
        index.call(1, id="a")
        harness.run()
    assert index.seen == [1]


def test_a_run_whose_task_was_purged_is_granted_again_by_a_call_an_hour_later(harness: Harness, index: Index) -> None:
    index.call(1)
    harness.queue.tasks.clear()
    harness.advance(LIMITS.section_lost_seconds - 1)
    assert not index.call(2)
    harness.run()
    assert index.seen == []
    harness.advance(1)
    assert not index.call(2)
    harness.run()
    assert index.seen == [1, 2]


@pytest.mark.parametrize("debounce_seconds", [0, 60])
def test_the_sweeper_wakes_a_section_whose_task_was_purged(
    harness: Harness, index: Index, debounce_seconds: float
) -> None:
    index.call(1, debounce_seconds=debounce_seconds)
    harness.tasks.clear()
    harness.advance(debounce_seconds + LIMITS.section_lost_seconds - 1)
    harness.run_schedule("sweep")
    assert not harness.tasks
    harness.advance(1)
    harness.run_schedule("sweep")
    harness.run()
    assert index.seen == [1]
    harness.advance(10 * LIMITS.section_lost_seconds)
    harness.run_schedule("sweep")
    assert not harness.tasks


def test_a_run_that_is_granted_again_after_its_code_has_been_started_makes_its_calls_once(harness: Harness) -> None:
    app, printed = Function("index"), list[int]()

    @app.task
    def page(number: int) -> None:
        printed.append(number)

    @app.task(attempts_max=2)
    def rebuild(run: SectionRun) -> None:
        page.call(number=1).enqueue()
        raise RuntimeError("before its end")

    harness.add(app)
    critical_section("index").run(rebuild.call())
    assert harness.deliver_task(harness.take("rebuild")).status == 500
    for _ in range(2):
        harness.tasks[:] = [task for task in harness.tasks if task.task != "rebuild"]
        harness.advance(LIMITS.section_lost_seconds)
        harness.run_schedule("sweep")
    harness.run(raise_errors=False)
    assert printed == [1]
    [failure] = harness.get("failures").json["failures"]
    assert failure["attempts"] == 2


def test_a_wake_task_that_was_purged_is_replaced_by_the_next_call(harness: Harness, index: Index) -> None:
    index.call(1, debounce_seconds=5)
    harness.queue.tasks.clear()
    harness.advance(6)
    assert index.call(1)
    harness.run()
    assert index.seen == [1]


# --- HTTP ---

CALL = {"function": "quilt", "task": "paint", "payload": {"row": 1, "column": [1]}}


def test_a_call_over_http_and_what_is_shown(harness: Harness) -> None:
    assert harness.get("critical-section/k").status == 404
    called = harness.post("critical-section/k", json={"continuation": CALL})
    assert (called.status, called.json) == (202, {"granted": True})
    called = harness.post("critical-section/k", json={"continuation": CALL, "debounce_seconds": 5})
    assert (called.status, called.json) == (202, {"granted": False})
    shown = harness.get("critical-section/k").json
    assert (shown["running"]["task"], shown["next"]["task"]) == ("paint", "paint")
    assert shown["next"]["called_at"] < shown["next"]["due_at"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "continuation"),
        ({"continuation": CALL, "debounce_seconds": -1}, "debounce_seconds"),
        ({"continuation": CALL, "debounce_seconds": True}, "debounce_seconds"),
        ({"continuation": CALL, "debounce_max_seconds": 0}, "debounce_max_seconds"),
        ({"continuation": CALL, "debounce_max_seconds": 1e9}, "debounce_max_seconds"),
        ({"continuation": CALL, "lease_seconds": 0}, "lease_seconds"),
        ({"continuation": CALL, "collect": "row"}, "continuation.payload.row"),
        ({"continuation": CALL, "collect": 1}, "collect"),
        ({"continuation": CALL, "collect": "\ud800"}, "collect"),
        ({"continuation": CALL, "id": 1}, "id"),
        ({"continuation": CALL, "id": "x" * 1_001}, "id"),
        ({"continuation": CALL, "id": "\ud800"}, "id"),
        ({"continuation": CALL, "x": 1}, "x"),
    ],
)
def test_a_wrong_request_is_refused_with_the_field(harness: Harness, body: dict[str, Any], field: str) -> None:
    refused = harness.post("critical-section/k", json=body)
    assert (refused.status, refused.json["field"]) == (400, field)
    assert harness.get("critical-section/k").status == 404


def test_arguments_that_differ_only_in_their_type_are_other_arguments(harness: Harness) -> None:
    for row in (0, 1, True):
        call = CALL | {"payload": {"row": row, "column": 0}}
        harness.post("critical-section/k", json={"continuation": call})
    [record] = harness.store.read("critical_sections/k")
    assert record.data is not None
    assert json.loads(record.data["next"]["call"]["payload"]) == {"row": True, "column": 0}


def test_an_idempotency_key_is_the_id_of_a_call(harness: Harness) -> None:
    for _ in range(3):
        harness.post("critical-section/k", json={"continuation": CALL}, headers={"Idempotency-Key": "x"})
    assert "next" not in harness.get("critical-section/k").json


def test_a_request_without_a_debounce_is_due_at_once() -> None:
    request = SectionRequest.from_request({"continuation": CALL, "debounce_seconds": None})
    assert (request.debounce_seconds, request.debounce_max_seconds, request.lease_seconds) == (0, None, 600)
