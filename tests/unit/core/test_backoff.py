"""The pause before the next delivery is that of the queue: as the local Cloud Tasks computes it, after any attempt."""

import pytest

from signalbox.core.effects import NO_BACKOFF, Backoff
from signalbox_tools.local.cloud_tasks.queue_rules import RetryPolicy


@pytest.mark.parametrize("attempt", [1, 2, 3, 4, 5, 9, 40])
@pytest.mark.parametrize(("least", "most", "doublings"), [(0.2, 60, 8), (10, 300, 3), (1, 1, 0)])
def test_the_pause_is_that_of_cloud_tasks(attempt: int, least: float, most: float, doublings: int) -> None:
    policy = RetryPolicy(-1, 0, least, most, doublings)
    assert Backoff(least, most, doublings).pause_seconds(attempt) == policy.backoff_seconds(attempt)


def test_a_queue_that_is_not_known_has_no_pause() -> None:
    assert NO_BACKOFF.pause_seconds(7) == 0
