"""The context of a task is parsed once, and no other code reads it by the names of its members."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from signalbox.batches.model.groups import Group
from signalbox.batches.model.units import Completion, Unit
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Backoff
from signalbox.core.problems import BadTaskEnvelope
from signalbox.mailboxes.model.outcomes import Outcome
from signalbox.tasks.model import contexts
from signalbox.tasks.model.contexts import (
    Context,
    OfCompletion,
    OfLease,
    OfOutcome,
    OfUnit,
    Plain,
    context_of,
    is_of_completion,
    parsed,
)
from tests.unit.transition_tables import Row, tables

LIBRARY = Path(__file__).parents[3] / "shared" / "signalbox"
MODEL = LIBRARY / "tasks" / "model"
"""The room of the parser, and of what is read from records."""
ON_THE_WAY = ("adapters/http/task_deliveries.py", "flows/tasks", "function", "mailboxes", "objects/http.py", "tasks")
"""What a delivery passes: from the request to the code of its task."""

UNIT = {"batch": "b", "incarnation": "i", "index": 3, "attempt": 0, "page": 0, "offset": 3, "page_units": 9}
LEASE = {"semaphore": "s", "id": "w~1", "token": 1, "ends_at": "2026-01-01T00:00:00Z"}
GROUP = Group("b", "i", 0, 0, 0, 9, 3, 0).to_record()
RUN = {"key": "k", "token": 1, "ends_at": "2026-01-01T00:00:00Z", "collect": "", "lease_seconds": 60}
EXAMPLES: dict[str, dict[str, Any]] = {
    "group": {"group": GROUP},
    "step": {"step": {"flow": "flows/a/1"}},
    "unit": {"unit": UNIT},
    "lease, with a unit": {"lease": LEASE | {"unit": json.dumps(UNIT)}},
    "lease": {"lease": LEASE},
    "section": {"section": RUN},
    "batch": {"batch": {"id": "b", "state": "completed", "size": 1, "succeeded": 1, "failed": 0}},
    "outcome": {"outcome": {"called": {"class": "A", "key": "k"}, "call": "c", "result": 1}},
    "scheduled": {"scheduled": "2026-01-01T00:00:00Z"},
    "reason, event, none": {"reason": "deadline"},
}
[KINDS] = tables(contexts.__doc__)


@pytest.mark.parametrize("row", KINDS, ids=lambda row: str(row["member"]))
def test_each_row_of_the_table_of_contexts_holds_and_keeps_the_members(row: Row) -> None:
    members = EXAMPLES[row["member"]]
    context = context_of(members)
    assert type(context).__name__ == row["parsed"]
    assert context.members == members


def test_every_example_has_a_row_and_every_kind_an_example() -> None:
    assert [row["member"] for row in KINDS] == list(EXAMPLES)
    assert {type(context_of(members)) for members in EXAMPLES.values()} == set(Context.__args__)


def subject(members: dict[str, Any]) -> object:
    context = context_of(members)
    assert isinstance(context, OfUnit | OfCompletion | OfOutcome)
    return context.subject


def test_a_context_has_the_subject_that_its_task_receives() -> None:
    assert subject(EXAMPLES["unit"]) == subject(EXAMPLES["lease, with a unit"]) == Unit("b", 3, 0)
    assert subject(EXAMPLES["batch"]) == Completion("b", "completed", 1, 1, 0)
    assert subject(EXAMPLES["outcome"]) == Outcome({"class": "A", "key": "k"}, "c", 1)
    assert is_of_completion(EXAMPLES["batch"])
    assert not is_of_completion(EXAMPLES["outcome"])


def test_a_subject_of_a_newer_release_is_read_without_what_it_has_in_addition() -> None:
    newer = EXAMPLES["batch"]["batch"] | {"color": "red"}
    assert subject({"batch": newer}) == Completion("b", "completed", 1, 1, 0)


@pytest.mark.parametrize("member", ["lease", "section", "unit"])
@pytest.mark.parametrize("value", [{}, {"index": 1}, "w~1", None])
def test_a_context_that_lacks_a_part_is_refused(member: str, value: object) -> None:
    with pytest.raises(BadTaskEnvelope):
        context_of({member: value})


def test_the_context_of_an_ended_wait_has_its_reason_and_that_of_an_event_says_so() -> None:
    assert context_of({"reason": "deadline"}) == Plain({"reason": "deadline"}, "deadline")
    assert context_of({"event": "e"}) == Plain({"event": "e"}, is_event=True)


def test_a_delivery_that_continues_another_task_has_its_operation_and_counts_its_grants() -> None:
    lease = LEASE | {"resumes": "first", "resumed": 2}
    delivered = parsed(Delivered("own", {"lease": lease}, 0, 1, backoff=Backoff(1, 60, 3)))
    assert (delivered.operation, delivered.executions, delivered.retries) == ("first", 2, 3)
    assert delivered.pause_seconds == 8
    assert isinstance(delivered.context, OfLease)


def test_a_delivery_that_continues_no_other_task_stays_as_it_is() -> None:
    delivered = parsed(Delivered("own", {"unit": UNIT}, 1, 1))
    assert (delivered.operation, delivered.executions, delivered.retries) == ("own", 1, 1)


# --- reads by key ---


def reads_by_key(source: str) -> list[str]:
    """Return the reads of a context, of its members or of a part of it by the name of a member."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if _reads_by_key(node)]


def _reads_by_key(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(value=whole, slice=ast.Constant(value=str())):
            return _is_of_a_context(whole)
        case ast.Call(func=ast.Attribute(value=whole, attr="get" | "pop"), args=[ast.Constant(value=str()), *_]):
            return _is_of_a_context(whole)
        case ast.Call(func=ast.Attribute(value=whole, attr="keys" | "items")):
            return _is_of_a_context(whole)
        case ast.Compare(left=ast.Constant(), ops=[ast.In() | ast.NotIn()], comparators=[whole]):
            return _is_of_a_context(whole)
    return False


def _is_of_a_context(whole: ast.expr) -> bool:
    match whole:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in ("context", "members", "granted", "record", "lease", "unit", "section", "group", "step")
        case ast.Subscript(value=outer):
            return _is_of_a_context(outer)
    return False


def test_no_code_but_the_parser_reads_a_context_by_key() -> None:
    paths = [path for place in ON_THE_WAY for path in [LIBRARY / place, *(LIBRARY / place).rglob("*.py")]]
    sources = {path: path.read_text("utf-8") for path in paths if path.suffix == ".py" and path.parent != MODEL}
    assert len(sources) > 40
    found = {str(path.relative_to(LIBRARY)): reads for path, text in sources.items() if (reads := reads_by_key(text))}
    assert found == {}


def test_a_read_by_key_is_found() -> None:
    for read in (
        'attempt.context["lease"]',
        'granted["id"]',
        'record.get("rate")',
        'x.context["a"]["b"]',
        '"a" in members',
    ):
        assert reads_by_key(read)
    assert reads_by_key('payload["flow"]') == []
    assert reads_by_key((MODEL / "contexts.py").read_text("utf-8"))
