"""What semaphores cost, to the last round trip: these figures may only fall."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace

import pytest

from signalbox.adapters.cost_meter import Cost, measure
from signalbox.core.calls import Call
from signalbox.semaphores import sweep, tasks
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.model.waiters import WaitAnswer
from signalbox.semaphores.requests import RenewRequest, SemaphoresQuery, SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, views, waits
from tests.unit.cost_table import is_within, row_cost
from tests.unit.operations_platform import OperationsPlatform

CALL = Call("philosophers", "eat", {"seat": 1})


class World(OperationsPlatform):
    """The platform with one semaphore of one permit."""

    def __init__(self) -> None:
        super().__init__()
        settings.put(self.ports, "s", SemaphoreSettings(1, 60))

    def wait(self, id_: str, continuation: Call | None = CALL) -> WaitAnswer:
        return waits.wait(self.ports, "s", WaitRequest(id_, continuation))

    def continuation(self) -> Granted:
        """Return the lease in the context of the last continuation."""
        return Granted.from_context([task for task in self.tasks if task.task == "eat"][-1].context["lease"])

    def next_continuation(self) -> Granted:
        """Take the oldest continuation from the queue; return its lease."""
        oldest = next(task for task in self.tasks if task.task == "eat")
        self.tasks.remove(oldest)
        return Granted.from_context(oldest.context["lease"])

    def admit_what_is_due(self) -> None:
        for task in [one for one in self.tasks if one.task == "admit" and one.not_before and one.not_before < self.now]:
            self.tasks.remove(task)
            tasks.admit(self.ports, "s")

    def hold(self, id_: str) -> str:
        answer = waits.wait(self.ports, "s", WaitRequest(id_))
        assert answer.lease is not None
        return answer.lease.id


@pytest.fixture
def world() -> World:
    return World()


def cost(act: Callable[[], object]) -> Cost:
    with measure() as counted:
        act()
    return counted


def test_acquiring_a_free_permit(world: World) -> None:
    assert cost(lambda: world.wait("a", None)) == row_cost("semaphores", "acquire")


def test_acquiring_when_no_permit_is_free(world: World) -> None:
    world.hold("a")
    assert cost(lambda: world.wait("b", None)) == row_cost("semaphores", "acquire_none")


def test_acquiring_with_a_continuation(world: World) -> None:
    assert cost(lambda: world.wait("a")) == row_cost("semaphores", "wait")


def test_a_continuations_claim(world: World) -> None:
    world.wait("a")
    given = world.continuation()
    assert cost(lambda: leases.claim(world.ports, given)) == row_cost("semaphores", "claim")


def test_signalling_without_waiters(world: World) -> None:
    lease = world.hold("a")
    assert cost(lambda: leases.signal(world.ports, "s", SignalRequest(lease))) == row_cost("semaphores", "signal")


def test_renewing(world: World) -> None:
    lease = world.hold("a")
    assert cost(lambda: leases.renew(world.ports, "s", RenewRequest(lease))) == row_cost("semaphores", "signal")


def test_a_wait_that_is_first_in_the_queue_arms_the_alarm(world: World) -> None:
    world.hold("a")
    assert cost(lambda: world.wait("b")) == row_cost("semaphores", "wait_first")


def test_a_wait_that_joins_a_queue(world: World) -> None:
    world.hold("a")
    world.wait("b")
    assert cost(lambda: world.wait("c")) == row_cost("semaphores", "wait_behind")  # a write costs three reads


def lane_wait(world: World, id_: str, key: str = "a") -> Cost:
    return cost(lambda: waits.wait(world.ports, "s", WaitRequest(id_, CALL, key=key)))


def test_a_wait_in_a_lane_costs_what_a_wait_in_a_queue_does(world: World) -> None:
    world.hold("holder")
    assert lane_wait(world, "a1") == row_cost("semaphores", "wait_first")
    assert lane_wait(world, "a2") == row_cost("semaphores", "wait_behind")
    assert lane_wait(world, "b1", "b") == row_cost("semaphores", "wait_lane_first")
    world.wait("plain")
    assert lane_wait(world, "b2", "b") == row_cost("semaphores", "wait_behind")


def test_a_signal_that_grants_to_a_lane_reads_two_waiters_of_it(world: World) -> None:
    lease = world.hold("holder")
    for number in range(3):
        for key in "abc":
            lane_wait(world, f"{key}{number}", key)
            world.pass_time(1)
    world.pass_time(25)  # the alarm is early enough
    granting = cost(lambda: leases.signal(world.ports, "s", SignalRequest(lease)))
    assert granting == row_cost("semaphores", "signal_lanes")


def test_a_signal_passes_by_an_empty_lane_for_a_read(world: World) -> None:
    lease = world.hold("holder")
    for key in "abbb":
        lane_wait(world, f"{key} {world.now}", key)
        world.pass_time(1)
    [only] = [waiter.id for waiter in views.get(world.ports, "s").waiters or () if waiter.request.key == "a"]
    waits.cancel(world.ports, "s", only)
    world.pass_time(30)
    granting = cost(lambda: leases.signal(world.ports, "s", SignalRequest(lease)))
    assert granting == row_cost("semaphores", "signal_lanes", "signal_empty")


def test_a_wait_on_the_combining_path(world: World) -> None:
    world.hold("a")
    world.wait("b")
    combining = cost(lambda: waits.combine(world.ports, "s", WaitRequest("c", CALL)))
    assert combining == Cost(round_trips=3, reads=2, writes=1)


def test_an_admit_run_costs_a_wait_one_read_and_its_share_of_the_rest(world: World) -> None:
    settings.put(world.ports, "s", SemaphoreSettings(50, 60))
    for index in range(50):
        waits.combine(world.ports, "s", WaitRequest(f"w{index}", CALL))
    run = cost(lambda: tasks.admit(world.ports, "s"))
    assert (run.reads, run.writes, run.deletes) == (1 + 1 + 50, 1 + 50 + 1, 1)
    assert run.tasks == 50 + 2  # the alarm, and the run that opens


def cost_of_a_pair(clients: int, rounds: int = 100) -> Counter[str]:
    """Return the cost of a wait, its task and its signal among this number of clients at three permits.

    They wait ten milliseconds apart, so a read of only as many waiters as are granted does not show their order.
    """
    world = World()
    settings.put(world.ports, "s", SemaphoreSettings(3, 60))
    for client in range(clients):
        world.wait(f"{client} first")
        world.pass_time(0.01)

    def pair(number: int) -> None:
        lease = leases.claim(world.ports, world.next_continuation())
        assert lease is not None
        leases.signal(world.ports, "s", SignalRequest(lease.id))
        world.wait(f"{lease.id.partition(' ')[0]} {number}")
        world.pass_time(0.01)
        world.admit_what_is_due()

    total: Counter[str] = Counter()
    for number in range(rounds):
        total.update(asdict(cost(partial(pair, number))))
    return Counter({name: count / rounds for name, count in total.items()})


def test_a_pair_among_64_clients_costs_about_what_it_does_alone() -> None:
    alone, many = cost_of_a_pair(1), cost_of_a_pair(64)
    assert (alone["reads"], alone["writes"]) == (3, 5)
    assert many["reads"] <= alone["reads"] + 3.5
    assert many["writes"] <= alone["writes"] + 1
    assert many["tasks"] <= alone["tasks"] + 0.5
    assert is_within("semaphores", "pair", SimpleNamespace(**many), 1)


def cost_of_granting_one_more(waiters: int) -> Cost:
    world = World()
    lease = world.hold("first")
    for number in range(waiters):
        world.wait(f"w{number}")
        world.pass_time(0.1 if number < 10 else 0)  # the head's order is certain: no further waiters are read
    return cost(lambda: leases.signal(world.ports, "s", SignalRequest(lease)))


@pytest.mark.marathon
def test_granting_to_the_head_of_ten_thousand_waiters_costs_what_it_does_with_ten() -> None:
    assert cost_of_granting_one_more(10_000) == cost_of_granting_one_more(10)


def test_looking_for_deadlocks(world: World) -> None:
    waits.wait(world.ports, "s", WaitRequest("a", CALL, holder="a"))
    leases.claim(world.ports, world.continuation())
    for id_ in ("b", "c"):
        waits.wait(world.ports, "s", WaitRequest(id_, CALL, holder=id_))
    assert cost(lambda: views.find_deadlocks(world.ports)) == row_cost("semaphores", "deadlocks", n=1, h=1, w=2)


def test_a_signal_that_passes_the_permit_on(world: World) -> None:
    lease = world.hold("a")
    world.wait("b")
    passing = cost(lambda: leases.signal(world.ports, "s", SignalRequest(lease)))
    # The alarm stands at 60 s; the continuation must claim within 30 s: one more task, in the same round trip.
    assert passing == row_cost("semaphores", "signal_grants", "signal_alarm")


def test_a_signal_reads_one_waiter_more_than_it_grants_to_know_their_order(world: World) -> None:
    lease = world.hold("a")
    for id_ in "bcdef":
        world.wait(id_)
        world.pass_time(1)
    passing = cost(lambda: leases.signal(world.ports, "s", SignalRequest(lease)))
    assert passing == row_cost("semaphores", "signal_grants", "signal_more", "signal_alarm")


def test_a_signal_reads_on_where_waits_came_close_together(world: World) -> None:
    lease = world.hold("a")
    for index in range(100):
        world.wait(f"w{index}")
        world.pass_time(0.01)
    passing = cost(lambda: leases.signal(world.ports, "s", SignalRequest(lease)))
    assert passing == Cost(round_trips=6, reads=1 + 2 + 8, writes=3, deletes=2, tasks=2)


def test_a_signal_that_passes_the_permit_on_when_the_alarm_is_early_enough(world: World) -> None:
    lease = world.hold("a")
    world.wait("b")
    world.pass_time(31)
    passing = cost(lambda: leases.signal(world.ports, "s", SignalRequest(lease)))
    assert passing == row_cost("semaphores", "signal_grants")


def test_showing_a_semaphore_reads_its_waiters_and_the_receipts_of_its_leases(world: World) -> None:
    world.hold("a")
    assert cost(lambda: views.get(world.ports, "s")) == row_cost("semaphores", "show", w=0)
    settings.put(world.ports, "s", SemaphoreSettings(3, 60))
    for id_ in ("b", "c", "d", "e"):
        world.wait(id_)
    assert cost(lambda: views.get(world.ports, "s")) == row_cost("semaphores", "show", "show_leases", w=2, h=2)


def test_a_list_of_semaphores_costs_a_read_each_and_with_waiters_a_count_each_more(world: World) -> None:
    for name in ("t", "u"):
        settings.put(world.ports, name, SemaphoreSettings(1, 60))
    listing = SemaphoresQuery.from_request({})
    assert cost(lambda: views.find(world.ports, listing)) == row_cost("semaphores", "list", n=3)
    world.hold("a")
    world.wait("b")
    waiting = SemaphoresQuery.from_request({"waiting": "true"})
    assert cost(lambda: views.find(world.ports, waiting)) == row_cost("semaphores", "list_waiting", n=1)


def test_a_sweep_that_finds_nothing_due(world: World) -> None:
    world.hold("a")
    world.wait("b")
    assert cost(lambda: sweep.sweep(world.ports)) == Cost(round_trips=1, reads=1)
