"""When a task is given up, and how its starts are counted."""

import pytest

from signalbox.core.deliveries import Delivered
from signalbox.core.error_notes import record_path
from signalbox.core.limits import LIMITS
from signalbox.core.problems import Unavailable
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import Plain
from signalbox.tasks.service import starts
from tests.unit.operations_platform import OperationsPlatform


@pytest.mark.parametrize("starts", [1, 2, 3])
def test_a_task_may_be_started_up_to_its_limit(starts: int) -> None:
    assert RetryLimits(attempts_max=3).allow(Start(starts))


def test_a_start_beyond_the_limit_gives_the_task_up() -> None:
    assert not RetryLimits(attempts_max=3).allow(Start(4))


@pytest.mark.parametrize(
    ("executions", "retries", "is_repeated"), [(0, 0, False), (1, 0, True), (0, 1, True), (2, 5, True)]
)
def test_a_delivery_is_a_repeat_if_either_header_counts_another_before_it(
    executions: int, retries: int, is_repeated: bool
) -> None:
    assert Delivered("op", Plain(), executions, retries).is_repeated is is_repeated


def test_each_operation_has_a_record_of_its_own() -> None:
    assert record_path("op") == "attempts/op"


def test_a_task_that_this_code_does_not_know_is_retried_for_some_minutes() -> None:
    world = OperationsPlatform()
    first, repeated = Delivered("op", Plain()), Delivered("op", Plain(), 1, 1)
    for delivered in (first, repeated, repeated):
        with pytest.raises(Unavailable):
            starts.wait_for_newer_code(world.ports, delivered, lambda: False)
    assert world.record(record_path("op"))["starts"] == 0
    world.pass_time(LIMITS.deployment_seconds + 1)
    starts.wait_for_newer_code(world.ports, repeated, lambda: False)
