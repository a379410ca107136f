"""A turn of an object: the table in the docstring of `machine.turns`, row by row."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.problems import Problem
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.objects.limits import LIMITS
from signalbox.objects.machine import turns
from signalbox.objects.machine.turns import Turn
from signalbox.objects.model import (
    Applied,
    CallPlace,
    CallRecord,
    Kind,
    Message,
    Post,
    Sent,
    call_on_result,
    continuation_message,
    deletion,
    method_call,
)
from tests.unit.transition_tables import Row, tables

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OWN, OTHER = ObjectAddress("Counter", "a"), ObjectAddress("Counter", "b")
THEN, SET_LATER = Call("shop", "then", {}), Call("shop", "set_later", {})
SENT_TASK, SENT_POST = Call("shop", "sent", {}), Post(OTHER, method_call("add", {}, receipt=False))
[ROWS] = tables(turns.__doc__)

TARGETS = {
    "the target has an outcome": CallRecord(method_call("open", {}), CallOutcome(7)),
    "the target was forwarded": CallRecord(method_call("open", {}), forwarded=CallPlace(OTHER, "there")),
    "the target is pending": CallRecord(method_call("open", {})),
    "the target keeps forty": CallRecord(
        method_call("open", {}), held=tuple(str(number) for number in range(LIMITS.call_followers_max))
    ),
    "the result is an object": CallRecord(method_call("open", {}), CallOutcome(object=OTHER)),
    "the result is not an object": CallRecord(method_call("open", {}), CallOutcome(7)),
    "the target failed": CallRecord(method_call("open", {}), CallOutcome.from_problem(Problem("it failed"))),
}


def message_of(row: Row) -> Message:
    """Return the row's message."""
    not_after = NOW - timedelta(seconds=1) if row["if"] == "after its time limit" else None
    match row["message"]:
        case "delete":
            return replace(deletion(), then=(THEN,))
        case "then":
            return replace(continuation_message("target", SET_LATER), then=(THEN,))
        case "on result":
            return call_on_result("target", "add", {}, then=(THEN,))
    return method_call("add", {}, then=(THEN,), not_after=not_after)


def apply_of(condition: str) -> Applied:
    """Return the result of applying the method of the row."""
    if condition == "the method raises":
        return Applied("before", CallOutcome.from_problem(Problem("no")))
    if condition == "it sends more than a turn may":
        return Applied("after", CallOutcome(1), Sent(tasks=[SENT_TASK] * (MAILBOXES_LIMITS.turn_tasks_max + 1)))
    return Applied("after", CallOutcome(1), Sent([SENT_POST], [SENT_TASK]))


@dataclass
class Taken:
    """A turn that has taken the row's message, and what it says in the words of the table."""

    turn: Turn
    row: Row

    @property
    def call(self) -> CallRecord:
        return self.turn.calls["m"]

    @property
    def record(self) -> str:
        if "m" in self.turn.held:
            return "held"
        return "forwarded" if self.call.forwarded else "done"

    @property
    def outcome(self) -> str:
        if (outcome := self.call.outcome) is None:
            return "-"
        if outcome.error is not None:
            return "its error" if outcome.error["type"] == Problem.slug() else str(outcome.error["type"])
        return "result" if outcome.result is not None else "no result"

    def sends(self) -> set[str]:
        tasks = [_task(task) for task in self.turn.tasks]
        posts = [_post(self.row, posted.address, posted.message) for posted in self.turn.posted]
        target = self.turn.calls.get("target", CallRecord(method_call("open", {})))
        before = TARGETS.get(self.row["if"], target)
        held = {"the target keeps the message"} if len(target.held) > len(before.held) else set()
        return {*tasks, *posts, *held}


def _task(task: Effect) -> str:
    outcome = task.context.get("outcome", {})
    if task.task == "sent":
        return "what it sent"
    if task.task == "then":
        return "its continuations"
    return f"its task, with {outcome['error']['type']}" if "error" in outcome else "its task"


def _post(row: Row, address: ObjectAddress, message: Message) -> str:
    assert address == OTHER
    if row["message"] == "call":
        return "what it sent"
    names = {Kind.THEN: "the message", Kind.CALL: "the call", Kind.ON_RESULT: "the call on its result"}
    return f"{names[message.kind]}, to that object"


def taken(row: Row, message: Message) -> Taken:
    """Apply the row's message in a separate turn."""
    calls = {"m": CallRecord(message)}
    if target := TARGETS.get(row["if"]):
        calls["target"] = target
    turn = Turn(OWN, "before", 1, NOW, calls)
    gave_up = row["if"] == "started ten times"
    assert turn.take("m", NOW, lambda *_: apply_of(row["if"]), gave_up=gave_up)
    return Taken(turn, row)


def ids() -> list[str]:
    return [f"{row['message']}, {row['if']}" for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=ids())
def test_each_row_of_the_table_holds(row: Row) -> None:
    kinds = ("call", "delete", "on result") if row["message"] == "others" else (row["message"],)
    for kind in kinds:
        one = taken(row, message_of({**row, "message": kind}))
        assert (one.record, one.outcome) == (row["record"], row["outcome"])
        continuations = {"its continuations"} if row["record"] == "done" else set()
        assert one.sends() == {row["sends"].removeprefix("-, ")} - {"-"} | continuations


def test_the_table_has_every_kind_of_message() -> None:
    assert {row["message"].replace(" ", "_") for row in ROWS} == {"others", *(kind.value for kind in Kind)}


def test_a_call_that_ends_lets_the_calls_wait_again_that_it_holds_and_ends_the_turn() -> None:
    calls = {"m": CallRecord(method_call("open", {}), held=("h1", "h2")), "n": CallRecord(method_call("add", {}))}
    turn = Turn(OWN, "before", 1, NOW, calls)
    assert turn.take("m", NOW, lambda *_: Applied("after", CallOutcome(1)))
    assert list(turn.resumed) == ["h1", "h2"]
    assert turn.resumed["h1"] < turn.resumed["h2"]
    assert not turn.take("n", NOW, lambda *_: Applied("after", CallOutcome(1)))


def test_forwarded_calls_and_their_wake_ups_count_for_the_size_of_a_turn() -> None:
    count = MAILBOXES_LIMITS.turn_tasks_max + 1
    results = {f"t{n}": TARGETS["the result is an object"] for n in range(count)}
    calls = results | {f"m{n}": CallRecord(call_on_result(f"t{n}", "add", {})) for n in range(count)}
    turn = Turn(OWN, "before", 1, NOW, calls)
    taken = [turn.take(f"m{n}", NOW, lambda *_: apply_of("")) for n in range(count)]
    assert (taken.count(True), len(turn.posted)) == (count - 1, count - 1)
