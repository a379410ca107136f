"""Problems of users: whoever waits receives the class with its fields, and no odd problem runs code again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import pytest

from signalbox import Function, Problem, batch, flow, flows, objects
from signalbox.core.problems import FieldError, GaveUp, InvalidFields
from signalbox.mailboxes.model.outcomes import FIELDS_BYTES_MAX, CallOutcome
from signalbox.testing import Harness

app = Function("stock")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ran: list[str] = []


class Short(Problem):
    status = HTTPStatus.CONFLICT

    def __init__(self, item: str, left: int, *, until: datetime | None = None) -> None:
        super().__init__(f"Only {left} of {item} are left.", field="item")
        self.item = item
        self.left = left
        self.until = until


@dataclass(eq=False)
class Bare(Problem):
    """Its constructor does not call that of `Problem`."""

    item: str
    marks: set[str]

    def __len__(self) -> int:
        return 0


class Rude(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


class RudeProblem(Problem):
    def __init__(self) -> None:
        self.handle = object()

    def __str__(self) -> str:
        raise ZeroDivisionError


class Odd(Problem):
    def __init__(self) -> None:
        super().__init__("odd")
        self.status: Any = "four"
        self.title: Any = None
        self.detail: Any = {"a": 1}
        self.field: Any = 7


def short() -> Problem:
    return Short("tea", 2, until=NOON)


RAISED: dict[str, Callable[[], Exception]] = {
    "short": short,
    "bare": lambda: Bare("tea", {"a"}),
    "error": lambda: Problem(KeyError("tea")),  # type: ignore[arg-type]  # as users do
    "none": lambda: Problem(None),  # type: ignore[arg-type]  # as users do
    "number": lambda: Problem(4),  # type: ignore[arg-type]  # as users do
    "rude": lambda: Problem(Rude()),  # type: ignore[arg-type]  # as users do
    "rude problem": RudeProblem,
    "odd": Odd,
    "half": lambda: Problem("\ud800"),
}


def fail(kind: str) -> None:
    ran.append(kind)
    raise RAISED[kind]()


@app.task(attempts_max=3)
def check(kind: str) -> None:
    fail(kind)


@app.object
class Shelf:
    taken: int = 0

    def take(self, kind: str) -> int:
        if kind:
            fail(kind)
        self.taken += 1
        return self.taken

    def be_rude(self) -> None:
        raise Rude


@app.flow
async def below(kind: str) -> None:
    await flow.sleep(1)
    fail(kind)


@app.flow
async def caught(kind: str) -> list[Any]:
    commands = (check.call(kind), flow.run(fail, kind), objects("Shelf", "a").take(kind=kind), below.call(kind))
    return [shown((await flow.settled(command))[0].error) for command in commands]


def shown(error: Exception | None) -> Any:
    match error:
        case Short(item=item, left=left, until=until, field=field):
            return [item, left, until == NOON, field, error.status, error.detail]
        case Bare(item=item, marks=marks):
            return [item, [*marks], error.detail]
        case Problem():
            return [type(error).__name__, error.status, error.detail]


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        harness.add(app)
        ran.clear()
        yield harness


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("short", ["tea", 2, True, "item", 409, "Only 2 of tea are left."]),
        ("bare", ["tea", ["a"], "tea, {'a'}"]),
        ("error", ["Problem", 400, "'tea'"]),
        ("none", ["Problem", 400, "None"]),
        ("number", ["Problem", 400, "4"]),
        ("rude", ["Problem", 400, "its text cannot be shown"]),
        ("rude problem", ["RudeProblem", 400, "Bad request"]),
        ("odd", ["Odd", 400, "{'a': 1}"]),
        ("half", ["Problem", 400, "\ud800"]),
    ],
)
def test_a_problem_runs_its_code_once_and_arrives_with_the_fields_of_its_class(
    harness: Harness, kind: str, expected: Any
) -> None:
    flows("caught", "1").start(kind=kind)
    harness.run()
    harness.travel(5)
    status = flows("caught", "1").wait(0)
    assert (status.state, status.result) == ("completed", [expected] * 4)
    assert ran == [kind] * 4
    assert harness.post("/stock/objects/Shelf/a/take", json={"kind": ""}).json["result"] == 1


@pytest.mark.parametrize("kind", RAISED)
def test_a_flow_that_ends_with_any_problem_has_failed_with_it(harness: Harness, kind: str) -> None:
    flows("below", "1").start(kind=kind)
    harness.travel(5)
    assert flows("below", "1").status().state == "failed"
    assert harness.post("/stock/objects/Shelf/a/take", json={"kind": kind}).status in (400, 409)


@pytest.mark.parametrize("kind", RAISED)
def test_a_task_and_a_unit_that_raise_any_problem_run_once(harness: Harness, kind: str) -> None:
    check.call(kind).enqueue()
    batch("checks").populate([check.call(kind)])
    harness.run()
    assert ran == [kind, kind]
    assert batch("checks").status()["failed"] == 1


def test_an_error_whose_text_raises_another_blocks_no_object(harness: Harness) -> None:
    failed = harness.post("/stock/objects/Shelf/a/be_rude", json={})
    assert (failed.status, failed.json["detail"]) == (500, "Rude: its text cannot be shown")
    assert harness.post("/stock/objects/Shelf/a/take", json={"kind": ""}).json["result"] == 1


def test_fields_that_json_cannot_contain_or_that_are_too_large_are_not_kept() -> None:
    problem: Any = Short("tea", 2)
    problem.large, problem.open, problem.small = "x" * FIELDS_BYTES_MAX, object(), [1]
    read: Any = CallOutcome.from_text(CallOutcome.from_problem(problem).to_text()).problem()
    assert (read.item, read.left, read.until, read.small, hasattr(read, "large"), hasattr(read, "open")) == (
        *("tea", 2, None, [1]),
        *(False, False),
    )


def test_problems_of_the_kit_keep_their_fields() -> None:
    gave_up, invalid = GaveUp("d", "KeyError: 1", "trace"), InvalidFields.of([FieldError("a", "is missing")])
    for problem in (gave_up, invalid):
        read: Any = CallOutcome.from_text(CallOutcome.from_problem(problem).to_text()).problem()
        kept = {"status": read.status, "title": read.title} | ({"traceback": ""} if problem is gave_up else {})
        assert (type(read), vars(read)) == (type(problem), vars(problem) | kept)
    assert "fields" not in (CallOutcome.from_problem(GaveUp("d")).error or {})


@pytest.mark.parametrize("members", [{"status": "four"}, {"status": 200}, {"title": None}])
def test_a_class_whose_status_or_title_no_answer_could_have_is_refused_where_it_is_made(members: Any) -> None:
    with pytest.raises(TypeError, match=r"Wrong\.(status|title) is .*: write "):
        type("Wrong", (Problem,), members)
