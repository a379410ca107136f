"""The table of permits in the docstring of the machine, run row by row."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox import Function, Lease, Problem, semaphore
from signalbox.semaphores.model.leases import Granted, parse_lease_id
from signalbox.tasks.machine import permit_release
from signalbox.tasks.machine.waits import next_wait_id
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.transition_tables import Row, tables

[ATTEMPTS] = tables(permit_release.__doc__)
FLAGS = {"yes": (True,), "no": (False,), "any": (False, True)}
ENDS: dict[str, Exception | None] = {
    "a return": None,
    "a problem": Problem("no"),
    "another error": RuntimeError("away"),
}


def cases() -> Iterator[Any]:
    for row in ATTEMPTS:
        for on_return in FLAGS[row["release_on_return"]]:
            for on_failure in FLAGS[row["release_on_failure"]]:
                flags = {"release_on_return": on_return, "release_on_failure": on_failure}
                yield pytest.param(row, flags, id=f"{row['an attempt ends with']}, {on_return}, {on_failure}")


@pytest.mark.parametrize(("row", "flags"), list(cases()))
def test_the_permit_of_an_attempt_is_released_or_kept(harness: Harness, row: Row, flags: dict[str, Any]) -> None:
    app = Function("press")

    @app.task
    def stamp(lease: Lease) -> None:
        if error := ENDS[row["an attempt ends with"]]:
            raise error

    harness.add(app)
    press = semaphore("press")
    press.ensure(permits=1, lease_seconds=600)
    press.wait(stamp.call(), **flags)
    task = harness.take("stamp")
    press.wait(stamp.call(), id="other")
    is_retried = harness.deliver_task(task).status == 500
    shown = harness.get("semaphores/press").json
    [holder] = [parse_lease_id(lease["id"])[0] for lease in shown["leases"]]
    waiters = [waiter["id"] for waiter in shown["waiters"]]
    outcome = row["the permit is"]
    assert is_retried == outcome.startswith("kept for the retry")
    assert (holder == "other") == outcome.startswith("released")
    next_id = next_wait_id(Granted.from_context(task.context["lease"]))
    assert (next_id in waiters) == (outcome == "released after the next wait is made")


def test_every_way_to_end_has_a_row() -> None:
    assert {row["an attempt ends with"] for row in ATTEMPTS} == ENDS.keys()
