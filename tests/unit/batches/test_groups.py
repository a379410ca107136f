"""Grouped units: one task runs several, commits their outcomes together, and runs no unit again that has one."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from signalbox import Call, Function, Problem, SubBatch, TaskContext, Unit, batch, sub_batch
from signalbox.batches.model.groups import Group
from signalbox.batches.model.pages import Page
from signalbox.batches.model.units import UnitOutcome, succeeded
from signalbox.batches.problems import BadBatch
from signalbox.batches.requests import BatchSpec, PageRequest
from signalbox.batches.service import groups
from signalbox.batches.service.pages import add_page
from signalbox.batches.service.units import complete_unit
from signalbox.batches.tasks import run_batch_task
from signalbox.core.effects import Effect
from signalbox.core.user_code import ProcessEnded
from signalbox.testing import Harness
from signalbox.testing.replaced_limits import replaced
from tests.unit.batches.batch_harness import TASK, BatchHarness, broken_at
from tests.unit.batches.batch_harness import batch as body

BREAKS = "it breaks"


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


@pytest.fixture
def project() -> Iterator[Harness]:
    with Harness() as entered:
        yield entered


def populate(harness: BatchHarness, count: int, **options: Any) -> None:
    assert harness.request("POST", "/", body(count, **options))[0] == 201


def breaking_once(*squares: int) -> Callable[[Effect], UnitOutcome]:
    """Return the work of units of which these raise at their first start."""
    started: Counter[int] = Counter()

    def work(effect: Effect) -> UnitOutcome:
        square = effect.payload["square"]
        started[square] += 1
        if square in squares and started[square] == 1:
            raise RuntimeError(BREAKS)
        return succeeded(square)

    return work


def expanded(harness: BatchHarness) -> list[Effect]:
    """Run the expansions of pages; take the tasks of units out of the queue and return them."""
    for effect in [effect for effect in harness.tasks if effect.task == "expand"]:
        harness.tasks.remove(effect)
        run_batch_task(harness.ports, effect.task, effect.payload)
    of_units = [effect for effect in harness.tasks if effect.function == "painter"]
    for effect in of_units:
        harness.tasks.remove(effect)
    return of_units


def squares_of(harness: BatchHarness) -> list[int]:
    return [effect.payload["square"] for effect in harness.ran]


# --- one task, several units ---


def test_one_task_runs_several_units_with_their_payloads_and_places(project: Harness) -> None:
    app, seen = Function("painter"), []

    @app.task
    def paint(unit: Unit, context: TaskContext, n: int) -> int:
        seen.append((unit.index, n, context.operation))
        return n * n

    project.add(app)
    batch("wall").populate((paint.call(n=n) for n in range(10)), per_task=3)
    project.run()
    assert sorted((index, n) for index, n, _ in seen) == [(n, n) for n in range(10)]
    assert len({operation for *_, operation in seen}) == 10
    results = {unit["index"]: unit["result"] for unit in batch("wall").results()}
    assert results == {n: n * n for n in range(10)}
    assert batch("wall").status()["state"] == "completed"


def test_the_payloads_of_a_small_page_travel_in_the_tasks_of_its_groups(harness: BatchHarness) -> None:
    populate(harness, 7, per_task=3)
    assert [len(effect.context["group"]["payloads"]) for effect in expanded(harness)] == [3, 2, 2]


def test_a_whole_group_marks_the_node_and_leaves_its_counter(harness: BatchHarness) -> None:
    populate(harness, 6, per_task=3)
    harness.run_tasks()
    counters = [data for path, data in harness.records().items() if data and path.endswith(("-0-0", "-00000000-0"))]
    assert [data["units"] for data in counters if data and data.keys() == {"units", "failures"}] == [0]
    assert [completion["succeeded"] for completion in harness.completions] == [6]


def test_payloads_of_a_large_page_are_read_by_its_groups(harness: BatchHarness) -> None:
    large = [{"square": n, "text": "x" * 2_000} for n in range(60)]
    assert harness.request("POST", "/", body(0) | {"units": large, "per_task": 20})[0] == 201
    tasks = expanded(harness)
    assert all("payloads" not in effect.context["group"] for effect in tasks)
    harness.tasks.extend(tasks)
    harness.run_tasks()
    assert sorted(squares_of(harness)) == list(range(60))


def test_a_delayed_call_delays_each_group(harness: BatchHarness) -> None:
    populate(harness, 4, per_task=2, task=TASK | {"delay_seconds": 60})
    times = [effect.not_before for effect in expanded(harness)]
    assert len(times) == 2
    assert all(times)


# --- what fails, and what comes again ---


def test_a_problem_fails_its_unit_and_no_other(project: Harness) -> None:
    app = Function("painter")

    @app.task
    def paint(n: int) -> int:
        if n == 2:
            raise Problem("no red left")
        return n

    project.add(app)
    batch("wall").populate((paint.call(n=n) for n in range(5)), per_task=5)
    project.run()
    failed = [(unit["index"], unit["error"]) for unit in batch("wall").results("failed")]
    assert failed == [(2, "no red left")]
    assert batch("wall").status()["succeeded"] == 4


def test_a_unit_that_raises_runs_again_alone(harness: BatchHarness) -> None:
    populate(harness, 4, per_task=4)
    work, [task] = breaking_once(1, 3), expanded(harness)
    with pytest.raises(RuntimeError, match=BREAKS):
        harness.run_group(task, work)
    assert squares_of(harness) == [0, 1, 2, 3]
    harness.ran.clear()
    harness.run_group(task, work, executions=1)
    assert squares_of(harness) == [1, 3]
    harness.run_tasks()
    assert [completion["succeeded"] for completion in harness.completions] == [4]


def test_a_unit_is_given_up_for_its_own_starts(harness: BatchHarness) -> None:
    populate(harness, 3, per_task=3)
    [task] = expanded(harness)

    def work(effect: Effect) -> UnitOutcome:
        if effect.payload["square"] == 1:
            raise RuntimeError(BREAKS)
        return succeeded(None)

    for executions in range(3):
        with pytest.raises(RuntimeError, match=BREAKS):
            harness.run_group(task, work, executions)
    harness.run_group(task, work, 3)
    harness.run_tasks()
    assert squares_of(harness) == [0, 1, 2, 1, 1]
    assert [(done["succeeded"], done["failed"]) for done in harness.completions] == [(2, 1)]


def test_a_second_delivery_of_a_whole_group_runs_nothing(harness: BatchHarness) -> None:
    populate(harness, 3, per_task=3)
    [task] = expanded(harness)
    harness.run_group(task, lambda _: succeeded(None))
    harness.run_tasks()
    harness.ran.clear()
    harness.run_group(task, lambda _: succeeded(None), executions=1)
    assert squares_of(harness) == []
    assert len(harness.completions) == 1


def test_two_first_deliveries_record_each_outcome_once(harness: BatchHarness) -> None:
    populate(harness, 3, per_task=3)
    [task] = expanded(harness)
    harness.run_group(task, breaking_once())
    harness.run_group(task, breaking_once())
    harness.run_tasks()
    assert [completion["succeeded"] for completion in harness.completions] == [3]


def test_what_there_was_no_time_for_is_a_task_of_its_own(harness: BatchHarness) -> None:
    populate(harness, 5, per_task=5)
    [task] = expanded(harness)
    harness.run_group(task, breaking_once(), is_over=lambda: len(harness.ran) >= 2)
    assert squares_of(harness) == [0, 1]
    [rest] = [effect for effect in harness.tasks if effect.function == "painter"]
    assert rest.context["group"]["rest"] == [2, 3, 4]
    assert rest.context["group"]["payloads"] == [{"square": n} for n in (2, 3, 4)]
    harness.run_tasks()
    assert squares_of(harness) == [0, 1, 2, 3, 4]
    assert [completion["succeeded"] for completion in harness.completions] == [5]


def test_the_rest_of_a_later_delivery_is_careful_too(harness: BatchHarness) -> None:
    populate(harness, 3, per_task=3)
    [task] = expanded(harness)
    harness.run_group(task, breaking_once(), executions=1, is_over=lambda: True)
    [rest] = [effect for effect in harness.tasks if effect.function == "painter"]
    assert rest.context["group"]["careful"]


def test_groups_that_may_be_lost_are_careful_in_their_first_delivery(harness: BatchHarness) -> None:
    populate(harness, 4, per_task=2)
    known = [Group.from_record(effect.context["group"]) for effect in expanded(harness)]
    [read] = harness.ports.store.read(known[0].page_path)
    assert read.data is not None
    lost = groups.lost(harness.ports, known[1].run, 0, Page.from_record(read.data), known[1].units())
    assert lost == [replace(known[1], careful=True)]


class Died(ProcessEnded):
    """The end of a process."""


@pytest.mark.parametrize(("bytes_max", "is_held_long"), [(1, False), (1_000, True)])
def test_a_process_that_dies_loses_only_what_it_may_hold(
    harness: BatchHarness, bytes_max: int, is_held_long: bool
) -> None:
    populate(harness, 3, per_task=3)
    [task] = expanded(harness)

    def work(effect: Effect) -> UnitOutcome:
        if effect.payload["square"] == 2:
            raise Died
        return succeeded(None)

    with replaced(group_commit_bytes_max=bytes_max), pytest.raises(Died):
        harness.run_group(task, work, hold=lambda: lambda: is_held_long)
    harness.ran.clear()
    harness.run_group(task, breaking_once(), executions=1)
    assert squares_of(harness) == [2]


def test_what_has_ended_when_the_batch_does_is_recorded_and_no_other_unit_runs(harness: BatchHarness) -> None:
    populate(harness, 3, per_task=3)
    [task] = expanded(harness)
    harness.run_group(task, breaking_once(), is_live=lambda _: not harness.ran)
    assert squares_of(harness) == [0]
    harness.run_group(task, breaking_once(), executions=1)
    assert squares_of(harness) == [0, 1, 2]


def test_a_group_of_a_batch_that_has_ended_does_not_run(harness: BatchHarness) -> None:
    populate(harness, 3, per_task=3)
    [task] = expanded(harness)
    harness.run_group(task, breaking_once(), is_live=lambda _: False)
    assert squares_of(harness) == []


def test_a_later_delivery_begins_with_the_units_that_were_started_least(harness: BatchHarness) -> None:
    populate(harness, 3, per_task=3)
    [task] = expanded(harness)

    def work(effect: Effect) -> UnitOutcome:
        if effect.payload["square"] == 0:
            raise Died
        return succeeded(None)

    for executions in range(3):
        with pytest.raises(Died):
            harness.run_group(task, work, executions)
    assert squares_of(harness) == [0, 0, 1, 2, 0], "the first delivery counts no start"


def test_a_units_payload_goes_before_that_of_the_call(harness: BatchHarness) -> None:
    populate(harness, 2, per_task=2, task=TASK | {"payload": {"square": 7, "color": "red"}})
    harness.run_tasks()
    assert [effect.payload for effect in harness.ran] == [{"square": n, "color": "red"} for n in (0, 1)]


def test_failures_of_a_whole_group_are_counted_at_once(harness: BatchHarness) -> None:
    populate(harness, 9, per_task=3, failures_max=1)
    first, *_ = expanded(harness)
    harness.run_group(first, broken_at(0, 3))
    assert harness.request("GET", "/b")[1]["state"] == "cancelled"


def test_a_unit_may_return_a_batch(project: Harness) -> None:
    app = Function("painter")

    @app.task
    def paint(n: int) -> int | SubBatch:
        return sub_batch([dot.call(n=at) for at in range(4)], per_task=2) if n == 1 else n

    @app.task
    def dot(n: int) -> int:
        return n

    project.add(app)
    batch("wall").populate((paint.call(n=n) for n in range(3)), per_task=3)
    project.run()
    results = {unit["index"]: unit["result"] for unit in batch("wall").results("succeeded")}
    assert results[0] == 0
    assert results[1]["succeeded"] == 4
    assert batch("wall").status()["state"] == "completed"


def test_calls_that_a_unit_makes_have_keys_of_that_unit(project: Harness) -> None:
    app, noted = Function("painter"), []

    @app.task
    def paint(unit: Unit, n: int) -> None:
        note.call(n=7).enqueue()
        if n == 1 and not started:
            started.append(unit.index)
            raise RuntimeError(BREAKS)

    @app.task
    def note(n: int) -> None:
        noted.append(n)

    started: list[int] = []
    project.add(app)
    batch("wall").populate((paint.call(n=n) for n in range(3)), per_task=3)
    project.run(raise_errors=False)
    assert noted == [7, 7, 7]


def test_failed_units_of_groups_are_retried_one_by_one(project: Harness) -> None:
    app, is_dry = Function("painter"), [True]

    @app.task
    def paint(n: int) -> int:
        if is_dry[0] and n % 2:
            raise Problem("dry")
        return n

    project.add(app)
    batch("wall").populate((paint.call(n=n) for n in range(6)), per_task=3)
    project.run()
    assert batch("wall").status()["failed"] == 3
    is_dry[0] = False
    project.post("batches/wall/retry", json={})
    project.run()
    assert {unit["index"] for unit in batch("wall").results("succeeded")} == set(range(6))


# --- several units at once ---


def test_a_task_may_take_its_units_as_lists(project: Harness) -> None:
    app, calls = Function("search"), []

    @app.task
    def embed(units: list[Unit], text: list[str], scale: list[int]) -> list[int]:
        calls.append([unit.index for unit in units])
        return [len(one) * by for one, by in zip(text, scale, strict=True)]

    project.add(app)
    batch("pages").populate((embed.call(text=["x" * n], scale=[n]) for n in range(7)), per_task=7)
    project.run()
    assert calls == [list(range(7))]
    assert {unit["index"]: unit["result"] for unit in batch("pages").results()} == {n: n * n for n in range(7)}


def test_lists_that_raise_are_called_one_by_one(project: Harness) -> None:
    app, calls = Function("search"), []

    @app.task
    def embed(units: list[Unit], text: list[str]) -> list[int]:
        calls.append([unit.index for unit in units])
        if "bad" in text:
            raise Problem("unreadable")
        return [len(one) for one in text]

    project.add(app)
    batch("pages").populate((embed.call(text=[text]) for text in ("a", "bad", "ccc")), per_task=3)
    project.run(raise_errors=False)
    assert calls == [[0, 1, 2], [0], [1], [2]]
    assert [(unit["index"], unit["error"]) for unit in batch("pages").results("failed")] == [(1, "unreadable")]
    assert {unit["index"]: unit["result"] for unit in batch("pages").results("succeeded")} == {0: 1, 2: 3}


@pytest.mark.parametrize("per_task", [None, 2])
def test_lists_work_without_groups_and_a_wrong_number_of_results_fails_the_unit(
    project: Harness, per_task: int | None
) -> None:
    app = Function("search")

    @app.task
    def embed(units: list[Unit], text: list[str]) -> list[int]:
        del units
        return [len(one) for one in text if one]

    project.add(app)
    batch("pages").populate((embed.call(text=[text]) for text in ("a", "")), per_task=per_task)
    project.run(raise_errors=False)
    assert [unit["result"] for unit in batch("pages").results("succeeded")] == [1]
    [failed] = batch("pages").results("failed")
    assert "a list of as many results" in failed["error"]


def test_a_call_with_several_items_for_one_unit_fails_that_unit(project: Harness) -> None:
    app = Function("search")

    @app.task
    def embed(units: list[Unit], text: list[str]) -> list[int]:
        return [len(one) for one, _ in zip(text, units, strict=True)]

    project.add(app)
    batch("pages").populate((embed.call(text=text) for text in (["a"], ["b", "c"])), per_task=2)
    project.run(raise_errors=False)
    assert [unit["result"] for unit in batch("pages").results("succeeded")] == [1]
    [failed] = batch("pages").results("failed")
    assert "embed.call(text=[item])" in failed["error"]


def test_an_argument_beside_a_list_of_units_must_be_a_list() -> None:
    app = Function("search")
    with pytest.raises(TypeError, match="'scale' must be a list, too"):

        @app.task
        def embed(units: list[Unit], scale: int) -> list[int]:
            return [scale for _ in units]


# --- concurrency ---


def test_so_many_groups_run_at_once(harness: BatchHarness) -> None:
    populate(harness, 10, per_task=2, concurrency=2)
    waiting = []

    def work(_: Effect) -> UnitOutcome:
        waiting.append(sum("group" in effect.context for effect in harness.tasks))
        return succeeded(None)

    harness.run_tasks(work)
    assert max(waiting) == 1
    assert sorted(squares_of(harness)) == list(range(10))
    assert [completion["succeeded"] for completion in harness.completions] == [10]


def test_a_unit_that_ends_alone_enqueues_the_next_group_only_when_its_own_is_complete(harness: BatchHarness) -> None:
    populate(harness, 4, per_task=2, concurrency=1)
    [task] = expanded(harness)
    with pytest.raises(RuntimeError):
        harness.run_group(task, breaking_once(0, 2))
    waiting = []
    for unit in Group.from_record(task.context["group"]).units():
        complete_unit(harness.ports, unit, succeeded(None))
        waiting.append([effect for effect in harness.tasks if "group" in effect.context])
    assert [len(tasks) for tasks in waiting] == [0, 1]


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1), (7, 1, 3, 2, 9, 4), (2, 100, 1, 1, 50)])
@pytest.mark.parametrize("concurrency", [1, 2, 5])
def test_a_group_finds_the_next_one_on_pages_of_any_size(
    harness: BatchHarness, sizes: tuple[int, ...], concurrency: int
) -> None:
    populate(harness, 0, per_task=2, concurrency=concurrency, sealed=False)
    for number, size in enumerate(sizes):
        add_page(harness.ports, "b", PageRequest(number, [{"square": n} for n in range(size)]))
    harness.tasks.clear()
    ordinals = [
        Group.from_record({**_group_record(harness, page, at), "concurrency": concurrency})
        for page, size in enumerate(sizes)
        for at in range(-(-size // 2))
    ]
    for one in ordinals:
        found = groups.find_group(harness.ports, one.run, one, one.ordinal + concurrency)
        following = next((each for each in ordinals if each.ordinal == one.ordinal + concurrency), None)
        assert found == following
        back = groups.find_group(harness.ports, one.run, one, one.ordinal - concurrency)
        assert back == next((each for each in ordinals if each.ordinal == one.ordinal - concurrency), None)


def _group_record(harness: BatchHarness, page: int, at: int) -> dict[str, Any]:
    records = harness.records()
    [data] = [data for path, data in records.items() if path.endswith(f"-{page}") and "/pages/" in path]
    incarnation = next(path for path in records if "/pages/" in path).rpartition("/")[2].rpartition("-")[0]
    assert data is not None
    place = {"batch": "b", "incarnation": incarnation, "page": page, "number": at, "first": data["first"]}
    return place | {"page_units": data["size"], "per_task": 2, "ordinal": data["first_group"] + at}


# --- refusals and formats ---


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"per_task": 1}, "from 2 to 100"),
        ({"per_task": 101}, "from 2 to 100"),
        ({"per_task": "3"}, "per_task"),
        ({"per_task": 3, "semaphore": "printers"}, "A permit is for one unit"),
        ({"per_task": 3, "task": None}, "needs a `task`"),
    ],
)
def test_a_group_that_cannot_be_is_refused(harness: BatchHarness, options: dict[str, Any], says: str) -> None:
    status, problem = harness.request("POST", "/", body(2) | options)
    assert status == 400
    assert says in problem["detail"]
    assert problem["field"] == "per_task"


def test_the_records_of_other_batches_have_no_groups(harness: BatchHarness) -> None:
    populate(harness, 3)
    harness.run_tasks()
    assert not [path for path, data in harness.records().items() if data and "per_task" in data]


def test_the_same_units_in_other_groups_are_another_batch() -> None:
    spec = BatchSpec(units=[{}] * 4, task=Call("painter", "paint", {}), per_task=2)
    assert spec.digest() != replace(spec, per_task=4).digest() != replace(spec, per_task=None).digest()
    with pytest.raises(BadBatch):
        replace(spec, per_task=0)
