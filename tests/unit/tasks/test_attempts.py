"""When a task is given up, and how its starts are counted."""

import pytest

from signalbox.tasks.model import Attempt, RetryLimits, Start


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
    assert Attempt("op", {}, executions, retries).is_repeated is is_repeated


def test_each_operation_has_a_record_of_its_own() -> None:
    assert Attempt("op", {}).record_path == "attempts/op"
