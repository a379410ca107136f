"""What yokes and standings cost, to the last round trip: these figures may only fall."""

from collections.abc import Callable

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.declarations import Declaration
from signalbox.standings.model.yokes import StandingKey, Yoke, YokeKey
from signalbox.standings.requests import BoardRequest, RankRequest
from signalbox.standings.service import declarations, ranks, reads, yokes
from signalbox.testing.indexed_store import IndexedStore
from signalbox.testing.replaced_limits import replaced
from tests.unit.cost_table import row_cost, total
from tests.unit.standings.standings_platform import StandingsPlatform

TEA = StandingKey("item", "tea")


@pytest.fixture
def world() -> StandingsPlatform:
    return StandingsPlatform()


def busy(world: StandingsPlatform, yokes_count: int) -> None:
    """Bring an item some yokes at once, by users of their own."""
    for index in range(yokes_count):
        world.yoke(f"u{index}", "tea", index)


def test_putting_a_yoke(world: StandingsPlatform) -> None:
    def put(value: int) -> Callable[[], object]:
        return lambda: yokes.put_yoke(world.ports, Yoke(YokeKey("ann", "tea"), value))

    assert world.cost_of(put(4)) == row_cost("standings", "put")
    assert world.cost_of(put(4)) == row_cost("standings", "put_again")
    assert world.cost_of(put(5)) == row_cost("standings", "put_changed")


def test_deleting_a_yoke(world: StandingsPlatform) -> None:
    assert world.cost_of(lambda: world.delete_yoke("ann", "tea")) == row_cost("standings", "delete")


def test_counting_a_yoke_of_a_quiet_item_and_user(world: StandingsPlatform) -> None:
    assert world.yoke("ann", "tea", 4) == row_cost("standings", "event", s=2)


def test_counting_a_yoke_of_a_declared_kind(world: StandingsPlatform) -> None:
    declarations.declare(world.ports, "fresh", Declaration(("fresh",)))
    assert world.yoke("ann", "tea", 4, fresh=True) == row_cost("standings", "event", "event_kinds", s=3)


def test_counting_a_yoke_that_was_an_extreme(world: StandingsPlatform) -> None:
    for user in "abc":
        world.yoke(user, "tea", ord(user))
        world.rest()
    changed = world.yoke("a", "tea", 500)
    assert changed == total(
        row_cost("standings", "event", "event_extreme", s=2, n=3), row_cost("standings", "event_extreme", n=1)
    )


def test_an_event_that_comes_again(world: StandingsPlatform) -> None:
    world.yoke("ann", "tea")
    assert world.count("ann", "tea") == row_cost("standings", "event_again")


def test_counting_a_yoke_of_a_busy_item(world: StandingsPlatform) -> None:
    busy(world, 2)
    assert world.yoke("ann", "tea", 4) == row_cost("standings", "event_busy", s=2, b=1)


def test_counting_yokes_of_a_busy_item_together(world: StandingsPlatform) -> None:
    busy(world, 2)
    users = [f"v{index}" for index in range(LIMITS.visits_together_max)]
    for user in users:
        world.put_yoke(user, "tea", 4)
    further = (row_cost("standings", "event_together", s=2, c=1) for _ in users[1:])
    cost = world.count_together(*((user, "tea") for user in users))
    assert cost == total(row_cost("standings", "event_busy", s=2, b=1), *further)
    assert world.adjustments("item", "tea") == 2


def test_a_fold_run_of_a_hundred_adjustments(world: StandingsPlatform) -> None:
    busy(world, 101)
    assert len(world.tasks) == 1
    assert world.run_task(world.tasks[0]) == row_cost("standings", "fold", n=100)


def test_a_fold_run_of_yokes_without_values_asks_for_no_extremes(world: StandingsPlatform) -> None:
    for index in range(101):
        world.yoke(f"u{index}", "tea")
    assert world.run_task(world.tasks[0]) == row_cost("standings", "fold_likes", n=100)


def test_a_fold_run_of_several_pages_writes_the_standing_once(world: StandingsPlatform) -> None:
    """Each full page leaves one adjustment with its sum; the last page is what is left, with those."""
    busy(world, 91)
    with replaced(fold_page_max=40):
        cost = world.run_task(world.tasks[0])
    # the writes: two sums, and the standing
    assert cost == row_cost("standings", "fold", "fold_page", "fold_page", n=12, m=40)
    assert world.standing("item", "tea")["count"] == 91


def test_reading_a_standing(world: StandingsPlatform) -> None:
    world.yoke("ann", "tea")
    assert world.cost_of(lambda: reads.get_standing(world.ports, TEA)) == row_cost("standings", "get")


def test_a_leaderboard_and_a_rank(world: StandingsPlatform) -> None:
    for item in "abcde":
        world.yoke(f"user of {item}", item)
    board = BoardRequest("item", "count", 3, "")
    assert world.cost_of(lambda: ranks.leaderboard(world.ports, board)) == row_cost("standings", "leaderboard", n=3)
    ranked = RankRequest(StandingKey("item", "c"), "count", 0)
    assert world.cost_of(lambda: ranks.rank(world.ports, ranked)) == row_cost("standings", "rank")


def test_no_query_needs_a_composite_index(world: StandingsPlatform) -> None:
    world.ports = type(world.ports)(IndexedStore(world.store, ()), world, world, world)
    busy(world, 5)
    world.fold()
    world.rest()
    world.unyoke("u0", "tea")
    ranked = RankRequest(TEA, "average", 3)
    assert ranks.rank(world.ports, ranked).rank == 1
    assert ranks.leaderboard(world.ports, BoardRequest("item", "sum", 2, "")).standings


def test_a_night_that_finds_nothing(world: StandingsPlatform) -> None:
    """Three reads a yoke, and again for its record; three a standing, and one for each of its yokes."""
    for user in "abc":
        world.yoke(user, "tea", 1)
        world.rest()
    reads.begin_walk(world.ports, "night")
    yokes_page, counted_page, items, users = (world.run_task(world.tasks[0]) for _ in range(4))
    assert world.tasks == []
    assert yokes_page == row_cost("standings", "night_yoke", n=3)
    assert counted_page == Cost(round_trips=1 + 1 + 2, reads=3 * 3 + 1 + 1, tasks=1)
    assert items == total(row_cost("standings", "night_standing", n=3), Cost(round_trips=1 + 2, reads=1, tasks=1))
    assert users == Cost(round_trips=1 + 3 * 4 + 1, reads=3 + 3 * (3 + 1) + 1)
