"""Runs that fail and are retried in place show what the pages say, for random programs, schedules and faults."""

from collections import Counter

import pytest

from tests.simulation.worlds.retried_trees.world import Judged

REACHED = (
    "retried",
    "repeated",
    "nothing-failed",
    "stuck",
    "tail-has-effects",
    "does-not-fit",
    "holds-lock",
    "parent-moved-on",
    "no-entry",
    "not continued",
)


@pytest.mark.slow
def test_retried_runs_show_what_the_pages_say() -> None:
    reached: Counter[str] = Counter()
    for seed in range(1_000):
        judged = Judged(seed)
        judged.play()
        reached.update(judged.reached)
    assert not [what for what in REACHED if reached[what] < 3], reached
