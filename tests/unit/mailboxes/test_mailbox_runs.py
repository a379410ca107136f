"""A run of a mailbox: the table in the docstring of `machine`, row by row."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import pytest

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Change, Conflict, Must, Snapshot
from signalbox.core.problems import Contended, Unavailable
from signalbox.core.wake_ups import WakeUp, wake_up
from signalbox.mailboxes import machine, service
from signalbox.mailboxes.machine import next_revision
from signalbox.mailboxes.model.messages import Delivery, header_path
from signalbox.mailboxes.storage import Mailbox, header_put, message_put
from tests.unit.operations_platform import OperationsPlatform
from tests.unit.transition_tables import Row, tables

BASE = "objects/Counter~a"
NEXT_WAKE = wake_up(BASE, "counters", "objects")
[ROWS] = tables(machine.__doc__)


class Run:
    """One run of a mailbox that has a message, with a scripted turn."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.world = OperationsPlatform()
        self.store = self.world.ports.store
        self.turns = 0
        self.store.commit([message_put(BASE, "m", {"body": "{}"})])
        if row["when the mailbox is read"] != "no turn has":
            self.write_header()
        self.world.pass_time(1)
        self.at = self.world.now
        self.world.pass_time(1)

    def write_header(self) -> None:
        [header] = self.store.read(header_path(BASE))
        revision = next_revision(0, header.read_time)
        self.store.commit([header_put(header, {}, revision)])

    def read_again(self) -> None:
        """Let a turn read and commit: the header is not new any more."""
        self.world.pass_time(CORE_LIMITS.wake_up_margin_seconds)
        [header] = self.store.read(header_path(BASE))
        revision = next_revision(0, header.read_time)
        self.store.commit([Change(header_path(BASE), {("revision",): revision}, Must.EXIST)])

    def wake(self) -> WakeUp:
        """Return the wake-up of the row."""
        at = self.at
        if self.row["when the mailbox is read"] == "it is before the wake-up's time":
            at = self.world.now + timedelta(seconds=10)
        until = at + timedelta(days=30) if self.row["wake-up"] == "cut short" else at
        return WakeUp(BASE, at, until, of_slot=self.row["wake-up"] == "of a slot")

    def turn(self, _: Mailbox) -> bool:
        """Do as the row's turn does."""
        self.turns += 1
        match self.row["the turn"]:
            case "commits, and has more":
                return self.turns == 1
            case "loses the race" if self.turns == 1:
                raise Conflict("another run was faster")
            case "always loses the race":
                raise Conflict("another run was faster")
        return False

    def outcome(self) -> str:
        """Run, and return what the run did in the words of the table."""
        if "a turn has read after" in self.row["when the mailbox is read"]:
            self.read_again()
        try:
            service.run(self.world.ports, Delivery(self.wake(), "D"), NEXT_WAKE, self.turn)
        except Contended:
            return "Contended"
        except Unavailable:
            return "Unavailable"
        slept = "pauses, " if self.world.slept_seconds else ""
        again = f"{slept}reads again" if self.turns == 2 else "ends"
        return f"{again}, enqueues a wake" if self.world.tasks else again


def ids() -> Iterator[str]:
    for row in ROWS:
        yield ", ".join(row.values())


@pytest.mark.parametrize("row", ROWS, ids=ids())
def test_each_row_of_the_table_holds(row: Row) -> None:
    run = Run(row)
    assert run.outcome() == row["run"]
    assert bool(run.turns) == (row["the turn"] != "-")


def test_the_table_has_each_kind_of_wake_up_and_each_end_of_a_run() -> None:
    assert {row["wake-up"] for row in ROWS} == {"any", "of a slot", "for later", "cut short"}
    assert {row["run"] for row in ROWS} >= {"Unavailable", "Contended", "ends", "reads again"}


def test_a_revision_grows_with_every_turn_whatever_the_clock_says() -> None:
    now = datetime.fromisoformat("2026-01-01T00:00:00Z")
    first = next_revision(0, now)
    assert next_revision(first, now) == first + 1
    assert next_revision(first, now + timedelta(seconds=1)) == first + 1_000_000


def test_a_run_that_comes_early_and_finds_nothing_sees_what_is_posted_before_it_knows_the_time() -> None:
    """A query without results has no time, so one is read after it: here after the end of the wake-up's slot."""
    world = OperationsPlatform()
    store = world.ports.store
    at = world.now + timedelta(seconds=1)
    read = store.read
    found: list[str] = []

    def read_late(*paths: str, **options: Any) -> tuple[Snapshot, ...]:
        if not found:
            store.commit([message_put(BASE, "m", {"body": "{}"})])
            world.pass_time(2)
        return read(*paths, **options)

    def turn(mailbox: Mailbox) -> bool:
        found.extend(message.id for message in mailbox.waiting)
        return False

    with mock.patch.object(store, "read", read_late):
        service.run(world.ports, Delivery(WakeUp(BASE, at, at, of_slot=True), "1"), NEXT_WAKE, turn)
    assert found == ["m"]
