"""How long a grant waited for its task is noted in that task's line, for the objective "grants within 10 s"."""

import pytest

from signalbox.core.calls import Call
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from tests.unit.operations_platform import OperationsPlatform


@pytest.fixture
def world() -> OperationsPlatform:
    made = OperationsPlatform()
    settings.put(made.ports, "s", SemaphoreSettings(1, 60))
    return made


def granted(world: OperationsPlatform, delay_seconds: float = 0) -> Granted:
    call = Call("philosophers", "eat", {}, delay_seconds=delay_seconds)
    waits.wait(world.ports, "s", WaitRequest("a", call))
    return Granted.from_context([task for task in world.tasks if task.task == "eat"][-1].context["lease"])


def test_a_first_claim_notes_the_time_since_its_grant_and_a_repeated_one_nothing(world: OperationsPlatform) -> None:
    lease = granted(world)
    world.pass_time(7)
    leases.claim(world.ports, lease)
    [note] = world.log.notes
    assert note["grant_seconds"] == pytest.approx(7, abs=0.1)
    leases.claim(world.ports, lease)
    assert len(world.log.notes) == 1


def test_a_delay_that_was_asked_for_is_not_late(world: OperationsPlatform) -> None:
    lease = granted(world, delay_seconds=20)
    world.pass_time(21)
    leases.claim(world.ports, lease)
    assert world.log.notes[0]["grant_seconds"] == pytest.approx(1, abs=0.1)


def test_a_grant_that_expired_unclaimed_is_noted_as_late(world: OperationsPlatform) -> None:
    lease = granted(world)
    world.pass_time(LIMITS.claim_seconds + 5)
    assert leases.claim(world.ports, lease) is None
    assert world.log.notes[-1]["grant_seconds"] == pytest.approx(LIMITS.claim_seconds + 5, abs=0.1)
