"""A lease whose release was left for an admit run has ended: it is not renewed, and no second signal ends it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from signalbox.core.calls import Call
from signalbox.core.ports import Committed, Store, Write
from signalbox.core.problems import Contended, Unavailable
from signalbox.semaphores import tasks
from signalbox.semaphores.machine.decision_types import Loaded
from signalbox.semaphores.machine.leases import EndLease
from signalbox.semaphores.model.leases import Granted, Lease, parse_lease_id
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.requests import RenewRequest, SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, views, waits
from signalbox.testing.replaced_limits import replaced
from tests.unit.operations_platform import OperationsPlatform

CALL = Call("philosophers", "eat", {"seat": 1})


class World(OperationsPlatform):
    """A platform with a semaphore of one permit."""

    def __init__(self) -> None:
        super().__init__()
        settings.put(self.ports, "s", SemaphoreSettings(1, 60))

    def hold(self) -> str:
        lease = waits.wait(self.ports, "s", WaitRequest("a")).lease
        assert lease is not None
        return lease.id

    def claim(self, id_: str) -> tuple[Lease, Granted]:
        """Wait, and claim the grant; return the lease and what the task was granted."""
        waits.wait(self.ports, "s", WaitRequest(id_, CALL))
        granted = Granted.from_context([task for task in self.tasks if task.task == "eat"][-1].context["lease"])
        lease = leases.claim(self.ports, granted)
        assert lease is not None
        return lease, granted

    def leave(self, lease: str, operation: str = "first") -> bool:
        """Signal a lease as under contention: its release is left for an admit run."""
        return leases.leave_release(self.ports, "s", EndLease(*parse_lease_id(lease), operation))

    def renew(self, lease: str) -> bool:
        return leases.renew(self.ports, "s", RenewRequest(lease)) is not None

    def signal(self, lease: str, operation: str = "second") -> bool:
        return leases.signal(self.ports, "s", SignalRequest(lease, operation))

    def before_the_next_commit(self, act: Callable[[], object]) -> None:
        """Let another process act between the read and the commit of the next operation."""
        ports = self.ports

        def commit(writes: Sequence[Write]) -> Committed:
            self.ports = ports
            act()
            return ports.store.commit(writes)

        self.commit_with(commit, ports.store.commit)

    def commit_with(self, *ways: Callable[[Sequence[Write]], Committed]) -> None:
        """Make the next commits in these ways, and all later ones in the last."""
        self.ports = replace(self.ports, store=_Racing(self.ports.store, Once(*ways)))  # type: ignore[arg-type]  # the rest is the store's


class _Racing:
    def __init__(self, store: Store, commit: Callable[[Sequence[Write]], Committed]) -> None:
        self._store = store
        self.commit = commit

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


@pytest.fixture
def world() -> World:
    return World()


def test_a_signal_that_read_a_head_which_then_leaves_wakes_the_waiter_behind_it(world: World) -> None:
    settings.put(world.ports, "s", SemaphoreSettings(2, 60))
    first, second = (waits.wait(world.ports, "s", WaitRequest(id_)).lease for id_ in ("a", "b"))
    assert first
    assert second
    for request in (WaitRequest("head", CALL, permits=2), WaitRequest("next", CALL)):
        assert waits.wait(world.ports, "s", request).waiting
    for _ in range(3):
        world.advance(2)
        run_admit_runs(world)

    def leave() -> None:
        assert waits.cancel(world.ports, "s", "head")
        world.advance(2)
        run_admit_runs(world)

    world.before_the_next_commit(leave)
    assert world.signal(first.id)
    world.advance(2)
    run_admit_runs(world)
    assert granted_ids(world) == ["next"]


def test_a_release_by_the_grant_ends_the_token_of_the_delivery_that_took_it_over(world: World) -> None:
    _, granted = world.claim("a")
    assert waits.wait(world.ports, "s", WaitRequest("next", CALL)).waiting
    world.before_the_next_commit(lambda: leases.claim(world.ports, granted))
    end = EndLease(*parse_lease_id(granted.id), "first", by_grant=True)
    assert leases.leave_release(world.ports, "s", end)
    world.advance(2)
    run_admit_runs(world)
    assert granted_ids(world)[-1] == "next"


def test_a_release_by_the_grant_after_a_left_signal_returns_false_whatever_the_key_of_the_signal(world: World) -> None:
    lease, granted = world.claim("a")
    assert world.leave(lease.id, "another delivery")
    assert not leases.leave_release(world.ports, "s", EndLease(*parse_lease_id(granted.id), "x", by_grant=True))


class Crash(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("by_grant", [True, False])
def test_a_release_whose_process_crashed_before_its_nudge_is_applied_after_the_next_delivery(
    world: World, by_grant: bool
) -> None:
    lease, granted = world.claim("a")
    assert waits.wait(world.ports, "s", WaitRequest("next", CALL)).waiting
    world.advance(2)
    run_admit_runs(world)
    reliable = world.ports

    def commit(writes: Sequence[Write]) -> Committed:
        reliable.store.commit(writes)
        raise Crash

    world.commit_with(commit)
    with pytest.raises(Crash):
        world.leave(lease.id)
    world.ports = reliable
    assert not leases.release(world.ports, granted if by_grant else lease)
    world.advance(2)
    run_admit_runs(world)
    assert granted_ids(world)[-1] == "next"


def test_a_release_that_could_not_nudge_is_applied_after_the_next_delivery(world: World) -> None:
    _, granted = world.claim("a")
    assert waits.wait(world.ports, "s", WaitRequest("next", CALL)).waiting
    world.advance(2)
    run_admit_runs(world)
    world.refusal = Unavailable("no queue")
    with replaced(guarded_attempts_max=0):
        with pytest.raises(Unavailable):
            leases.release(world.ports, granted)
        world.refusal = None
        leases.release(world.ports, granted)
    world.advance(2)
    run_admit_runs(world)
    assert granted_ids(world)[-1] == "next"


@pytest.mark.parametrize("deliveries", [1, 2, 3])
def test_a_release_by_the_grant_whose_answer_is_lost_is_answered_that_it_was_its_own(
    world: World, deliveries: int
) -> None:
    granted = claimed_by(world, deliveries)
    reliable = world.ports

    def commit(writes: Sequence[Write]) -> Committed:
        reliable.store.commit(writes)
        raise Unavailable("the answer was lost")

    world.commit_with(commit, reliable.store.commit)
    assert waits.cancel(world.ports, "s", granted.id.partition("~")[0])
    assert not views.get(world.ports, "s").leases


@pytest.mark.parametrize("deliveries", [1, 2, 3])
def test_a_release_by_the_grant_that_is_applied_before_it_is_confirmed_is_its_own(
    world: World, deliveries: int
) -> None:
    granted = claimed_by(world, deliveries)
    world.advance(2)
    run_admit_runs(world)
    reliable = world.ports

    def commit(writes: Sequence[Write]) -> Committed:
        committed = reliable.store.commit(writes)
        tasks.admit(reliable, "s")
        return committed

    world.commit_with(commit, reliable.store.commit)
    end = EndLease(*parse_lease_id(granted.id), "first", by_grant=True)
    assert leases.leave_release(world.ports, "s", end)


def test_a_cancel_ends_the_token_of_the_delivery_that_took_the_grant_over(world: World) -> None:
    claimed_by(world, 2)
    assert waits.cancel(world.ports, "s", "a")
    assert not views.get(world.ports, "s").leases


def test_no_release_of_a_grant_that_was_not_claimed_is_left_for_later(world: World) -> None:
    waits.wait(world.ports, "s", WaitRequest("a", CALL))
    granted = Granted.from_context([task for task in world.tasks if task.task == "eat"][-1].context["lease"])
    assert leases.leave_release(world.ports, "s", EndLease(*parse_lease_id(granted.id), "first"))
    assert leases.claim(world.ports, granted) is None


def test_a_claim_that_meets_a_left_release_nudges(world: World) -> None:
    lease, granted = world.claim("a")
    assert world.leave(lease.id)
    world.tasks.clear()
    with pytest.raises(Contended):
        leases.claim(world.ports, granted)
    assert [task.task for task in world.tasks] == ["admit"]


def test_a_claim_of_a_semaphore_that_is_deleted_meanwhile_is_delivered_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, granted = world.claim("a")
    assert world.leave(lease.id)

    def deleted(*_: object) -> Loaded:
        raise NoSemaphore("s")

    monkeypatch.setattr(leases, "load", deleted)
    with pytest.raises(Contended):
        leases.claim(world.ports, granted)


def test_the_undo_of_a_late_renewal_does_not_end_the_token_of_another_delivery(world: World) -> None:
    _, granted = world.claim("a")
    world.advance(58)
    others: list[Lease | None] = []
    reliable = world.ports

    def commit(writes: Sequence[Write]) -> Committed:
        world.advance(5)
        committed = reliable.store.commit(writes)
        others.append(leases.claim(reliable, granted))
        return committed

    world.commit_with(commit, reliable.store.commit)
    assert leases.renew_granted(world.ports, granted) is None
    [other] = others
    assert other is not None
    assert [lease.lease_id for lease in views.get(reliable, "s").leases] == [other.id]


def claimed_by(world: World, deliveries: int) -> Granted:
    """Let some deliveries of one task claim its grant; return what it was granted."""
    _, granted = world.claim("a")
    for _ in range(deliveries - 1):
        assert leases.claim(world.ports, granted)
    return granted


def granted_ids(world: World) -> list[str]:
    """Return the ids of the waits that were granted, in their order."""
    return [task.context["lease"]["id"].partition("~")[0] for task in world.tasks if task.task == "eat"]


def run_admit_runs(world: World) -> None:
    due = [
        one for one in world.tasks if one.task == "admit" and (one.not_before is None or one.not_before <= world.now)
    ]
    for task in due:
        world.tasks.remove(task)
        tasks.TASKS[task.task](world.ports, task.payload)


@pytest.mark.parametrize(("seconds", "held"), [(0, True), (28, True), (32, False)])
def test_a_renewal_whose_answer_is_lost_is_confirmed_only_if_it_came_in_time(
    world: World, seconds: float, held: bool
) -> None:
    lease = world.hold()
    world.advance(30)
    reliable = world.ports

    def commit(writes: Sequence[Write]) -> Committed:
        world.ports = reliable
        world.advance(seconds)
        reliable.store.commit(writes)
        raise Unavailable("the answer is lost")

    world.commit_with(commit, reliable.store.commit)
    assert world.renew(lease) == held
    assert len(views.get(world.ports, "s").semaphore.leases) == held


class Once:
    """Commit the first time in one way, and then in another."""

    def __init__(self, *ways: Callable[[Sequence[Write]], Committed]) -> None:
        self._ways = list(ways)

    def __call__(self, writes: Sequence[Write]) -> Committed:
        way = self._ways.pop(0) if len(self._ways) > 1 else self._ways[0]
        return way(writes)


def test_a_lease_is_not_renewed(world: World) -> None:
    lease = world.hold()
    assert world.leave(lease)
    assert not world.renew(lease)
    tasks.admit(world.ports, "s")
    assert not world.renew(lease)


def test_the_permit_has_one_holder_when_the_admit_run_has_passed_it_on(world: World) -> None:
    lease = world.hold()
    waits.wait(world.ports, "s", WaitRequest("b", CALL))
    assert world.leave(lease)
    renewed = world.renew(lease)
    tasks.admit(world.ports, "s")
    holders = [held.id for held in views.get(world.ports, "s").leases]
    assert (renewed, holders) == (False, ["b"])


def test_a_task_does_not_renew_its_lease(world: World) -> None:
    lease, granted = world.claim("a")
    assert world.leave(lease.id)
    assert leases.renew_granted(world.ports, granted) is None


def test_a_renewal_asks_for_the_admit_run_that_a_crashed_process_has_not_created(world: World) -> None:
    lease = world.hold()
    assert world.leave(lease)
    world.tasks = []
    world.pass_time(5)
    assert not world.renew(lease)
    assert [task.task for task in world.tasks] == ["admit"]


def test_a_renewal_fails_if_the_release_is_left_before_its_commit(world: World) -> None:
    lease = world.hold()
    world.before_the_next_commit(lambda: world.leave(lease))
    assert not world.renew(lease)


@pytest.mark.parametrize("attempts_max", [0, 2])
def test_a_second_signal_finds_the_lease_ended(world: World, attempts_max: int) -> None:
    lease = world.hold()
    assert world.leave(lease)
    with replaced(guarded_attempts_max=attempts_max):
        assert not world.signal(lease)
        assert world.signal(lease, "first")
    tasks.admit(world.ports, "s")
    assert not world.signal(lease)
    assert world.signal(lease, "first")


def test_one_of_two_concurrent_signals_has_ended_the_lease(world: World) -> None:
    lease = world.hold()
    world.before_the_next_commit(lambda: world.leave(lease))
    assert not world.signal(lease)


def test_an_operator_finds_the_lease_ended(world: World) -> None:
    lease = world.hold()
    assert world.leave(lease)
    assert not leases.end_by_hand(world.ports, "s", SignalRequest(lease), "stuck")


def test_a_cancel_of_a_granted_wait_finds_its_lease_ended(world: World) -> None:
    lease, _ = world.claim("a")
    assert world.leave(lease.id)
    assert not waits.cancel(world.ports, "s", "a")


def test_a_task_that_returns_finds_its_lease_ended(world: World) -> None:
    lease, granted = world.claim("a")
    assert world.leave(lease.id)
    assert not leases.release(world.ports, granted)


def test_a_release_that_is_left_after_a_renewal_counts_until_the_new_end(world: World) -> None:
    lease = world.hold()
    world.pass_time(50)

    def renew_in_time() -> None:
        assert world.renew(lease)
        world.pass_time(20)

    world.before_the_next_commit(renew_in_time)
    assert world.leave(lease)


@pytest.mark.parametrize(("seconds", "held"), [(5, True), (15, False)])
def test_a_release_is_left_in_time_if_its_lease_is_live_at_the_commit(world: World, seconds: float, held: bool) -> None:
    lease = world.hold()
    world.pass_time(50)
    world.before_the_next_commit(lambda: world.pass_time(seconds))
    assert world.leave(lease) == held
