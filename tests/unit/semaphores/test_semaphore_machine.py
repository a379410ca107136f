"""What the transition tables of the machine do not state: several permits, pages, tokens, tasks, the alarm."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from signalbox.core.calls import Call
from signalbox.core.problems import Unavailable
from signalbox.semaphores.machine import deletion, leases, settings, wait_queue, waits
from signalbox.semaphores.machine.decision_types import (
    Loaded,
    QueueReads,
    Transition,
    Undecided,
    WaiterTransition,
    with_alarm,
)
from signalbox.semaphores.machine.leases import EndLease
from signalbox.semaphores.model.lanes import Mode
from signalbox.semaphores.model.leases import EndedLease, Release
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.model.waiters import ENDED, State, WaitAnswer
from signalbox.semaphores.problems import BadSemaphore
from signalbox.semaphores.requests import WaitRequest
from signalbox.testing.replaced_limits import replaced
from tests.unit.semaphores.semaphore_states import (
    CALL,
    INCARNATION,
    NOW,
    PAST,
    SOON,
    STATES,
    TOKEN,
    change_of,
    loaded,
    waiter,
    with_settings,
)

SETTINGS = SemaphoreSettings(1, 60)


def becomes(transition: WaiterTransition) -> str:
    return f"{transition.waiter.id} {change_of(transition)}"


def test_a_confirmed_waiter_that_can_never_be_granted_is_looked_at_by_an_admit_run() -> None:
    assert waits.confirm(loaded("closed held"), waiter("b", permits=2)).nudge


@pytest.mark.parametrize("state", STATES)
def test_settings_without_more_permits_change_nothing_else(state: str) -> None:
    before = loaded(state)
    after = settings.change_settings(before, SemaphoreSettings(1, 90))
    assert after.semaphore == with_settings(before.semaphore, lease_seconds=90)
    assert not after.nudge


def test_fewer_permits_hold_for_new_grants_only() -> None:
    two = replace(loaded("open held"), semaphore=with_settings(loaded("open held").semaphore, permits=2))
    fewer = settings.change_settings(two, SETTINGS)
    assert fewer.semaphore.leases == two.semaphore.leases
    request = WaitRequest("x")
    assert waits.acquire(replace(two, semaphore=fewer.semaphore), request).answer == WaitAnswer()


@pytest.mark.parametrize(
    ("state", "cancelled", "timed_out"),
    [
        ("waiting", "cancelled", "timed_out"),
        ("granted", None, None),
        ("lost", None, None),
        ("cancelled", None, None),
        ("timed_out", None, None),
    ],
)
def test_only_a_waiter_leaves_the_wait_queue(state: State, cancelled: str | None, timed_out: str | None) -> None:
    late = waiter("b", state, deadline_at=PAST, on_timeout=CALL)
    departure = waits.cancel("s", late, NOW)
    assert (departure and departure.transition.waiter.state) == cancelled
    departure = waits.time_out("s", late, NOW)
    assert (departure and departure.transition.waiter.state) == timed_out
    assert len(departure.effects if departure else ()) == (state == "waiting")


def test_a_deadline_that_is_not_over_is_retried() -> None:
    with pytest.raises(Unavailable):
        waits.time_out("s", waiter("b", deadline_at=SOON), NOW)


def test_an_early_admit_run_is_retried() -> None:
    with pytest.raises(Unavailable):
        wait_queue.check_due(NOW, SOON)
    wait_queue.check_due(NOW, NOW)


def test_a_wait_that_could_never_be_granted_is_refused() -> None:
    with pytest.raises(BadSemaphore):
        waits.wait(loaded("open free"), WaitRequest("x", CALL, permits=2))


@pytest.mark.parametrize(
    ("state", "deleted"),
    [
        ("open free", True),
        ("open held-late", True),
        ("open claimed-late", True),
        ("open granted-late", False),
        ("open held", False),
        ("opening free", False),
        ("closed free", False),
    ],
)
def test_a_semaphore_is_unused_without_holders_and_waiters(state: str, deleted: bool) -> None:
    semaphore = with_settings(loaded(state).semaphore, delete_after_seconds=60)
    assert deletion.is_unused(semaphore, NOW, NOW - timedelta(seconds=60)) is deleted
    assert not deletion.is_unused(semaphore, NOW, NOW - timedelta(seconds=59))
    assert not deletion.is_unused(with_settings(semaphore, delete_after_seconds=None), NOW, NOW - timedelta(days=99))


@pytest.mark.parametrize(
    ("lease", "kept", "ended"),
    [
        ("free", 0, 0),
        ("held", 1, 0),
        ("granted", 1, 0),
        ("claimed", 1, 0),
        ("held-late", 0, 1),
        ("granted-late", 1, 0),
        ("claimed-late", 1, 0),
    ],
)
def test_an_expired_lease_is_ended_but_a_continuations_is_kept_for_its_task(lease: str, kept: int, ended: int) -> None:
    after, evicted = loaded(f"open {lease}").semaphore.expire_leases(NOW)
    assert (len(after.leases), len(after.ended), evicted) == (kept, ended, ())


def test_expired_leases_of_continuations_beyond_the_bound_are_evicted() -> None:
    with replaced(expired_leases_max=0):
        after, evicted = loaded("open granted-late").semaphore.expire_leases(NOW)
    assert (after.leases, [lease.id for lease in evicted]) == ((), ["a"])


def granted(permits: int, *wanted: int, stale: int = 0) -> Transition[None]:
    """Run an admit run for waiters that need these numbers of permits, behind `stale` ones of an earlier semaphore."""
    free = Semaphore(SemaphoreSettings(permits, 60), mode="closed")
    old = [waiter(f"old{index}", incarnation=1) for index in range(stale)]
    queue = (*old, *(waiter(f"w{index}", permits=each) for index, each in enumerate(wanted)))
    return wait_queue.admit(Loaded("s", free, INCARNATION, NOW, reads=QueueReads(90, in_order=True), waiters=queue))


@pytest.mark.parametrize(
    ("permits", "wanted", "names", "mode", "nudge"),
    [
        (3, (1, 1, 1), ["w0", "w1", "w2"], "opening", True),
        (2, (1, 1, 1), ["w0", "w1"], "closed", False),
        (2, (1, 2, 1), ["w0"], "closed", False),
        (3, (3, 1), ["w0"], "closed", False),
        (3, (2, 1), ["w0", "w1"], "opening", True),
    ],
)
def test_permits_go_to_the_head_in_order_and_a_head_that_needs_many_is_not_overtaken(
    permits: int, wanted: tuple[int, ...], names: list[str], mode: Mode, nudge: bool
) -> None:
    transition = granted(permits, *wanted)
    assert [one.waiter.id for one in transition.waiters] == names
    assert [effect.context["lease"]["id"].partition("~")[0] for effect in transition.effects] == names
    assert (transition.semaphore.mode, transition.nudge) == (mode, nudge)


def test_a_head_that_needs_more_permits_than_exist_ends_and_blocks_no_waiter() -> None:
    transition = granted(3, 4, 1)
    assert [becomes(one) for one in transition.waiters] == ["w1 granted", "w0 refused"]
    assert transition.nudge


@pytest.mark.parametrize("state", ["closed held b", "closed granted b", "closed claimed b"])
def test_a_signal_passes_by_a_head_that_wants_more_permits_than_there_are(state: str) -> None:
    before = loaded(state, lambda _: QueueReads(waiters=1))
    before = replace(before, waiters=(waiter("b", permits=2, on_timeout=CALL),))
    transition = leases.end_lease(before, EndLease("a", TOKEN, "op"))
    assert ([becomes(one) for one in transition.waiters], transition.nudge) == (["b refused"], True)
    assert [(effect.task, effect.context) for effect in transition.effects] == [("eat", {"reason": "permits"})]


def lowered_to_one(*wanted: int, payload_bytes: int = 0) -> Transition[Semaphore]:
    """Lower three permits to one, with waiters that need these numbers of permits."""
    late = Call("philosophers", "leave", {"note": "x" * payload_bytes})
    queue = tuple(waiter(f"w{index}", permits=each, on_timeout=late) for index, each in enumerate(wanted))
    before = replace(loaded("closed held"), semaphore=with_settings(loaded("closed held").semaphore, permits=3))
    reads = settings.settings_reads(before, SETTINGS)
    page = queue[: reads.waiters]
    return settings.change_settings(
        replace(before, reads=reads, waiters=page, more_waiters=len(page) == reads.waiters), SETTINGS
    )


def test_lowering_the_permits_ends_the_waits_that_want_more() -> None:
    transition = lowered_to_one(1, 3, 1, 2)
    assert [becomes(one) for one in transition.waiters] == ["w1 refused", "w3 refused"]
    assert [(effect.task, effect.context) for effect in transition.effects] == [("leave", {"reason": "permits"})] * 2
    assert transition.nudge


@pytest.mark.parametrize(
    ("wanted", "payload_bytes", "refused", "after"),
    [((2, 2, 2), 0, ["w0", "w1"], "w1"), ((1, 1, 2), 0, [], "w1"), ((2, 2), 400_000, ["w0"], "w0")],
)
def test_lowering_the_permits_with_many_waiters_ends_them_in_pages(
    wanted: tuple[int, ...], payload_bytes: int, refused: list[str], after: str
) -> None:
    with replaced(grants_page_max=2):
        transition = lowered_to_one(*wanted, payload_bytes=payload_bytes)
    assert [one.waiter.id for one in transition.waiters] == refused
    assert [effect.payload["after"][1] for effect in transition.effects if effect.task == "refuse"] == [after]


def test_only_fewer_permits_read_the_wait_queue() -> None:
    for state in STATES:
        assert settings.settings_reads(loaded(state), SemaphoreSettings(2, 90)) == QueueReads()


def test_waiters_of_an_earlier_semaphore_are_deleted_and_never_granted() -> None:
    transition = granted(2, 1, stale=2)
    assert [becomes(one) for one in transition.waiters] == ["w0 granted", "old0 removed", "old1 removed"]


def test_units_of_an_earlier_semaphore_are_ended_as_many_as_fit_into_one_commit() -> None:
    unit = '{"batch": "b", "index": 0}'
    queue = tuple(waiter(f"old{index}", incarnation=1, unit=unit) for index in range(3))
    free = Loaded(
        "s", Semaphore(SemaphoreSettings(1, 60), mode="closed"), INCARNATION, NOW, reads=QueueReads(90), waiters=queue
    )
    payload_bytes = len(CALL.to_record()["payload"])
    with replaced(grant_bytes_max=2 * payload_bytes):
        first = wait_queue.admit(free)
        second = wait_queue.admit(replace(free, waiters=queue[2:], semaphore=replace(free.semaphore, mode="opening")))
    assert [becomes(one) for one in first.waiters] == ["old0 removed", "old1 removed"]
    assert [task.context["unit"]["wait_ended"] for task in first.effects] == ["deleted", "deleted"]
    assert first.nudge
    assert [becomes(one) for one in second.waiters] == ["old2 removed"]
    assert len(second.effects) == 1


def test_tokens_grow_with_every_grant_and_every_second_claim() -> None:
    transition = granted(2, 1, 1)
    first, second = transition.semaphore.leases
    again, claimed = transition.semaphore.claim(replace(first), NOW)
    assert first.token < second.token
    taken, retaken = replace(again, leases=(claimed,)).claim(claimed, NOW)
    assert claimed.token == first.token
    assert second.token < retaken.token < taken.next_token


@pytest.mark.parametrize("id_", ["a", 'a","b', "a]", "é", ""])
def test_an_ended_lease_is_one_text_of_the_record_that_its_wait_finds(id_: str) -> None:
    ended = [EndedLease(id_, 1, SOON), EndedLease(id_, 2, NOW, "op", in_time=True, permits=3)]
    others = [EndedLease(f"{id_}{more}", 3, NOW) for more in ("a", '"', ",", '",1')]
    semaphore = Semaphore(SETTINGS).remember([*ended, *others])
    record = semaphore.to_record(NOW)
    assert [type(value) for value in record["ended"]] == [str] * 6
    read = Semaphore.from_record(record)
    assert [read.ended_lease(id_), read.ended_lease(id_, 1), read.ended_lease(id_, 3)] == [ended[1], ended[0], None]
    assert [read.ended_lease(other.id) for other in others] == others


@pytest.mark.parametrize(("created_at", "operation"), [(NOW, "op"), (SOON, "")])
def test_a_left_release_counts_as_a_signal_only_if_it_was_created_in_time(created_at: datetime, operation: str) -> None:
    left = Release("a", TOKEN, "op", INCARNATION, created_at)
    transition = wait_queue.admit(loaded("closed claimed", releases=(left,)))
    ended = transition.semaphore.ended_lease("a")
    assert ended is not None
    assert (ended.operation, ended.in_time) == (operation, bool(operation))
    assert transition.releases_applied == (left,)


@pytest.mark.parametrize(
    ("operation", "written", "answer"), [("op", PAST, SOON), ("other", PAST, None), ("op", SOON, None)]
)
def test_a_repeated_signal_is_answered_from_the_record(
    operation: str, written: datetime, answer: datetime | None
) -> None:
    command = EndLease("a", TOKEN, "op")
    ended = leases.end_lease(loaded("open held"), command).semaphore
    later = replace(loaded("open held"), semaphore=ended, update_time=written)
    assert leases.end_lease(later, replace(command, operation=operation)).answer == answer


def test_a_claim_of_an_expired_grant_whose_deadline_is_over_times_out() -> None:
    wait = waiter("a", "granted", grant=TOKEN, deadline_at=PAST, on_timeout=CALL)
    transition = leases.claim(loaded("open granted-late", wait=wait, wait_read=True), "a", TOKEN)
    assert [becomes(one) for one in transition.waiters] == ["a timed_out"]
    assert [effect.task for effect in transition.effects] == ["eat"]


def test_a_second_delivery_takes_the_release_of_the_first() -> None:
    transition = leases.claim(loaded("open claimed"), "a", TOKEN)
    assert [one.lease_id for one in transition.releases_created] == [f"a~{TOKEN}"]
    assert leases.claim(loaded("open granted"), "a", TOKEN).releases_created == ()


@pytest.mark.parametrize(
    ("state", "alarm"),
    [("open held", None), ("closed held b", SOON), ("closed held-late b", None), ("opening claimed b", SOON)],
)
def test_the_alarm_is_set_for_the_earliest_end_while_the_queue_may_have_waiters(
    state: str, alarm: datetime | None
) -> None:
    before = loaded(state)
    assert with_alarm(Transition(before.semaphore, None), NOW).semaphore.alarm_at == alarm


def test_a_repeated_acquire_after_its_signal_is_over() -> None:
    signalled = leases.end_lease(loaded("open held"), EndLease("a", TOKEN, "op")).semaphore
    later = replace(loaded("open held"), semaphore=signalled)
    assert waits.acquire(later, WaitRequest("a")).answer == ENDED


def test_a_repeated_acquire_whose_release_was_left_to_an_admit_run_is_over() -> None:
    left = Release("a", TOKEN, "op", INCARNATION)
    assert waits.acquire(loaded("open held", release=left), WaitRequest("a")).answer == ENDED
    older = replace(left, token=TOKEN - 1)
    assert waits.acquire(loaded("open held", release=older), WaitRequest("a")).answer.acquired


def test_a_confirmed_waiter_of_an_earlier_semaphore_is_retried() -> None:
    with pytest.raises(Unavailable):
        waits.confirm(loaded("open free"), waiter("b", incarnation=1))


def test_the_record_of_an_earlier_semaphore_is_deleted_before_a_new_waiter_is_created() -> None:
    old = waiter("x", incarnation=1)
    transition = waits.wait(loaded("open held", wait=old, wait_read=True), WaitRequest("x", CALL))
    assert transition.answer is Undecided.STALE_RECORD
    assert transition.waiters == (WaiterTransition("removed", old),)
