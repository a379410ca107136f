"""Attempts of a task and its failure: the tables in the docstrings of `machine`, row by row."""

import pytest

from signalbox.core.deliveries import Delivered
from signalbox.core.error_notes import record_path
from signalbox.core.ports import SERVER_TIME, Put
from signalbox.core.problems import GaveUp, NotFound, Problem, Unavailable
from signalbox.tasks.machine import attempts
from signalbox.tasks.machine import failures as machine_failures
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import Context, Plain
from signalbox.tasks.model.failures import failure_path
from signalbox.tasks.problems import Gone, StillRetried
from signalbox.tasks.service import failures, starts
from tests.unit.operations_platform import OperationsPlatform
from tests.unit.transition_tables import Row, tables

[ATTEMPTS], [FAILURES] = tables(attempts.__doc__), tables(machine_failures.__doc__)
ATTEMPTS_MAX = 2
OPERATION = "op"
COMMANDS = ("a delivery gives up", "retry", "delete")
REFUSALS: dict[str, type[Exception]] = {"NotFound": NotFound, "StillRetried": StillRetried, "Gone": Gone}


def delivery(deliveries: int = 0) -> Delivered[Context]:
    return Delivered(OPERATION, Plain(), deliveries, deliveries, "shop", "work")


# --- attempts ---


class DeliveredRow:
    """A delivery of a task whose code does as the row says."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.world = OperationsPlatform()
        self.store = self.world.ports.store
        self.ran = False
        self.answer = "acknowledged"
        if row["counted before"].isdecimal() and (before := int(row["counted before"])):
            self.store.commit([Put(record_path(OPERATION), {"starts": before, "errors": 0})])

    def code(self, _: Start) -> None:
        self.ran = True
        if self.row["the code"] == "raises a problem":
            raise Problem("no")
        if self.row["the code"] == "raises another error":
            raise ZeroDivisionError

    def run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(*_: object) -> None:
            raise Unavailable("the store is away")

        if self.row["counted before"] == "store is away":
            monkeypatch.setattr(self.world.store, "commit", away)
        deliveries = 0 if self.row["delivery"] == "first" else 3
        try:
            starts.start(self.world.ports, delivery(deliveries), RetryLimits(ATTEMPTS_MAX), self.code)
        except Problem:
            self.answer = "refused"
        except Exception:  # noqa: BLE001 - whatever it is, the queue delivers the task again
            self.answer = "retried"

    def written(self) -> str:
        """Return the writes, in the words of the table."""
        counted = self.world.record(record_path(OPERATION)) or {}
        starts = int(counted.get("starts", 0))
        starts = 0 if str(starts) == self.row["counted before"] else starts
        parts = [
            *([f"{starts} start{'s' if starts > 1 else ''}"] if starts else []),
            *(["the error"] if "error" in counted else []),
            *(["a failure"] if self.world.record(failure_path(OPERATION)) else []),
        ]
        return ", ".join(parts) or "-"


@pytest.mark.parametrize("row", ATTEMPTS, ids=lambda row: ", ".join(list(row.values())[:3]))
def test_each_row_of_the_table_of_attempts_holds(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    delivered = DeliveredRow(row)
    delivered.run(monkeypatch)
    monkeypatch.undo()
    assert delivered.ran == (row["the code"] != "is not started")
    assert (delivered.written(), delivered.answer) == (row["written"], row["then"])


# --- failures ---


def in_state(state: str) -> OperationsPlatform:
    """Return a platform with a failure in a state of the table."""
    world = OperationsPlatform()
    if state == "retrying":
        note = {"function": "shop", "task": "work", "attempt": 1, "error": "E", "traceback": "", "trace": ""}
        counted = {"starts": 1, "errors": 1, "pause_seconds": 0.0, "erred_at": SERVER_TIME}
        world.ports.store.commit([Put(record_path(OPERATION), note | counted)])
    elif state != "none":
        failures.keep(world.ports, delivery(), Start(1), Problem("no"))
    if state == "retried":
        failures.retry(world.ports, OPERATION)
        world.tasks.clear()
    if state == "deleted":
        failures.delete(world.ports, OPERATION)
    return world


def command(world: OperationsPlatform, name: str) -> None:
    match name:
        case "a delivery gives up":
            failures.keep(world.ports, delivery(1), Start(3), GaveUp("Gave up after 2 attempts."))
        case "retry":
            failures.retry(world.ports, OPERATION)
        case _:
            failures.delete(world.ports, OPERATION)


def state_of(world: OperationsPlatform) -> str:
    record = world.record(failure_path(OPERATION))
    return str(record["state"]) if record else "none"


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("row", FAILURES, ids=lambda row: row["state"])
def test_each_row_of_the_table_of_failures_holds(row: Row, name: str) -> None:
    world = in_state(row["state"])
    before = world.record(failure_path(OPERATION))
    expected, _, task = row[name].partition(", ")
    if refusal := REFUSALS.get(expected):
        with pytest.raises(refusal):
            command(world, name)
        assert world.record(failure_path(OPERATION)) == before
        return
    command(world, name)
    assert state_of(world) == expected
    assert [effect.task for effect in world.tasks] == (["work"] if task else [])


def test_the_tables_have_every_state_and_every_end_of_the_code() -> None:
    assert [row["state"] for row in FAILURES] == ["none", "retrying", "failed", "retried", "deleted"]
    assert {row["the code"] for row in ATTEMPTS} == {
        "returns",
        "raises a problem",
        "raises another error",
        "is not started",
    }
