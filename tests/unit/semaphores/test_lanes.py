"""Waits of several keys and priorities share the permits by weight; in one key and priority the first is first."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox.core.calls import Call
from signalbox.core.ports import Snapshot
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.semaphores import sweep, tasks
from signalbox.semaphores.machine.lanes import PRIORITY_WEIGHTS, lane_of, weight_of, with_weights_of
from signalbox.semaphores.model.lanes import PLAIN, Lane, shared_lane_id
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.model.priorities import Priority
from signalbox.semaphores.model.semaphore import Semaphore, path_of, waiter_path
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.problems import BadSemaphore
from signalbox.semaphores.requests import SemaphoresQuery, SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, views, waits
from signalbox.testing.replaced_limits import replaced
from tests.unit.operations_platform import OperationsPlatform

CALL = Call("philosophers", "eat", {})
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class World(OperationsPlatform):
    """One semaphore of one permit that is held, so that every wait waits."""

    def __init__(self, permits: int = 1, **weights: int) -> None:
        super().__init__()
        settings.put(self.ports, "s", SemaphoreSettings(permits, 60, weights=weights))
        held = waits.wait(self.ports, "s", WaitRequest("holder", permits=permits)).lease
        assert held is not None
        self.held = held.id

    def wait(self, id_: str, key: str = "", priority: Priority = "normal", **options: Any) -> None:
        assert waits.wait(self.ports, "s", WaitRequest(id_, CALL, key=key, priority=priority, **options)).waiting
        self.pass_time(0.001)

    def snapshot(self) -> Snapshot:
        [record] = self.store.read(path_of("s"))
        return record

    @property
    def semaphore(self) -> Semaphore:
        return Semaphore.from_record(self.snapshot().data or {})

    def pass_on(self) -> str:
        """Signal the lease that is held, and claim the one that this grants; return the id of its wait."""
        self.pass_time(0.2)
        leases.signal(self.ports, "s", SignalRequest(self.held))
        [task] = [task for task in self.tasks if task.task == "eat"]
        self.tasks.remove(task)
        lease = leases.claim(self.ports, Granted.from_context(task.context["lease"]))
        assert lease is not None
        self.held = lease.id
        return lease.id.partition("~")[0]

    def grants(self, count: int) -> list[str]:
        return [self.pass_on() for _ in range(count)]

    def put_settings(self, wanted: SemaphoreSettings) -> None:
        settings.put(self.ports, "s", wanted)

    def settle(self) -> None:
        """Run the admit runs that are due, and those that follow."""
        for _ in range(5):
            self.pass_time(1)
            tasks.admit(self.ports, "s")


def test_two_tenants_with_the_weights_1_and_3_are_granted_permits_at_1_to_3() -> None:
    world = World(pro=3)
    for number in range(200):
        world.wait(f"free {number}", "free")
        world.wait(f"pro {number}", "pro")
    granted = Counter(id_.split()[0] for id_ in world.grants(200))
    assert granted == {"pro": 150, "free": 50}


def test_a_wait_of_high_priority_behind_fifty_others_is_next_or_next_but_one() -> None:
    world = World()
    for number in range(50):
        world.wait(f"many {number}", priority="low")
    world.grants(3)
    world.wait("urgent", priority="high")
    assert "urgent" in world.grants(2)


def test_a_low_priority_is_a_share_and_never_starves() -> None:
    world = World()
    for number in range(60):
        for priority in ("high", "normal", "low"):
            world.wait(f"{priority} {number}", priority=priority)
    granted = Counter(id_.split()[0] for id_ in world.grants(42))
    assert granted == {"high": 32, "normal": 8, "low": 2}


def test_waits_without_key_and_priority_are_a_lane_of_the_normal_priority() -> None:
    world = World()
    for number in range(30):
        world.wait(f"plain {number}")
    for number in range(30):
        world.wait(f"low {number}", priority="low")
    assert Counter(id_.split()[0] for id_ in world.grants(20)) == {"plain": 16, "low": 4}


def test_in_a_lane_the_first_wait_is_first() -> None:
    world = World()
    for number in range(5):
        world.wait(f"a{number}", "a")
        world.wait(f"b{number}", "b")
    granted = world.grants(10)
    assert [id_ for id_ in granted if id_[0] == "a"] == [f"a{number}" for number in range(5)]
    assert [id_ for id_ in granted if id_[0] == "b"] == [f"b{number}" for number in range(5)]


def test_a_newcomer_begins_where_the_others_are() -> None:
    world = World()
    for number in range(40):
        world.wait(f"old {number}", "old")
    world.grants(20)
    for number in range(20):
        world.wait(f"new {number}", "new")
    granted = Counter(id_.split()[0] for id_ in world.grants(11))
    assert granted["old"] in (5, 6)


def test_a_key_that_empties_and_returns_keeps_its_tag() -> None:
    world = World(a=1, b=1)
    for number in range(20):
        world.wait(f"b{number}", "b")
    order = []
    for number in range(8):
        world.wait(f"a{number}", "a")
        order += world.grants(2)
    assert [id_[0] for id_ in order] == ["b", "a"] * 8 or [id_[0] for id_ in order] == ["a", "b"] * 8


def test_a_lane_that_was_found_empty_does_not_make_up_for_the_turns_that_it_missed() -> None:
    world = World()
    for number in range(10):
        world.wait(f"low {number}", priority="low")
    world.grants(1)
    world.wait("gone", priority="high")
    assert waits.cancel(world.ports, "s", "gone")
    world.grants(1)  # it was the turn of the priority "high"
    for number in range(40):
        world.wait(f"high {number}", priority="high")
    granted = [id_.split()[0] for id_ in world.grants(35)]
    assert granted.count("low") == 2


def test_when_nobody_waits_the_semaphore_forgets_its_lanes() -> None:
    world = World()
    before = world.snapshot().data
    world.wait("a", "a")
    world.wait("b", "b", "high")
    assert {lane.id for lane in world.semaphore.lanes} == {"normal:a", "high:b"}
    world.grants(2)
    leases.signal(world.ports, "s", SignalRequest(world.held))
    world.settle()
    after = world.snapshot().data
    assert (world.semaphore.mode, world.semaphore.lanes) == ("open", ())
    assert after is not None
    assert before is not None
    assert after.keys() == before.keys() | {"sweep_at"}


def test_with_only_the_plain_lane_left_the_semaphore_continues_without_lanes() -> None:
    world = World()
    for number in range(30):
        world.wait(f"plain {number}")
    world.wait("urgent", priority="high")
    assert {lane.id for lane in world.semaphore.lanes} == {PLAIN, "high:"}
    assert "urgent" in world.grants(8)
    assert (world.semaphore.mode, world.semaphore.lanes) == ("closed", ())
    assert world.pass_on().startswith("plain")


def test_a_head_that_needs_several_permits_is_not_passed_by_another_lane() -> None:
    world = World(2)
    world.wait("big", "a", permits=2)
    world.wait("small", "b")
    leases.signal(world.ports, "s", SignalRequest(world.held))
    assert [task.context["lease"]["id"].partition("~")[0] for task in world.tasks if task.task == "eat"] == ["big"]


def test_a_wait_that_joins_a_closed_lane_writes_only_its_own_record() -> None:
    world = World()
    world.wait("a0", "a")
    before = world.snapshot().update_time
    world.wait("a1", "a")
    assert world.snapshot().update_time == before


def test_the_records_of_waits_without_key_and_priority_are_those_of_a_semaphore_without_lanes() -> None:
    world = World()
    world.wait("plain", priority="normal")
    [record] = world.store.read(waiter_path("s", "plain"))
    assert record.data is not None
    assert not {"key", "priority", "lane", "places"} & record.data.keys()
    assert not {"lanes", "weights"} & (world.snapshot().data or {}).keys()


def test_a_lost_grant_returns_to_its_place_in_its_lane() -> None:
    world = World()
    for number in range(3):
        world.wait(f"a{number}", "a")
    leases.signal(world.ports, "s", SignalRequest(world.held))
    [task] = [task for task in world.tasks if task.task == "eat"]
    world.tasks.remove(task)
    world.pass_time(40)  # the claim comes too late
    assert leases.claim(world.ports, Granted.from_context(task.context["lease"])) is None
    assert (world.store.read(waiter_path("s", "a0"))[0].data or {})["lane"] == "normal:a"
    world.settle()
    assert [task.context["lease"]["id"].partition("~")[0] for task in world.tasks if task.task == "eat"][-1] == "a0"


def test_waits_of_all_lanes_are_refused_when_the_permits_are_lowered() -> None:
    world = World(3)
    late = Call("philosophers", "leave", {})
    world.wait("plain", permits=2, on_timeout=late)
    world.wait("a", "a", permits=2, on_timeout=late)
    world.wait("b", "b", "low", permits=3, on_timeout=late)
    world.wait("c", "c", permits=1, on_timeout=late)
    settings.patch(world.ports, "s", SettingsPatch({"permits": 1}))
    for task in [task for task in world.tasks if task.task == "refuse"]:
        tasks.TASKS["refuse"](world.ports, task.payload)
    assert sum(task.task == "leave" for task in world.tasks) == 3
    assert [each.id for each in views.get(world.ports, "s").waiters or ()] == ["c"]


def test_a_deleted_semaphore_ends_the_waits_of_all_lanes() -> None:
    world = World()
    world.wait("a", "a")
    sweep.delete(world.ports, "s")
    sweep.clean_deleted(world.ports, "s", 10**20)
    assert world.store.read(waiter_path("s", "a"))[0].data is None


def test_many_empty_lanes_are_closed_over_several_runs() -> None:
    world = World()
    for number in range(7):
        world.wait(f"w{number}", f"k{number}")
    for number in range(7):
        assert waits.cancel(world.ports, "s", f"w{number}")
    with replaced(lanes_read_max=2):
        leases.signal(world.ports, "s", SignalRequest(world.held))
        assert sum(lane.mode == "opening" for lane in world.semaphore.lanes) == 2
        for _ in range(4):
            world.settle()
    assert (world.semaphore.mode, world.semaphore.lanes) == ("open", ())


def test_a_signal_that_reads_only_empty_lanes_asks_for_an_admit_run() -> None:
    world = World()
    for number in range(3):
        world.wait(f"w{number}", f"k{number}")
    assert waits.cancel(world.ports, "s", "w0")
    assert waits.cancel(world.ports, "s", "w1")
    world.tasks.clear()
    with replaced(lanes_read_max=2):
        leases.signal(world.ports, "s", SignalRequest(world.held))
        while admits := [task for task in world.tasks if task.task == "admit"]:
            world.tasks.remove(admits[0])
            world.pass_time(1)
            tasks.TASKS["admit"](world.ports, admits[0].payload)
            if granted := [task.context["lease"]["id"] for task in world.tasks if task.task == "eat"]:
                break
    assert granted[0].startswith("w2~")


def test_a_list_of_semaphores_counts_the_waits_of_all_lanes() -> None:
    world = World()
    world.wait("plain")
    world.wait("a", "a")
    world.wait("b", "b", "low")
    query = SemaphoresQuery.from_request({"waiting": "true"})
    assert [view.waiting for view in views.find(world.ports, query).semaphores] == [3]


def test_the_record_has_a_limited_number_of_known_waiters_of_all_lanes() -> None:
    world = World()
    for number in range(8):
        world.wait(f"a{number}", "a")
        world.wait(f"b{number}", "b")
    with replaced(lane_heads_max=4):
        world.grants(4)
    known = [len(lane.known.ids) for lane in world.semaphore.lanes]
    assert any(known)
    assert max(known) <= 2


# --- which lane ---


def lanes(*ids: str, **weights: int) -> Semaphore:
    return Semaphore(SemaphoreSettings(1, 60, weights=weights), mode="closed", lanes=tuple(map(Lane, ids)))


def test_keys_beyond_the_limit_share_lanes_by_their_hash() -> None:
    with replaced(lanes_max=2, lanes_shared_max=1):
        full = lanes("normal:a", "normal:b", pro=3)
        assert lane_of(full, "a", "normal") == "normal:a"
        assert lane_of(full, "c", "normal") == lane_of(full, "d", "normal") == shared_lane_id(0, "normal")
        assert lane_of(full, "c", "high") == shared_lane_id(0, "high")
        assert lane_of(full, "pro", "low") == "low:pro"
        assert lane_of(full, "", "normal") == PLAIN
        shared = lanes("normal:a", "normal#0")
        assert lane_of(shared, "c", "normal") == "normal#0"
    assert lane_of(lanes("normal:a", "normal:b"), "c", "normal") == "normal:c"


def test_a_key_that_gets_a_weight_while_it_waits_in_a_shared_lane_does_not_overtake_itself() -> None:
    world = World()
    with replaced(lanes_max=1, lanes_shared_max=1):
        for id_, key in (("a1", "a"), ("b1", "b"), ("c1", "c"), ("c2", "c")):
            world.wait(id_, key)
        world.put_settings(SemaphoreSettings(1, 60, weights={"c": 100}))
        world.wait("c3", "c")
        granted = world.grants(5)
        assert [id_ for id_ in granted if id_[0] == "c"] == ["c1", "c2", "c3"]
        leases.signal(world.ports, "s", SignalRequest(world.held))
        world.settle()
        assert not world.semaphore.lanes


def test_a_key_that_gets_a_weight_keeps_its_own_lane_and_a_key_without_waits_gets_one() -> None:
    with replaced(lanes_max=1, lanes_shared_max=1):
        before = lanes("normal:a", "normal#0", "high:c")
        after = with_weights_of(before, replace(before, settings=SemaphoreSettings(1, 60, weights={"a": 2, "c": 3})))
        assert lane_of(after, "a", "normal") == "normal:a"
        assert lane_of(after, "c", "normal") == "normal#0"
        assert lane_of(after, "c", "high") == "high:c"
        assert lane_of(after, "c", "low") == "low:c"
        assert Semaphore.from_record(after.to_record(NOW)).lanes == after.lanes


@pytest.mark.parametrize(
    ("lane", "weight"), [("", 4), ("high:", 16), ("low:", 1), ("high:pro", 48), ("low:a:b", 1), ("normal#3", 4)]
)
def test_the_weight_of_a_lane_is_that_of_its_key_times_that_of_its_priority(lane: str, weight: int) -> None:
    assert weight_of(lanes(pro=3), Lane(lane)) == weight


def test_the_weights_of_the_priorities() -> None:
    assert PRIORITY_WEIGHTS == {"high": 16, "normal": 4, "low": 1}


# --- requests ---


@pytest.mark.parametrize(
    ("wait", "field", "detail"),
    [
        ({"key": "a"}, "key", "never waits"),
        ({"priority": "low"}, "priority", "never waits"),
        ({"continuation": CALL, "key": "a/b"}, "key", "without '/'"),
        ({"continuation": CALL, "key": "a" * 129}, "key", "128 bytes"),
        ({"continuation": CALL, "key": None}, "key", "1 to 128 bytes"),
        ({"continuation": CALL, "key": ".."}, "key", "not be '.', '..'"),
        ({"continuation": CALL, "priority": "urgent"}, "priority", "`high`, `normal` or `low`"),
        ({"continuation": CALL, "priority": ""}, "priority", "`high`, `normal` or `low`"),
    ],
)
def test_a_wait_that_is_not_allowed_names_its_field(wait: dict[str, Any], field: str, detail: str) -> None:
    with pytest.raises(BadSemaphore) as refused:
        WaitRequest("w", **wait)
    assert (refused.value.field, detail in refused.value.detail) == (field, True)


def test_a_body_without_a_continuation_names_no_priority_at_all() -> None:
    with pytest.raises(BadSemaphore, match="never waits") as refused:
        WaitRequest.from_request({"priority": "normal"}, id="w")
    assert refused.value.field == "priority"
    assert WaitRequest.from_request({"priority": None}, id="w") == WaitRequest("w", priority="normal")


@pytest.mark.parametrize(
    ("weights", "detail"),
    [
        ([], "an object"),
        (0, "an object"),
        ({"a": 0}, "from 1 to 1,000"),
        ({"a": 1001}, "from 1 to 1,000"),
        ({"a": True}, "an integer"),
        ({"a": 1.5}, "an integer"),
        ({"a/b": 2}, "without '/'"),
        ({f"k{number}": 2 for number in range(101)}, "at most 100"),
    ],
)
def test_weights_that_are_not_allowed(weights: Any, detail: str) -> None:
    with pytest.raises(BadSemaphore, match=detail) as refused:
        SemaphoreSettings.from_request({"permits": 1, "lease_seconds": 60, "weights": weights})
    assert refused.value.field == "weights"


def test_a_patch_of_weights_replaces_them() -> None:
    world = World(pro=3)
    assert settings.patch(
        world.ports, "s", SettingsPatch({"weights": {"free": 2, "one": 1}})
    ).view.semaphore.settings.weights == {"free": 2}
    settings.patch(world.ports, "s", SettingsPatch({"weights": {}}))
    assert "weights" not in (world.snapshot().data or {})
