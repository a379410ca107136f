"""500 yokes a second on one item, in virtual time: no record is written more often than Firestore allows.

Firestore sustains about one write a second on a record, and 500 a second where indexed values grow. The latencies are
those of `virtual_time`; nothing here depends on how fast this machine is.
"""

from itertools import pairwise

import pytest

from signalbox.core.ports import Put, Snapshot
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.exact_sums import Value
from signalbox.standings.model.yokes import COUNTED, YOKES, StandingKey, Yoke, YokeKey
from signalbox.standings.service import reads
from tests.unit.standings.virtual_time import VirtualTime

A_SECOND = 500
WINDOW_SECONDS = 10
ITEM = StandingKey("item", "x")
LAG_SECONDS_MAX = 3.0
RACES_LOST_MAX = 0.02
"""Of the commits of a rush: those in the first moments, when the standing was quiet, and of fold runs that overlap."""


class Rush(VirtualTime):
    """Yokes of one item by users of their own, evenly spread, and what came of them."""

    def __init__(self) -> None:
        super().__init__()
        self.on_write = self._note
        self.counted_at: list[float] = []
        self.lags: list[float] = []
        self.waiting: list[int] = [0]
        self._added = 0

    def yoke(self, second: float, user: str, value: Value = None) -> None:
        """Create a yoke at a time."""
        key = YokeKey(user, ITEM.id)
        self.at(second, lambda: self.ports.store.commit([Put(key.path, Yoke(key, value).to_record())]))

    def _note(self, path: str, after: Snapshot) -> None:
        if path.startswith(f"{COUNTED}/"):
            self.counted_at.append(self.second)
        if path.startswith(f"{ITEM.adjustments}/"):
            self.waiting.append(self.waiting[-1] + (1 if after.data is not None else -1))
        if path == ITEM.path and after.data is not None:
            self.lags += [self.second - at for at in self.counted_at[self._added : self._added + 1]]
            self._added = after.data["yokes"]


def rush(seconds: int, value: Value = None) -> Rush:
    """Run a rush until nothing is left to do."""
    made = Rush()
    for index in range(A_SECOND * seconds):
        made.yoke(index / A_SECOND, f"u{index}", value)
    made.run()
    return made


@pytest.fixture(
    scope="module", params=[pytest.param(12, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.marathon)]
)
def hot(request: pytest.FixtureRequest) -> tuple[Rush, int]:
    return rush(request.param), request.param


def test_nothing_of_a_rush_is_lost(hot: tuple[Rush, int]) -> None:
    made, seconds = hot
    shown = reads.get_standing(made.reliable_ports(), ITEM)
    assert (shown.standing.tally.count, shown.pending) == (A_SECOND * seconds, 0)


def test_no_record_is_written_more_than_once_a_second(hot: tuple[Rush, int]) -> None:
    made, _ = hot
    most, path = made.writes.most(WINDOW_SECONDS)
    assert (path, most <= WINDOW_SECONDS + 1) == (ITEM.path, True), most
    written = made.writes.seconds[ITEM.path]
    assert len(written) > 5, "the standing follows during the rush"
    assert sum(second < LIMITS.fold_slot_seconds / 2 for second in _gaps(written)) <= 1, "the first fold run"


def _gaps(written: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(written)]


def test_no_range_of_growing_index_entries_takes_more_writes_than_there_are_yokes(hot: tuple[Rush, int]) -> None:
    """The index of the times when yokes began grows at its end: one entry a yoke, written once."""
    made, seconds = hot
    for collection in (YOKES, COUNTED):
        written = [times for path, times in made.writes.seconds.items() if path.startswith(f"{collection}/")]
        assert len(written) == A_SECOND * seconds
    assert sum(len(times) for times in written) <= 1.05 * len(written), "repeated events and lost races write nothing"


def test_a_standing_is_some_seconds_behind_during_a_rush(hot: tuple[Rush, int]) -> None:
    assert 0 < max(hot[0].lags) < LAG_SECONDS_MAX


def test_adjustments_rise_with_a_rush_and_are_gone_after_it(hot: tuple[Rush, int]) -> None:
    made, _ = hot
    assert A_SECOND * LIMITS.fold_slot_seconds / 2 < max(made.waiting) < 2 * A_SECOND * LIMITS.fold_slot_seconds
    assert made.waiting[-1] == 0


def test_a_rush_on_one_item_does_not_slow_other_items(hot: tuple[Rush, int]) -> None:
    """Hardly a visit loses a race, none is retried, and there is a fold run a second for the item."""
    made, seconds = hot
    assert made.conflicts <= RACES_LOST_MAX * A_SECOND * seconds
    assert made.retries == 0
    assert 0 < made.folds[ITEM.text] <= seconds + 2


def test_after_a_rush_the_standing_is_written_directly_again() -> None:
    made = rush(3)
    folds = made.folds[ITEM.text]
    made.yoke(made.second + 2 * LIMITS.standing_quiet_seconds, "last")
    made.run()
    assert made.folds[ITEM.text] == folds
    assert reads.get_standing(made.reliable_ports(), ITEM).standing.tally.count == 3 * A_SECOND + 1


def test_a_rush_of_ratings_keeps_the_extremes() -> None:
    made = Rush()
    for index in range(A_SECOND):
        made.yoke(index / A_SECOND, f"u{index}", 1 + index % 5)
    made.run()
    standing = reads.get_standing(made.reliable_ports(), ITEM).standing
    assert (standing.tally.count, standing.average, standing.min, standing.max) == (A_SECOND, 3.0, 1, 5)
    assert made.writes.most(WINDOW_SECONDS)[0] <= WINDOW_SECONDS + 1
