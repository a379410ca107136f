"""A critical section: the machine's table row by row, then what callers and tasks observe."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signalbox.core.calls import Call
from signalbox.core.effects import Decision, Effect
from signalbox.core.problems import NotFound, OtherBody, Problem, Unavailable
from signalbox.critical_sections import service
from signalbox.critical_sections.limits import LIMITS
from signalbox.critical_sections.machine import transitions
from signalbox.critical_sections.model import Grant, NextRun, Phase, Run, Section, SectionRun, path_of
from signalbox.critical_sections.problems import OtherTask
from signalbox.critical_sections.requests import SectionRequest
from signalbox.testing.simulated_cloud import Platform
from tests.unit.transition_tables import tables, values

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GRANT, TOKEN = 100, 101


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def call_of(page: int) -> Call:
    return Call("index", "rebuild", {"page": page})


def request(page: int = 2, debounce_seconds: float = 0, id_: str = "new") -> SectionRequest:
    return SectionRequest(call_of(page), debounce_seconds, id=id_)


# --- the table ---


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table in the docstring of `machine`, for one of its states."""

    command: str
    state: str
    condition: str
    outcome: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.command}, {self.state}, {self.condition}: {' '.join(self.outcome)}"


RUNS = {
    "granted": Run(call_of(1), "", 600, GRANT, GRANT, ago(5)),
    "claimed": Run(call_of(1), "", 600, GRANT, TOKEN, ago(5), "D", ago(-60)),
    "expired": Run(call_of(1), "", 600, GRANT, TOKEN, ago(700), "D", ago(60)),
    "lost": Run(call_of(1), "", 600, GRANT, TOKEN, ago(9_000), "D", ago(LIMITS.section_lost_seconds)),
}
STATES = ("idle", "waiting", *RUNS)
DUE_LATER = NextRun(call_of(1), "", 600, ago(5), ago(-10))
DUE_NOW = replace(DUE_LATER, due_at=NOW)
FULL = [0] * LIMITS.collected_items_max
REFUSALS: dict[str, type[Exception]] = {"Unavailable": Unavailable, "OtherTask": OtherTask, "OtherBody": OtherBody}


def rows() -> list[Row]:
    [table] = tables(transitions.__doc__)
    return [
        Row(row["command"], state, row["if"], tuple(row.values())[3:])
        for row in table
        for state in {"any": STATES, "any but idle": STATES[1:]}.get(row["in state"]) or values(row["in state"])
    ]


def sections(state: str) -> list[Section]:
    """Return the sections in a state: those with a run, with and without a next run."""
    if state == "idle":
        return [Section(token=TOKEN)]
    if state == "waiting":
        return [Section(token=TOKEN, next=DUE_LATER, alarm_at=DUE_LATER.due_at)]
    return [Section(TOKEN, RUNS[state], next_) for next_ in (None, DUE_LATER)]


def state_of(section: Section) -> str:
    if section.run is not None:
        return transitions.phase(section.run, NOW).name.lower()
    return "idle" if section.next is None else "waiting"


Step = tuple[Section, Callable[[Section], Decision[Section, Any]]]


def step(row: Row, section: Section) -> Step:
    """Return the section in which the row's condition holds, and the command."""
    match row.command, row.condition:
        case "call", "its id is remembered":
            known = transitions.call("k", Section(), request(), "a", NOW).state.ids
            return replace(section, ids=known), lambda given: transitions.call("k", given, request(), "a", NOW)
        case "call", "its id is of other call":
            known = transitions.call("k", Section(), request(), "a", NOW).state.ids
            named = SectionRequest(Call("index", "rebuild", {"pages": [1]}), id="a", named=True)
            return replace(section, ids=known), lambda given: transitions.call("k", given, named, "a", NOW)
        case "call", ("due now" | "-"):
            return section, lambda given: transitions.call("k", given, request(), "a", NOW)
        case "call", ("due later" | "due later, wake in time"):
            return section, lambda given: transitions.call("k", given, request(2, 20), "a", NOW)
        case "call", "due later, wake late":
            late = replace(section, alarm_at=NOW)
            return late, lambda given: transitions.call("k", given, request(2, 20), "a", NOW)
        case "call", "next of another task":
            other = replace(DUE_LATER, call=Call("index", "collect", {}))
            return replace(section, next=other), lambda given: transitions.call("k", given, request(), "a", NOW)
        case "call", "next has no room":
            full = replace(DUE_LATER, call=Call("index", "rebuild", {"pages": FULL}), collect="pages")
            collecting = SectionRequest(Call("index", "rebuild", {"pages": [1]}), collect="pages")
            return replace(section, next=full), lambda given: transitions.call("k", given, collecting, "a", NOW)
        case "wake", "before its time":
            return section, lambda given: transitions.wake("k", given, ago(-1), NOW)
        case "wake", "due now":
            return replace(section, next=DUE_NOW), lambda given: transitions.wake("k", given, NOW, NOW)
        case "wake", "due later, wake late":
            return replace(section, alarm_at=NOW), lambda given: transitions.wake("k", given, NOW, NOW)
        case "wake", _:
            return section, lambda given: transitions.wake("k", given, NOW, NOW)
        case "claim", "another grant":
            return section, lambda given: transitions.claim("k", given, GRANT - 1, "E", NOW)
        case "claim", "the same delivery":
            return section, lambda given: transitions.claim("k", given, GRANT, "D", NOW)
        case "claim", _:
            return section, lambda given: transitions.claim("k", given, GRANT, "E", NOW)
        case "release", "another token":
            return section, lambda given: transitions.release(given, TOKEN - 50, NOW)
        case "release", "its token":
            return section, lambda given: transitions.release(given, TOKEN, NOW)
        case "end", "another token":
            return section, lambda given: transitions.end("k", given, TOKEN - 50, NOW)
        case "end", condition:
            next_, alarm_at = {
                "no next": (None, None),
                "next due now": (DUE_NOW, None),
                "next later, wake in time": (DUE_LATER, DUE_LATER.due_at),
                "next later, wake late": (DUE_LATER, NOW),
            }[condition]
            due = replace(section, next=next_, alarm_at=alarm_at)
            return due, lambda given: transitions.end("k", given, TOKEN, NOW)
    raise AssertionError(f"no test for the row {row}")


def outcome(before: Section, decided: Decision[Section, Any]) -> tuple[str, Any, tuple[str, ...]]:
    """Return a decision in the words of the table."""
    answer = "lease" if isinstance(decided.answer, SectionRun) else decided.answer
    tasks = tuple("wake" if effect.task == "wake" else "run" for effect in decided.effects)
    return state_of(decided.state), answer, tasks


@pytest.mark.parametrize("row", rows(), ids=str)
def test_each_row_of_the_table_holds(row: Row) -> None:
    for section in sections(row.state):
        given, command = step(row, section)
        if refusal := REFUSALS.get(row.outcome[0]):
            with pytest.raises(refusal):
                command(given)
            continue
        state, answer, task = row.outcome
        decided = command(given)
        expected = {"True": True, "False": False, "None": None, "no next": given.next is None}.get(answer, answer)
        tasks = () if task == "-" else (task,)
        assert outcome(given, decided) == (state_of(given) if state == "same" else state, expected, tasks)


def test_the_table_names_every_command_in_every_state() -> None:
    covered = {(row.command, row.state) for row in rows()}
    reachable = {(command, state) for command in ("call", "wake", "claim", "release", "end") for state in STATES}
    assert covered == reachable
    assert {phase.name.lower() for phase in Phase} == set(RUNS)


@pytest.mark.parametrize("state", STATES)
def test_a_section_equals_what_is_read_back_from_its_record(state: str) -> None:
    for section in sections(state):
        assert Section.from_record(section.to_record(NOW)) == section


# --- merging ---


def test_a_call_never_changes_the_granted_run() -> None:
    for state in ("granted", "claimed", "expired"):
        [section, _] = sections(state)
        assert transitions.call("k", section, request(9), "a", NOW).state.run == section.run


def test_the_next_run_has_the_arguments_of_its_last_call() -> None:
    section = Section(TOKEN, RUNS["claimed"])
    for page in (2, 3, 4):
        section = transitions.call("k", section, request(page), f"call {page}", NOW).state
    assert section.next is not None
    assert section.next.call == call_of(4)


def test_the_next_run_has_the_collected_items_of_all_its_calls_in_order() -> None:
    section = Section(TOKEN, RUNS["claimed"])
    for number, page in enumerate((2, 3, 3)):
        call = Call("index", "collect", {"pages": [page]})
        section = transitions.call("k", section, SectionRequest(call, collect="pages"), f"call {number}", NOW).state
    assert section.next is not None
    assert section.next.call.payload == {"pages": [2, 3, 3]}


def test_a_call_of_another_task_is_refused_while_a_run_is_due() -> None:
    with pytest.raises(OtherTask, match="index/rebuild is due"):
        transitions.call("k", sections("waiting")[0], SectionRequest(Call("index", "collect", {})), "a", NOW)


def test_a_call_without_an_id_that_changes_nothing_leaves_the_section_unchanged() -> None:
    section = Section(TOKEN, RUNS["claimed"], replace(DUE_NOW, latest_at=DUE_NOW.due_at))
    unchanged = transitions.call("k", section, SectionRequest(DUE_NOW.call, id=""), "a", NOW)
    assert unchanged == Decision(section, False)


def test_a_token_is_larger_than_any_token_of_an_expired_record() -> None:
    first = transitions.call("k", Section(), request(), "a", NOW).state
    second = transitions.call("k", Section(), request(), "b", NOW + timedelta(days=8)).state
    assert second.token > first.token


# --- as tasks see it ---


class Index:
    """Deliveries of the task of one key, on the in-memory platform."""

    def __init__(self) -> None:
        self.platform = Platform()
        self.ports = self.platform.ports
        self.seen: list[int] = []

    def call(self, page: int, **options: Any) -> bool:
        return service.call(self.ports, "k", SectionRequest(call_of(page), **options))

    def take(self) -> Effect:
        return self.platform.queue.tasks.pop(0)

    def deliver(self, task: Effect, code: Callable[[], object] = lambda: None) -> None:
        def run(_: SectionRun) -> None:
            self.seen.append(task.payload["page"])
            code()

        service.run(self.ports, Grant.from_context(task.context["section"]), run)


@pytest.fixture
def index() -> Index:
    return Index()


def test_calls_during_a_run_share_the_next_run(index: Index) -> None:
    assert index.call(1)
    index.deliver(index.take(), lambda: [index.call(page) for page in range(2, 50)])
    index.deliver(index.take())
    assert index.seen == [1, 49]
    assert index.platform.queue.tasks == []


def test_a_second_delivery_of_an_ended_run_does_nothing(index: Index) -> None:
    index.call(1)
    task = index.take()
    index.deliver(task)
    index.deliver(task)
    assert index.seen == [1]


def test_a_second_delivery_is_refused_while_the_first_holds_the_lease(index: Index) -> None:
    index.call(1)
    task = index.take()
    with pytest.raises(Unavailable):
        index.deliver(task, lambda: index.deliver(task))
    assert index.seen == [1]


def test_code_that_fails_is_retried_at_once(index: Index) -> None:
    index.call(1)
    task = index.take()
    with pytest.raises(ZeroDivisionError):
        index.deliver(task, lambda: 1 // 0)
    index.deliver(task)
    assert index.seen == [1, 1]


def test_the_commit_that_grants_a_run_contains_its_task(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise Unavailable("the queue is away")

    monkeypatch.setattr(index.platform.queue, "create", refuse)
    index.call(1)
    [record] = [index.platform.record(f"outbox/{id_}") for id_ in index.platform.ids("outbox")]
    assert [effect["task"] for effect in record["tasks"]] == ["rebuild"]


def test_a_problem_ends_the_run_and_grants_the_next(index: Index) -> None:
    def fail() -> None:
        index.call(2)
        raise Problem("permanent")

    index.call(1)
    with pytest.raises(Problem):
        index.deliver(index.take(), fail)
    index.deliver(index.take())
    assert index.seen == [1, 2]


def test_an_idle_record_can_expire_and_a_busy_one_cannot(index: Index) -> None:
    index.call(1)
    busy = index.ports.store.read(path_of("k"))[0].data or {}
    index.deliver(index.take())
    idle = index.ports.store.read(path_of("k"))[0].data or {}
    assert ("idle_since" in busy, "idle_since" in idle) == (False, True)


def test_a_key_that_was_never_called_is_not_found(index: Index) -> None:
    with pytest.raises(NotFound):
        service.get(index.ports, "k")


def test_a_failed_task_is_repeated_with_the_options_of_its_call() -> None:
    grant = Grant("k", GRANT, NOW, "pages", 30)
    repeated = SectionRequest.repeating(grant, Call("index", "collect", {"pages": [1]}), "failure 1")
    assert (repeated.collect, repeated.lease_seconds, repeated.id) == ("pages", 30, "failure 1")
