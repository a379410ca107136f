"""Standings follow the yokes, and end exact."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from functions_framework.exceptions import RequestTimeoutException

from signalbox.core.calls import Call
from signalbox.core.ports import Outcome, Ports, Put, Store, Write
from signalbox.core.problems import BadValue, Contended, NewerFormat, Unavailable
from signalbox.core.records.formats import READS
from signalbox.core.write_checks import check_write
from signalbox.standings import tasks
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.aggregates import Standing
from signalbox.standings.model.declarations import Declaration, Threshold
from signalbox.standings.model.exact_sums import UNIT, Tally, number_of, sortable, units_of
from signalbox.standings.model.yokes import RESERVED, StandingKey, YokeKey
from signalbox.standings.requests import BoardRequest, RankRequest
from signalbox.standings.service import declarations, ranks, reads, yokes
from signalbox.standings.storage import VisitReads
from signalbox.testing.recorded_log import RecordedLog
from tests.unit.standings.standings_platform import StandingsPlatform, event, numbers


@pytest.fixture
def world() -> StandingsPlatform:
    return StandingsPlatform()


def test_a_yoke_counts_for_its_item_and_its_user(world: StandingsPlatform) -> None:
    world.yoke("ann", "tea", 4)
    assert world.standing("item", "tea") == numbers(1, 4, 4.0, min=4, max=4)
    assert world.standing("user", "ann") == numbers(1, 4, 4.0, min=4, max=4)


def test_a_yoke_without_a_value_counts_and_adds_nothing(world: StandingsPlatform) -> None:
    world.yoke("ann", "tea")
    assert world.standing("item", "tea") == numbers(1)


def test_another_value_adjusts_by_the_difference(world: StandingsPlatform) -> None:
    world.yoke("ann", "tea", 4)
    world.rest()
    world.yoke("ann", "tea", 1.5)
    assert world.standing("item", "tea") == numbers(1, 1.5, 1.5, min=1.5, max=1.5)


def test_one_and_true_are_different_attributes(world: StandingsPlatform) -> None:
    declarations.declare(world.ports, "fresh", Declaration(("fresh",)))
    for fresh in (1, True):
        world.yoke("ann", "tea", fresh=fresh)
        world.rest()
    assert world.standing("fresh", "1") == numbers(0)
    assert world.standing("fresh", "true") == numbers(1)
    assert world.record("yokes/ann~tea")["attributes"] == {"fresh": True}


def test_a_declaration_with_another_payload_is_a_change(world: StandingsPlatform) -> None:
    for number, value in enumerate((1, True, True), 1):
        threshold = Threshold("count", 2, Call("user", "popular", {"n": value}))
        changed = declarations.declare(world.ports, "fresh", Declaration(("fresh",), (threshold,)))
        assert changed.revision == min(number, 2)


def test_a_repeated_put_writes_nothing_and_a_repeated_event_counts_nothing(world: StandingsPlatform) -> None:
    assert world.put_yoke("ann", "tea", 4)
    assert not world.put_yoke("ann", "tea", 4)
    for _ in range(3):
        world.count("ann", "tea")
    assert world.standing("item", "tea")["count"] == 1


def test_a_deleted_yoke_leaves_nothing(world: StandingsPlatform) -> None:
    world.yoke("ann", "tea", 4)
    world.rest()
    world.unyoke("ann", "tea")
    assert world.standing("item", "tea") == numbers(0)
    assert world.standing("user", "ann") == numbers(0)


def test_a_delete_that_overtakes_its_create_ends_at_zero(world: StandingsPlatform) -> None:
    world.put_yoke("ann", "tea", 4)
    world.unyoke("ann", "tea")
    world.count("ann", "tea")  # the event of the create, late
    assert world.standing("item", "tea") == numbers(0)


def test_writes_of_other_clients_count_and_what_cannot_be_counted_is_left_out(world: StandingsPlatform) -> None:
    world.another_writes("ann", "tea", value=4)
    world.another_writes("bob", "tea", value="four", attributes="none")
    for user in ("ann", "bob"):
        world.count(user, "tea")
    world.fold()
    assert world.standing("item", "tea") == numbers(2, 4, 4.0, min=4, max=4)
    world.another_deletes("ann", "tea")
    world.rest()
    world.count("ann", "tea")
    assert world.standing("item", "tea") == numbers(1)


def test_a_yoke_with_an_invalid_id_is_logged_and_not_counted(world: StandingsPlatform) -> None:
    tasks.count_event(world.ports, event("ann", "tea").__class__("e", "yokes", "tea", "yokes/tea", None, None))
    assert [message for message, _ in world.reported] == ["yoke with an invalid id, not counted"]
    assert isinstance(world.log, RecordedLog)


def test_sums_of_decimals_end_exact(world: StandingsPlatform) -> None:
    for value, user in ((0.1, "a"), (0.2, "b"), (0.3, "c")):
        world.yoke(user, "tea", value)
        world.rest()
    assert world.standing("item", "tea")["sum"] == 0.6
    for user in "abc":
        world.unyoke(user, "tea")
        world.rest()
    assert world.standing("item", "tea") == numbers(0)


@pytest.mark.parametrize(
    ("value", "units"),
    [(1, 10**9), (0.1, 10**8), (-2.5, -25 * 10**8), (10**15, 10**24), (1e-9, 1), (1e-10, None), (1e16, None)],
)
def test_a_value_is_counted_in_billionths_or_not_at_all(value: float, units: int | None) -> None:
    assert units_of(value) == units


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), 10**400, [1]])
def test_a_value_that_is_not_a_number_is_not_counted(value: object) -> None:
    assert units_of(value) is None


def test_a_tally_may_pass_below_zero_and_come_back() -> None:
    below = Tally() - Tally.of(0.7)
    assert (below.count, number_of(below.units)) == (-1, -0.7)
    assert below + Tally.of(0.7) == Tally()


# --- the smallest and the largest value ---


def test_the_next_smallest_follows_when_the_smallest_goes(world: StandingsPlatform) -> None:
    for user, value in (("a", 1), ("b", 2), ("c", 5)):
        world.yoke(user, "tea", value)
        world.rest()
    world.unyoke("a", "tea")
    assert world.standing("item", "tea") == numbers(2, 7, 3.5, min=2, max=5)
    world.rest()
    world.yoke("c", "tea", 3)
    assert world.standing("item", "tea") == numbers(2, 5, 2.5, min=2, max=3)


# --- busy standings ---


def test_a_busy_standing_is_left_alone_until_a_fold_run(world: StandingsPlatform) -> None:
    for user in "abcde":
        world.yoke(user, "tea", 2)
    assert world.standing("item", "tea") == numbers(1, 2, 2.0, min=2, max=2, pending=4)
    [task] = [task for task in world.tasks if task.payload["standing"] == "item/tea"]
    world.run_task(task)
    assert world.standing("item", "tea") == numbers(5, 10, 2.0, min=2, max=2)
    assert world.adjustments("item", "tea") == 0


def test_a_standing_that_rests_is_written_at_once_again(world: StandingsPlatform) -> None:
    for user in "abc":
        world.yoke(user, "tea")
    world.fold()
    world.rest()
    world.yoke("d", "tea")
    assert world.standing("item", "tea") == numbers(4)
    assert not world.tasks


def test_extremes_of_a_busy_standing_are_those_of_what_is_counted(world: StandingsPlatform) -> None:
    for user, value in (("a", 3), ("b", 1), ("c", 9)):
        world.yoke(user, "tea", value)
    world.unyoke("b", "tea")
    world.unyoke("c", "tea")
    world.fold()
    assert world.standing("item", "tea") == numbers(1, 3, 3.0, min=3, max=3)


def test_a_fold_run_that_is_early_is_retried(world: StandingsPlatform) -> None:
    for user in "ab":
        world.yoke(user, "tea")
    early = world.tasks[0]
    with pytest.raises(Unavailable):
        counting_run(world, early.payload)


def counting_run(world: StandingsPlatform, payload: object) -> None:
    from signalbox.standings import tasks as upkeep

    assert isinstance(payload, dict)
    upkeep.run_task(world.ports, "fold", payload)


def test_an_event_whose_fold_task_was_refused_enqueues_it_when_it_is_delivered_again(world: StandingsPlatform) -> None:
    world.yoke("a", "tea")
    world.put_yoke("b", "tea")
    world.refusal = Unavailable("the queue is away")
    with pytest.raises(Unavailable):
        tasks.count_event(world.ports, event("b", "tea"))
    world.refusal = None
    world.count("b", "tea")
    world.fold()
    assert world.standing("item", "tea") == numbers(2)


# --- yokes that one process counts together ---

WRITES_MAX = 500
"""Of a commit, in Firestore."""


def put_together(world: StandingsPlatform, *yokes: tuple[str, str, int | None]) -> None:
    """Put yokes, or delete those without a value, and count all of them together."""
    for user, item, value in yokes:
        if value is None:
            world.delete_yoke(user, item)
        else:
            world.put_yoke(user, item, value)
    world.count_together(*((user, item) for user, item, _ in yokes))


def test_yokes_of_quiet_standings_are_counted_together_at_once(world: StandingsPlatform) -> None:
    put_together(world, ("ann", "tea", 4), ("bob", "tea", 1), ("bob", "rum", 7))
    assert world.standing("item", "tea") == numbers(2, 5, 2.5, min=1, max=4)
    assert world.standing("user", "bob") == numbers(2, 8, 4.0, min=1, max=7)
    assert not world.tasks


def test_yokes_of_a_busy_item_that_are_counted_together_leave_one_adjustment(world: StandingsPlatform) -> None:
    world.yoke("ann", "tea", 4)
    put_together(world, ("bob", "tea", 1), ("cyd", "tea", 9), ("ann", "tea", 5))
    assert (world.adjustments("item", "tea"), len(world.tasks)) == (1, 2)
    world.fold()
    assert world.standing("item", "tea") == numbers(3, 15, 5.0, min=1, max=9)
    assert world.standing("user", "ann") == numbers(1, 5, 5.0, min=5, max=5)


def test_extremes_that_are_removed_together_are_those_of_no_yoke(world: StandingsPlatform) -> None:
    for user, value in (("a", 1), ("b", 2), ("c", 3), ("d", 9)):
        world.yoke(user, "tea", value)
        world.rest()
    put_together(world, ("a", "tea", None), ("b", "tea", None), ("d", "tea", 4))
    assert world.standing("item", "tea") == numbers(2, 7, 3.5, min=3, max=4)


def test_a_threshold_that_several_yokes_cross_together_is_crossed_once(world: StandingsPlatform) -> None:
    threshold = Threshold("count", 2, Call("user", "popular", {}))
    declarations.declare(world.ports, "item", Declaration(("item",), (threshold,)))
    world.fold()
    put_together(world, ("a", "tea", 1), ("b", "tea", 2), ("c", "tea", 3))
    [task] = [task for task in world.tasks if task.task == "popular"]
    assert task.payload["standing"]["count"] == 3


@pytest.mark.parametrize(
    ("record", "error"),
    [({"keys": "none"}, KeyError), ({"format": READS + 1}, NewerFormat)],
    ids=("malformed", "newer"),
)
def test_a_yoke_that_cannot_be_counted_does_not_affect_those_that_are_counted_with_it(
    world: StandingsPlatform, record: dict[str, Any], error: type[Exception]
) -> None:
    for user in ("ann", "bob", "cyd"):
        world.put_yoke(user, "tea")
    world.store.commit([Put("counted/bob~tea", record)])
    answers = tasks.count_events(world.ports, {f"{user}~tea": event(user, "tea") for user in ("ann", "bob", "cyd")})
    assert {id_ for id_, answer in answers.items() if answer is True} == {"ann~tea", "cyd~tea"}
    assert isinstance(answers["bob~tea"], error)
    world.fold()
    assert world.standing("item", "tea") == numbers(2)


def test_the_end_of_a_request_at_its_time_out_ends_its_group(
    world: StandingsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """functions-framework raises an `Exception` wherever the code is; counting each yoke alone would take longer."""
    counted: list[int] = []

    def time_out(_: Ports, keys: Sequence[YokeKey], **__: bool) -> None:
        counted.append(len(keys))
        raise RequestTimeoutException

    monkeypatch.setattr(tasks, "count", time_out)
    with pytest.raises(RequestTimeoutException):
        tasks.count_events(world.ports, {f"{user}~tea": event(user, "tea") for user in ("ann", "bob")})
    assert counted == [2]


def test_yokes_whose_commit_loses_every_race_are_counted_alone(
    world: StandingsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("ann", "bob"):
        world.put_yoke(user, "tea")
    count = tasks.count

    def lose_together(ports: Ports, keys: Sequence[YokeKey], *, by_walk: bool = False) -> None:
        if len(keys) > 1:
            raise Contended("each race was lost")
        count(ports, keys, by_walk=by_walk)

    monkeypatch.setattr(tasks, "count", lose_together)
    world.count_together(("ann", "tea"), ("bob", "tea"))
    world.fold()
    assert world.standing("item", "tea") == numbers(2)


def test_a_counted_record_names_the_busy_standings_of_its_own_yoke(world: StandingsPlatform) -> None:
    for item in ("tea", "rum"):
        world.yoke("xan", item)
    put_together(world, ("ann", "tea", 1), ("bob", "rum", 2))
    assert [world.record(f"counted/{id_}")["logged"] for id_ in ("ann~tea", "bob~rum")] == [["item/tea"], ["item/rum"]]


def test_yokes_that_have_lost_two_races_leave_adjustments_to_quiet_standings(world: StandingsPlatform) -> None:
    world.put_yoke("ann", "tea")
    loaded = [VisitReads([YokeKey("ann", "tea")]).load(world.store, attempt) for attempt in range(3)]
    assert [visits.is_busy(StandingKey("item", "tea")) for visits in loaded] == [False, False, True]


def test_if_fold_tasks_are_refused_no_event_of_the_commit_is_acknowledged(world: StandingsPlatform) -> None:
    world.yoke("ann", "tea")
    for user in ("bob", "cyd"):
        world.put_yoke(user, "tea")
    world.refusal = Unavailable("the queue is away")
    answers = tasks.count_events(world.ports, {f"{user}~tea": event(user, "tea") for user in ("bob", "cyd")})
    assert all(isinstance(answer, Unavailable) for answer in answers.values())
    world.refusal = None
    world.count_together(("ann", "tea"), ("cyd", "tea"))
    world.fold()
    assert world.standing("item", "tea") == numbers(3)


def test_a_commit_that_counts_as_many_yokes_as_it_may_has_no_more_writes_than_firestore_takes() -> None:
    """Each yoke leaves all its standings and enters others, of all kinds but those of the user and of the item."""
    standings_max = len(RESERVED) + 2 * (LIMITS.standing_kinds_max - len(RESERVED))
    assert LIMITS.visits_together_max * (1 + standings_max) < WRITES_MAX


LARGE = 10**15


def test_a_sum_beyond_64_bits_is_exact_and_has_its_place_in_the_leaderboard(world: StandingsPlatform) -> None:
    for item, users in (("tea", 9_300), ("rum", 9_400), ("gin", 2)):
        key = StandingKey("item", item)
        tally = Tally(users, users, users * LARGE * UNIT)
        world.store.commit([Put(key.path, Standing(tally - Tally.of(LARGE), LARGE, LARGE).to_record())])
        world.rest()
        world.yoke("ann", item, LARGE)
    assert world.standing("item", "tea") == numbers(9_300, 9_300 * LARGE, float(LARGE), min=LARGE, max=LARGE)
    board = ranks.leaderboard(world.ports, BoardRequest("item", "sum", 10, ""))
    assert [entry.id for entry in board.standings] == ["rum", "tea", "gin"]
    assert ranks.rank(world.ports, RankRequest(StandingKey("item", "tea"), "sum", 1)).rank == 2


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_one_more_than_64_bits_is_stored(sign: int) -> None:
    record = Standing(Tally(1, 1, sign * 2**63 * UNIT)).to_record()
    check_write(Put("standings/item/entries/tea", record))
    assert Standing.from_record(record).numbers()["sum"] == sign * 2**63


def test_a_yoke_that_cannot_be_counted_ends_no_walk(world: StandingsPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    for user in ("ann", "bob", "cyd"):
        world.put_yoke(user, "tea")
    count = tasks.count

    def refuse_bob(ports: Ports, keys: Sequence[YokeKey], *, by_walk: bool = False) -> None:
        if any(key.user == "bob" for key in keys):
            raise BadValue("no")
        count(ports, keys, by_walk=by_walk)

    monkeypatch.setattr(tasks, "count", refuse_bob)
    reads.begin_walk(world.ports, "night")
    world.fold()
    assert world.standing("item", "tea") == numbers(2)
    assert ("yoke refused, not counted", {"yoke": "bob~tea", "reason": "no"}) in world.reported


def test_a_record_that_cannot_be_read_ends_no_walk(world: StandingsPlatform) -> None:
    for user in ("ann", "bob", "cyd"):
        world.put_yoke(user, "tea")
    world.store.commit([Put("counted/bob~tea", {"keys": "none"})])
    reads.begin_walk(world.ports, "night")
    world.fold()
    assert world.standing("item", "tea") == numbers(2)
    assert ("yoke refused, not counted", {"yoke": "bob~tea", "reason": "'logged'"}) in world.reported


def test_a_standing_that_cannot_be_recounted_does_not_keep_the_others_from_it(
    world: StandingsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for item in ("gin", "tea"):
        world.yoke("ann", item)
    for item in ("gin", "tea"):
        world.store.commit([Put(StandingKey("item", item).path, Standing(Tally(7)).to_record())])
    take_turn = tasks.take_turn

    def refuse_gin(ports: Ports, run: str, key: StandingKey, turn: str = "") -> tasks.Turn:
        if key.id == "gin":
            raise BadValue("no")
        return take_turn(ports, run, key, turn)

    monkeypatch.setattr(tasks, "take_turn", refuse_gin)
    reads.begin_walk(world.ports, "night")
    world.fold()
    assert [world.standing("item", item)["count"] for item in ("gin", "tea")] == [7, 1]
    assert ("standing refused, not recounted", {"standing": "item/gin", "reason": "no"}) in world.reported


def test_a_yoke_that_cannot_be_removed_does_not_end_the_removal(
    world: StandingsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "remove_page_max", 2)
    for user in ("ann", "bob", "cyd"):
        world.put_yoke(user, "tea")
    ports = replace(world.ports, store=RefusingOne(world.ports.store, "yokes/bob~tea"))
    yokes.begin_removal(ports, "run", "item", "tea")
    for _ in range(2):
        [task] = world.tasks
        world.tasks.remove(task)
        tasks.run_task(ports, task.task, task.payload)
    assert world.ids("yokes") == ["bob~tea"]
    assert ("yoke refused, not removed", {"yoke": "bob~tea", "reason": "no"}) in world.reported


class RefusingOne:
    """A store that refuses one write of several."""

    def __init__(self, store: Store, path: str) -> None:
        self._store, self._path = store, path
        self.read, self.query, self.commit = store.read, store.query, store.commit
        self.read_some, self.count, self.new_id = store.read_some, store.count, store.new_id

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        outcomes = self._store.write_each([write for write in writes if write.path != self._path])
        left = iter(outcomes)
        return tuple(BadValue("no") if write.path == self._path else next(left) for write in writes)


@pytest.mark.parametrize("near", [0, 2**52, 2**53, 2**54, 2**60, 2**63, -(2**54), -(2**63)])
def test_numbers_of_sums_have_the_order_of_the_sums(near: int) -> None:
    units = [near * UNIT + quarters * UNIT // 4 for quarters in range(-40, 41)]
    numbers = [sortable(number_of(each)) for each in units]
    assert numbers == sorted(numbers)
