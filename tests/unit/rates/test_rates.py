"""Rates: permits that come back by time, for callers and for tasks that wait."""

from datetime import datetime, timedelta

import pytest

from signalbox.core.calls import Call
from signalbox.core.ports import Query
from signalbox.core.problems import NotFound, Unavailable
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.rates import machine, service, sweep
from signalbox.rates.limits import LIMITS
from signalbox.rates.model import Rate, RateSettings, RateWait, WaitAnswer, path_of, waits_of
from signalbox.rates.problems import BadRate, NoRate
from signalbox.rates.requests import AcquireRequest, RateWaitRequest
from signalbox.rates.storage import wait_of
from signalbox.testing.replaced_limits import replaced
from tests.unit.operations_platform import OperationsPlatform

BAD_SETTINGS = ((0, 1), (-1, 1), ("60", 1), (True, 1), (float("inf"), 1), (30_001, 1), (60, 0), (60, 10_001), (60, 1.5))


class World(OperationsPlatform):
    """The platform with one rate: a permit a second, two at once."""

    def __init__(self) -> None:
        super().__init__()
        service.put(self.ports, "r", RateSettings(60, 2))

    def pass_time(self, seconds: float) -> None:
        """Move the time on, by a little more: the store's time may be a few microseconds ahead."""
        super().pass_time(seconds + 0.001)

    def acquired(self, weight: int = 1, id_: str = "") -> bool:
        return bool(service.acquire(self.ports, "r", AcquireRequest(weight, id_)))

    def waits(self, *numbers: int, weight: int = 1) -> list[WaitAnswer]:
        call = Call("quilt", "paint", {})
        return [
            service.wait(
                self.ports, "r", RateWaitRequest(f"w{number}", Call(call.function, call.task, {"n": number}), weight)
            )
            for number in numbers
        ]

    def granted(self) -> dict[int, datetime]:
        """Run the admit runs that are due, and return the times of the grants that have a task, by number."""
        while runs := [task for task in self.tasks if task.task == "rate_admit" and self._is_due(task.not_before)]:
            for run in runs:
                self.tasks.remove(run)
                service.admit(self.ports, run.payload["rate"], datetime.fromisoformat(run.payload["at"]))
        read = [wait_of(snapshot) for snapshot in self.store.query(Query(waits_of("r"), limit=1_000))]
        times = {wait.id: wait.granted_at for wait in read if wait and wait.granted_at}
        paint = {task.payload["n"]: task.not_before for task in self.tasks if task.task == "paint"}
        assert all(at in (None, times[f"w{number}"]) for number, at in paint.items())
        return {number: times[f"w{number}"] for number in paint}

    def _is_due(self, at: datetime | None) -> bool:
        return at is None or at <= self.now

    def rate(self) -> Rate:
        return service.get(self.ports, "r").rate


@pytest.fixture
def world() -> World:
    return World()


def seconds(times: dict[int, datetime]) -> list[float]:
    """Return the times after the first, in seconds."""
    return [round((time - min(times.values())).total_seconds(), 3) for _, time in sorted(times.items())]


def test_a_grant_of_a_later_time_is_not_due_and_its_task_is_not_lost(world: World) -> None:
    ahead = RateWait("w", 1, Call("quilt", "paint", {}), state="granted", granted_at=world.now, unit="{}")
    request = RateWaitRequest("w", ahead.continuation)
    assert machine.repeated_wait("r", ahead, request, world.now - timedelta(seconds=0.5)) == WaitAnswer("w", "granted")
    assert machine.repeated_wait("r", ahead, request, world.now).due


def test_a_run_removes_as_many_waits_of_units_of_a_deleted_rate_as_their_tasks_fit_into_its_commit(
    world: World,
) -> None:
    waits = tuple(RateWait(f"w{n}", 1, Call("quilt", "paint", {"n": n}), unit="{}") for n in range(3))
    with replaced(rate_grant_bytes_max=1):
        admitted = machine.admit(machine.Loaded("r", None, 0, world.now, waits))
    assert (admitted.stale, admitted.again) == (waits[:1], True)


def test_only_a_rate_with_a_description_has_one_in_its_record() -> None:
    assert "description" not in RateSettings(60).to_record()
    assert RateSettings(60, description="an API").to_record()["description"] == "an API"


def test_permits_are_granted_up_to_the_burst_and_come_back_by_time(world: World) -> None:
    assert [world.acquired() for _ in range(3)] == [True, True, False]
    world.pass_time(1)
    assert [world.acquired() for _ in range(2)] == [True, False]
    world.pass_time(3600)
    assert [world.acquired() for _ in range(3)] == [True, True, False]


def test_a_part_of_a_permit_that_has_come_back_is_kept(world: World) -> None:
    assert world.acquired(2)
    for _ in range(3):
        world.pass_time(0.7)
        world.acquired()
        service.patch(world.ports, "r", SettingsPatch({"burst": 2}))
    assert machine.free(world.rate(), world.now) == 0
    world.pass_time(0.9)
    assert world.acquired()


def test_a_refused_acquire_says_when_to_try_again(world: World) -> None:
    world.acquired(2)
    refused = service.acquire(world.ports, "r", AcquireRequest(2))
    assert not refused
    assert refused.retry_after_seconds == pytest.approx(2, abs=0.01)
    world.pass_time(refused.retry_after_seconds)
    assert world.acquired(2)


def test_a_repeated_acquire_takes_nothing(world: World) -> None:
    assert [world.acquired(id_="a"), world.acquired(id_="a"), world.acquired(id_="b")] == [True, True, True]
    assert machine.free(world.rate(), world.now) == 0


def test_waits_are_granted_in_their_order_at_the_rate(world: World) -> None:
    world.waits(1, 2, 3, 4)
    world.pass_time(0.5)
    assert seconds(world.granted()) == [0, 0, 1]
    world.pass_time(1.7)
    assert seconds(world.granted()) == [0, 0, 1, 2]
    assert world.rate().alarm_at is None


def test_an_acquire_does_not_overtake_waits(world: World) -> None:
    world.waits(1, 2, 3, 4)
    world.pass_time(0.5)
    world.granted()
    world.pass_time(0.4)
    assert world.rate().alarm_at is not None
    assert not world.acquired()


def test_a_heavy_wait_is_not_overtaken_and_takes_its_weight(world: World) -> None:
    world.waits(1)
    world.waits(2, weight=2)
    world.waits(3)
    for _ in range(20):
        world.pass_time(0.2)
        world.granted()
    assert seconds(world.granted()) == [0, 1, 2]


def test_a_fast_rate_is_reached_although_runs_are_rare(world: World) -> None:
    service.put(world.ports, "r", RateSettings(6_000, 1))
    world.waits(*range(200))
    for _ in range(6):
        world.pass_time(0.5)
        world.granted()
    times = seconds(world.granted())
    assert len(times) == 200
    assert times[-1] == pytest.approx(1.99, abs=0.001)


def test_a_repeated_wait_is_not_granted_again(world: World) -> None:
    world.waits(1, 1)
    world.pass_time(0.5)
    world.granted()
    [again] = world.waits(1)
    assert again.state == "granted"
    assert len(world.granted()) == 1


def test_a_cancelled_wait_is_not_granted_and_its_permits_are_free(world: World) -> None:
    world.waits(1, 2, 3)
    assert service.cancel(world.ports, "r", "w2")
    assert service.cancel(world.ports, "r", "w2")
    world.pass_time(0.5)
    assert sorted(world.granted()) == [1, 3]
    assert not service.cancel(world.ports, "r", "w1")
    assert seconds(world.granted()) == [0, 0]
    with pytest.raises(NotFound):
        service.cancel(world.ports, "r", "w9")


def test_the_waits_behind_a_cancelled_heavy_wait_are_granted_as_soon_as_their_permits_are_there(world: World) -> None:
    service.put(world.ports, "r", RateSettings(1, 10))
    assert world.acquired(10)
    world.waits(1, weight=10)
    world.waits(2)
    world.pass_time(1)
    assert world.granted() == {}
    assert service.cancel(world.ports, "r", "w1")
    for _ in range(60):
        world.pass_time(1)
        world.granted()
    assert list(world.granted()) == [2]


def test_the_next_run_is_for_the_weight_of_the_first_wait_that_is_left(world: World) -> None:
    assert world.acquired(2)
    world.waits(1, weight=2)
    world.pass_time(0.5)
    world.granted()
    alarm_at = world.rate().alarm_at
    assert alarm_at == machine.slot(world.rate(), 2, world.now) - machine.ALARM_AHEAD


def test_the_next_run_for_a_wait_of_many_days_is_within_the_time_that_the_queue_accepts(world: World) -> None:
    service.put(world.ports, "r", RateSettings(1 / 1440, 40))
    assert world.acquired(40)
    world.waits(1, weight=40)
    for day in range(40):
        assert world.granted() == {}, day
        alarm_at = world.rate().alarm_at
        assert alarm_at is None or alarm_at <= world.now + timedelta(days=LIMITS.alarm_days_max, seconds=1)
        world.pass_time(86_400)
    assert list(world.granted()) == [1]


def test_another_rate_counts_what_is_owed_in_permits(world: World) -> None:
    service.put(world.ports, "slow", RateSettings(1 / 60, 10))
    assert service.acquire(world.ports, "slow", AcquireRequest(10))
    service.put(world.ports, "slow", RateSettings(60, 1))
    world.pass_time(1)
    assert service.acquire(world.ports, "slow", AcquireRequest())


def test_a_faster_rate_wakes_its_waits(world: World) -> None:
    service.put(world.ports, "r", RateSettings(1, 1))
    world.acquired()
    world.waits(1)
    world.pass_time(1)
    assert world.granted() == {}
    service.put(world.ports, "r", RateSettings(6_000, 1))
    world.pass_time(0.5)
    assert list(world.granted()) == [1]


def test_a_wait_for_more_than_a_lowered_burst_is_granted_when_all_permits_are_there(world: World) -> None:
    world.waits(1, 2)
    world.waits(3, weight=2)
    service.put(world.ports, "r", RateSettings(60, 1))
    for _ in range(20):
        world.pass_time(0.2)
        world.granted()
    assert seconds(world.granted()) == [0, 1, 2]


def test_a_wait_for_more_than_the_burst_is_refused(world: World) -> None:
    with pytest.raises(BadRate, match="at most its burst of 2"):
        world.waits(1, weight=3)
    with pytest.raises(BadRate, match="at most its burst of 2"):
        world.acquired(3)


def test_a_rate_that_does_not_exist_is_named() -> None:
    ports = OperationsPlatform().ports
    with pytest.raises(NoRate, match="'r'"):
        service.acquire(ports, "r", AcquireRequest())
    with pytest.raises(NoRate, match="'r'"):
        service.wait(ports, "r", RateWaitRequest("w", Call("quilt", "paint", {})))


def test_waits_of_a_deleted_rate_end_and_those_of_a_later_one_do_not(world: World) -> None:
    world.waits(1, 2)
    service.delete(world.ports, "r")
    service.put(world.ports, "r", RateSettings(60, 2))
    world.waits(2, 3)
    world.pass_time(0.5)
    assert sorted(world.granted()) == [2, 3]
    service.delete(world.ports, "r")
    world.pass_time(0.5)
    world.granted()
    assert world.ids(waits_of("r")) == ["w2", "w3"]  # the receipts of the waits that were granted


def test_another_delete_ends_the_waits_whose_run_was_lost(world: World) -> None:
    service.pause(world.ports, "r")
    world.waits(1, 2)
    service.delete(world.ports, "r")
    world.tasks.clear()
    for runs in (1, 0):
        with pytest.raises(NoRate):
            service.delete(world.ports, "r")
        assert len(world.tasks) == runs
        world.pass_time(1)
        assert world.granted() == {}
    assert world.ids(waits_of("r")) == []


def test_a_wait_that_was_granted_is_not_granted_by_a_later_rate(world: World) -> None:
    world.waits(1)
    world.pass_time(0.5)
    world.granted()
    service.delete(world.ports, "r")
    service.put(world.ports, "r", RateSettings(60, 2))
    [again] = world.waits(1)
    assert again.state == "granted"


def test_an_early_run_comes_again(world: World) -> None:
    world.waits(1)
    with pytest.raises(Unavailable):
        service.admit(world.ports, "r", world.now + timedelta(seconds=1))


@pytest.mark.parametrize("paused", [False, True])
def test_a_wait_whose_first_admit_run_was_purged_is_granted_within_two_hours(world: World, paused: bool) -> None:
    world.waits(1)
    if paused:
        service.pause(world.ports, "r")
        world.pass_time(LIMITS.rate_checked_seconds + 1)
        assert sweep.sweep(world.ports) == 1
        service.resume(world.ports, "r")
    world.tasks.clear()
    world.pass_time(LIMITS.rate_checked_seconds)
    assert sweep.sweep(world.ports) == 1
    assert world.granted().keys() == {1}


@pytest.mark.parametrize("faster", [True, False])
def test_waits_whose_permits_are_there_do_not_sleep_until_a_far_alarm_if_the_run_before_it_is_purged(
    world: World, faster: bool
) -> None:
    """The alarm is for a heavy wait, nine days ahead. The wait is cancelled, or the rate becomes faster."""
    service.put(world.ports, "r", RateSettings(1 / 1440, 10))
    assert world.acquired(9)
    world.waits(1, weight=10)
    world.waits(2)
    world.pass_time(1)
    assert world.granted() == {}
    [alarm] = world.tasks
    if faster:
        service.put(world.ports, "r", RateSettings(60, 10))
    else:
        assert service.cancel(world.ports, "r", "w1")
    world.tasks[:] = [alarm]
    world.pass_time(LIMITS.rate_checked_seconds)
    assert sweep.sweep(world.ports) == 1
    assert world.granted().keys() == ({1, 2} if faster else {2})


def test_runs_that_come_before_a_far_alarm_write_nothing_and_the_sweeper_visits_the_rate_once_an_hour(
    world: World,
) -> None:
    service.put(world.ports, "r", RateSettings(1 / 1440, 1))
    assert world.acquired()
    world.waits(1)
    world.pass_time(1)
    world.granted()
    before = world.store.read(path_of("r"))[0].update_time
    world.waits(2)
    world.pass_time(1)
    world.granted()
    assert world.store.read(path_of("r"))[0].update_time == before
    for _ in range(3):
        world.pass_time(LIMITS.rate_checked_seconds)
        assert [sweep.sweep(world.ports) for _ in range(2)] == [1, 0]


@pytest.mark.parametrize("later", [False, True])
def test_a_deleted_rate_of_more_waits_than_one_run_deletes_is_continued_by_the_next_delivery(
    world: World, later: bool
) -> None:
    with replaced(rate_grants_page_max=2, rate_pages_max=2, rate_grant_bytes_max=1):
        for number in range(9):
            call = Call("quilt", "paint", {})
            service.wait(world.ports, "r", RateWaitRequest(f"w{number}", call, unit="{}", batch="b"))
        service.delete(world.ports, "r")
        if later:
            service.put(world.ports, "r", RateSettings(60, 2))
        world.pass_time(1)
        for left in (7, 5, 3, 1):
            with pytest.raises(Unavailable, match="left"):
                service.admit(world.ports, "r")
            assert len(world.ids(waits_of("r"))) == left
        service.admit(world.ports, "r")
    assert world.ids(waits_of("r")) == []
    assert len([task for task in world.tasks if task.task == "paint"]) == 9


def test_the_sweeper_visits_a_rate_without_waits_once_an_hour(world: World) -> None:
    assert sweep.sweep(world.ports) == 0
    world.pass_time(LIMITS.rate_checked_seconds)
    assert [sweep.sweep(world.ports) for _ in range(2)] == [1, 0]


def test_the_sweeper_runs_what_was_lost(world: World) -> None:
    world.waits(1, 2, 3, 4)
    world.pass_time(0.5)
    world.granted()
    world.tasks[:] = [task for task in world.tasks if task.task != "rate_admit"]
    world.pass_time(5)
    assert sweep.sweep(world.ports) == 0
    world.pass_time(LIMITS.alarm_lost_seconds)
    assert sweep.sweep(world.ports) == 1
    assert len(world.granted()) == 4


@pytest.mark.parametrize(("per_minute", "burst"), BAD_SETTINGS)
def test_limits_that_are_not_allowed_are_refused(per_minute: float, burst: int) -> None:
    with pytest.raises(BadRate):
        RateSettings(per_minute, burst)


def test_intervals_are_never_shorter_than_the_rate() -> None:
    assert machine.interval(Rate(RateSettings(7, 1))) * 7 >= 60_000_000
    assert machine.interval(Rate(RateSettings(500.0, 50))) == 120_000


def test_a_record_is_read_as_it_was_written(world: World) -> None:
    world.waits(1, 2, 3, 4)
    world.pass_time(0.5)
    world.granted()
    [snapshot] = world.store.read(path_of("r"))
    assert snapshot.data is not None
    assert Rate.from_record(snapshot.data).to_record() == snapshot.data
