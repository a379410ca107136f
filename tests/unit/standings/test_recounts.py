"""A recount goes by turns, and ends exact while yokes come and go."""

from collections.abc import Iterator

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core.effects import Effect
from signalbox.core.ports import Put
from signalbox.core.problems import Unavailable
from signalbox.standings import machine, tasks
from signalbox.standings.model.aggregates import Standing
from signalbox.standings.model.yokes import StandingKey
from signalbox.standings.service import reads
from signalbox.standings.storage import FoldReads
from signalbox.testing.replaced_limits import replaced
from tests.unit.standings.standings_platform import StandingsPlatform, numbers

TEA = StandingKey("item", "tea")
YOKES = 20
DRIFTED = "standing had drifted, repaired"


@pytest.fixture
def world() -> Iterator[StandingsPlatform]:
    """Return a world with one item of 20 yokes, in pages of one except the last; its standing is wrong."""
    made = StandingsPlatform()
    for index in range(YOKES):
        made.yoke(f"u{index:02}", "tea", index)
    made.fold()
    broken = {**dict(made.store.read(TEA.path)[0].data or {}), "yokes": 7, "min": -9}
    made.store.commit([Put(TEA.path, broken)])
    made.rest()
    with replaced(recount_page_max=3, recount_pages_max=1):
        yield made


def turns(world: StandingsPlatform) -> list[Effect]:
    return [task for task in world.tasks if task.task == "recount"]


def test_a_recount_of_several_pages_takes_a_task_for_each(world: StandingsPlatform) -> None:
    reads.begin_recount(world.ports, "run", TEA)
    ran = 0
    while waiting := turns(world):
        world.run_task(waiting[0])
        ran += 1
    assert ran == YOKES // 3 + 1
    assert world.standing("item", "tea") == numbers(20, 190, 9.5, min=0, max=19)
    assert [message for message, _ in world.reported] == [DRIFTED]


@pytest.mark.parametrize("pause", [0.0, 0.7, 3.0])
def test_a_recount_ends_exact_while_yokes_come_and_go(world: StandingsPlatform, pause: float) -> None:
    """Between turns a yoke comes, one of the first goes, one in the middle changes, and one goes and comes back."""
    reads.begin_recount(world.ports, "run", TEA)
    turn = 0
    while waiting := turns(world):
        world.run_task(waiting[0])
        turn += 1
        world.yoke(f"new{turn:02}", "tea", 100)
        world.unyoke(f"u{turn:02}", "tea")
        world.yoke(f"u{19 - turn:02}", "tea", 50)
        world.delete_yoke("u19", "tea")
        world.yoke("u19", "tea", 19)
        world.pass_time(pause)
    world.fold()
    assert turn < 40, "yokes behind the walk do not hold it up"
    values = [100] * turn + _left(turn)
    assert world.standing("item", "tea") == numbers(
        len(values), sum(values), sum(values) / len(values), min=min(values), max=max(values)
    )
    assert [message for message, _ in world.reported] == [DRIFTED]
    reads.begin_recount(world.ports, "again", TEA)
    world.fold()
    assert len(world.reported) == 1, "nothing had drifted"


def _left(turns_taken: int) -> list[int]:
    """Return the values of the first yokes after so many turns."""
    values = {index: index for index in range(YOKES)}
    for turn in range(1, turns_taken + 1):
        values.pop(turn, None)
        if 19 - turn >= 0:
            values[19 - turn] = 50
        values[19] = 19
    return list(values.values())


def test_a_turn_that_is_delivered_again_adds_nothing(world: StandingsPlatform) -> None:
    reads.begin_recount(world.ports, "run", TEA)
    [first] = turns(world)
    world.run_task(first)
    [second] = turns(world)
    held = Standing.from_record(world.store.read(TEA.path)[0].data)
    for task in (first, first):
        tasks.run_task(world.ports, task.task, task.payload)
    assert Standing.from_record(world.store.read(TEA.path)[0].data) == held
    assert turns(world) == [second]
    world.fold()
    tasks.run_task(world.ports, second.task, second.payload)
    assert (world.standing("item", "tea")["count"], turns(world)) == (20, [])


def test_a_turn_that_dies_after_its_commit_is_continued(world: StandingsPlatform) -> None:
    reads.begin_recount(world.ports, "run", TEA)
    [first] = turns(world)
    world.tasks.remove(first)
    world.refusal = Unavailable("the process dies")
    with pytest.raises(Unavailable):
        tasks.run_task(world.ports, first.task, first.payload)
    world.refusal = None
    tasks.run_task(world.ports, first.task, first.payload)
    world.fold()
    assert world.standing("item", "tea")["count"] == 20


def test_a_recount_begins_again_when_a_sum_without_places_is_added(world: StandingsPlatform) -> None:
    """A fold run that read the standing just before the recount began replaces adjustments by their sum."""
    reads.begin_recount(world.ports, "run", TEA)
    world.run_task(turns(world)[0])
    world.unyoke("u00", "tea")  # the walk is past it
    world.yoke("new", "tea", 4)
    with replaced(fold_page_max=2):
        page = FoldReads(TEA).load(world.ports.store, 0)
    assert page is not None
    world.store.commit(tasks.merging_writes(TEA, page).state)
    world.fold()
    assert world.standing("item", "tea") == numbers(20, 194, 9.7, min=1, max=19)
    assert Standing.from_record(world.store.read(TEA.path)[0].data).recount is None


def test_the_night_recounts_a_large_standing_by_tasks_of_its_own(world: StandingsPlatform) -> None:
    reads.begin_walk(world.ports, "night")
    world.fold()
    assert world.standing("item", "tea") == numbers(20, 190, 9.5, min=0, max=19)


def test_a_standing_whose_yokes_never_rest_is_reported_and_left(
    world: StandingsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "is_at_rest", lambda *_: False)
    reads.begin_recount(world.ports, "run", TEA)
    world.fold()
    assert [message for message, _ in world.reported] == ["standing is busy, not recounted"]
    assert Standing.from_record(world.store.read(TEA.path)[0].data).recount is None


def test_what_a_turn_costs(world: StandingsPlatform) -> None:
    """The standing, its pages, the adjustments, the commit; then the time, for the task that follows."""
    reads.begin_recount(world.ports, "run", TEA)
    with replaced(recount_pages_max=5):
        cost = world.run_task(turns(world)[0])
    assert cost == Cost(round_trips=1 + 5 + 1 + 1 + 1 + 1, reads=1 + 15 + 1 + 1, writes=1, tasks=1)


@pytest.mark.parametrize("broken", [{"yokes": 1}, {"crossed": 3}, {"yokes": "many"}])
def test_a_standing_that_cannot_be_read_does_not_hold_up_the_recount_of_the_others(
    world: StandingsPlatform, broken: dict[str, object]
) -> None:
    world.store.commit([Put(StandingKey("item", "a").path, broken)])
    tasks.recount_page(world.ports, "run", "item", "")
    while waiting := turns(world):
        world.run_task(waiting[0])
    assert [message for message, _ in world.reported] == ["standing cannot be read, emptied", DRIFTED]
    assert world.standing("item", "tea") == numbers(20, 190, 9.5, min=0, max=19)
    assert Standing.from_record(world.store.read(StandingKey("item", "a").path)[0].data) == Standing()


@pytest.mark.parametrize("broken", [{}, {"yokes": 1}, {"crossed": 3}, {"yokes": "many"}])
def test_a_recount_repairs_a_standing_that_cannot_be_read(world: StandingsPlatform, broken: dict[str, object]) -> None:
    world.store.commit([Put(TEA.path, broken)])
    reads.begin_recount(world.ports, "run", TEA)
    world.fold()
    assert world.standing("item", "tea") == numbers(20, 190, 9.5, min=0, max=19)
