"""The semaphore as a machine: every state and every command, with the transition that must follow.

A state is written ``MODE LEASE [WAITER]``: the mode; the lease of the wait `a` (``free``: none; ``held``: acquired
without a continuation; ``granted``: a continuation's, not yet claimed; ``claimed``: by its task; ``-late``: expired);
and `b`, if it is in the wait queue. There is one permit. A row of a table reads: the state, the mode that follows, the
answer, what becomes of waiters (``b granted``), and whether an admit run must follow (``nudge``).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

import pytest

from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadSemaphore, Unavailable
from shared.semaphores.rules import admission, lease_commands, upkeep, wait_commands
from shared.semaphores.rules.lease_commands import EndLease, Renewal
from shared.semaphores.rules.leases import GrantedLease, LeaseRecord, Release
from shared.semaphores.rules.requests import SemaphoreSettings, WaitRequest
from shared.semaphores.rules.semaphores import Mode, Semaphore
from shared.semaphores.rules.transitions import Loaded, QueueReads, Rule, Transition, WaiterTransition, with_alarm
from shared.semaphores.rules.waiters import ENDED, State, WaitAnswer, Waiter

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON, PAST = NOW + timedelta(seconds=10), NOW - timedelta(seconds=1)
INCARNATION = 7
TOKEN = 100
CALL = Call("philosophers", "eat", {"seat": 1})
SETTINGS = SemaphoreSettings(1, 60)

Reads = Callable[[Loaded], QueueReads]


def lease_of_a(kind: str) -> tuple[LeaseRecord, ...]:
    if kind == "free":
        return ()
    kind, _, late = kind.partition("-")
    ends_at = PAST if late else SOON
    return (LeaseRecord("a", TOKEN, TOKEN, ends_at, 1, 60, continued=kind != "held", claimed=kind != "granted"),)


def waiter(id_: str, state: State = "waiting", **more: Any) -> Waiter:
    joined = NOW - timedelta(minutes=1)
    known: dict[str, Any] = {"incarnation": INCARNATION, "joined": joined, "since": joined, "version": joined} | more
    return Waiter(id=id_, continuation=CALL, state=state, **known)


def loaded(state: str, reads: Reads | None = None, **more: Any) -> Loaded:
    """Return what would be loaded in a state: of the wait queue only what the command reads."""
    mode, lease, *waiting = state.split()
    semaphore = Semaphore(1, 60, leases=lease_of_a(lease), mode=mode, next_token=TOKEN + 1)  # type: ignore[arg-type]
    before = Loaded("s", semaphore, INCARNATION, NOW, update_time=PAST, **more)
    wanted = reads(before) if reads else QueueReads()
    return replace(before, reads=wanted, waiters=tuple(waiter(id_) for id_ in waiting)[: wanted.waiters])


def said(answer: Any) -> str:
    """Return an answer in a word."""
    if answer is wait_commands.JOIN_ALONE:
        return "joins alone"
    match answer:
        case WaitAnswer(lease=GrantedLease(id=id_, token=token)):
            return f"lease {'new' if token > TOKEN else id_}"
        case WaitAnswer(waiting=waiting):
            return "ended" if answer.ended else "waiting" if waiting else "not acquired"
        case LeaseRecord(token=token):
            return "runs" if token == TOKEN else "runs anew"
        case Renewal(after=after):
            return f"until +{(after.ends_at - NOW).seconds}"
        case datetime():
            return "released"
    return "none" if answer is None else type(answer).__name__.lower()


def becomes(one: WaiterTransition) -> str:
    return f"{one.waiter.id} {one.waiter.state if one.kind == 'left' else one.kind}"


def row(state: str, transition: Transition[Any]) -> tuple[str, ...]:
    """Return the row of a table."""
    waiters = ", ".join(map(becomes, transition.waiters)) or "-"
    nudged = "nudge" if transition.nudge else "-"
    return state, transition.semaphore.mode, said(transition.answer), waiters, nudged


def table(text: str) -> list[tuple[str, ...]]:
    return [tuple(cell.strip() for cell in line.split("|")) for line in text.strip().splitlines()]


def apply(expected: tuple[str, ...], rule: Rule[Any], reads: Reads | None = None, **more: Any) -> tuple[str, ...]:
    """Apply a command in the state of a row."""
    return row(expected[0], rule(loaded(expected[0], reads, **more)))


STATES = """
open free
open held
open held-late
open granted
open granted-late
open claimed
open claimed-late
opening free
opening held
opening free b
opening claimed b
closed free
closed held
closed free b
closed held b
closed held-late b
closed granted b
closed granted-late b
closed claimed b
closed claimed-late b
"""


ACQUIRE = """
open free             | open    | lease new    | -           | -
open held             | open    | not acquired | -           | -
open held-late        | open    | lease new    | -           | -
open granted          | open    | not acquired | -           | -
open granted-late     | open    | lease new    | -           | -
open claimed          | open    | not acquired | -           | -
open claimed-late     | open    | lease new    | -           | -
opening free          | opening | lease new    | -           | -
opening held          | opening | not acquired | -           | -
opening free b        | opening | not acquired | -           | -
opening claimed b     | opening | not acquired | -           | -
closed free           | closed  | lease new    | -           | -
closed held           | closed  | not acquired | -           | -
closed free b         | closed  | not acquired | -           | -
closed held b         | closed  | not acquired | -           | -
closed held-late b    | closed  | not acquired | -           | -
closed granted b      | closed  | not acquired | -           | -
closed granted-late b | closed  | not acquired | -           | -
closed claimed b      | closed  | not acquired | -           | -
closed claimed-late b | closed  | not acquired | -           | -
"""


@pytest.mark.parametrize("expected", table(ACQUIRE), ids=lambda expected: expected[0])
def test_an_acquire_takes_a_free_permit_unless_somebody_waits(expected: tuple[str, ...]) -> None:
    request = WaitRequest("x")
    rule = partial(wait_commands.acquire, request=request)
    assert apply(expected, rule, partial(wait_commands.wait_reads, request=request)) == expected


ACQUIRE_REPEATED = """
open free             | open    | lease new    | -           | -
open held             | open    | lease a~100  | -           | -
open held-late        | open    | ended        | -           | -
open granted          | open    | not acquired | -           | -
open granted-late     | open    | lease new    | -           | -
open claimed          | open    | not acquired | -           | -
open claimed-late     | open    | lease new    | -           | -
opening free          | opening | lease new    | -           | -
opening held          | opening | lease a~100  | -           | -
opening free b        | opening | not acquired | -           | -
opening claimed b     | opening | not acquired | -           | -
closed free           | closed  | lease new    | -           | -
closed held           | closed  | lease a~100  | -           | -
closed free b         | closed  | not acquired | -           | -
closed held b         | closed  | lease a~100  | -           | -
closed held-late b    | closed  | ended        | -           | -
closed granted b      | closed  | not acquired | -           | -
closed granted-late b | closed  | not acquired | -           | -
closed claimed b      | closed  | not acquired | -           | -
closed claimed-late b | closed  | not acquired | -           | -
"""


@pytest.mark.parametrize("expected", table(ACQUIRE_REPEATED), ids=lambda expected: expected[0])
def test_a_repeated_acquire_gets_its_lease_for_as_long_as_it_lives(expected: tuple[str, ...]) -> None:
    request = WaitRequest("a")
    rule = partial(wait_commands.acquire, request=request)
    assert apply(expected, rule, partial(wait_commands.wait_reads, request=request)) == expected


WAIT = """
open free             | open    | lease new    | x created   | -
open held             | closed  | waiting      | x created   | -
open held-late        | open    | lease new    | x created   | -
open granted          | closed  | waiting      | x created   | -
open granted-late     | open    | lease new    | x created   | -
open claimed          | closed  | waiting      | x created   | -
open claimed-late     | open    | lease new    | x created   | -
opening free          | opening | lease new    | x created   | -
opening held          | closed  | waiting      | x created   | -
opening free b        | closed  | waiting      | x created   | nudge
opening claimed b     | closed  | waiting      | x created   | -
closed free           | closed  | lease new    | x created   | -
closed held           | closed  | joins alone  | -           | -
closed free b         | closed  | waiting      | x created   | nudge
closed held b         | closed  | joins alone  | -           | -
closed held-late b    | closed  | waiting      | x created   | nudge
closed granted b      | closed  | joins alone  | -           | -
closed granted-late b | closed  | waiting      | x created   | nudge
closed claimed b      | closed  | joins alone  | -           | -
closed claimed-late b | closed  | waiting      | x created   | nudge
"""


@pytest.mark.parametrize("expected", table(WAIT), ids=lambda expected: expected[0])
def test_a_wait_is_granted_or_joins_the_wait_queue(expected: tuple[str, ...]) -> None:
    request = WaitRequest("x", CALL)
    rule = partial(wait_commands.wait, request=request)
    assert apply(expected, rule, partial(wait_commands.wait_reads, request=request)) == expected


CONFIRM = """
open free             | closed  | waiting      | -           | nudge
open held             | closed  | waiting      | -           | nudge
open held-late        | closed  | waiting      | -           | nudge
open granted          | closed  | waiting      | -           | nudge
open granted-late     | closed  | waiting      | -           | nudge
open claimed          | closed  | waiting      | -           | nudge
open claimed-late     | closed  | waiting      | -           | nudge
opening free          | closed  | waiting      | -           | nudge
opening held          | closed  | waiting      | -           | nudge
opening free b        | closed  | waiting      | -           | nudge
opening claimed b     | closed  | waiting      | -           | nudge
closed free           | closed  | waiting      | -           | nudge
closed held           | closed  | waiting      | -           | nudge
closed free b         | closed  | waiting      | -           | nudge
closed held b         | closed  | waiting      | -           | nudge
closed held-late b    | closed  | waiting      | -           | nudge
closed granted b      | closed  | waiting      | -           | nudge
closed granted-late b | closed  | waiting      | -           | nudge
closed claimed b      | closed  | waiting      | -           | nudge
closed claimed-late b | closed  | waiting      | -           | nudge
"""


@pytest.mark.parametrize("expected", table(CONFIRM), ids=lambda expected: expected[0])
def test_a_semaphore_is_closed_before_a_repeated_or_confirmed_wait_is_answered(
    expected: tuple[str, ...],
) -> None:
    confirm = partial(wait_commands.confirm, waiter=waiter("b"))
    repeat = partial(wait_commands.wait, request=WaitRequest("b", CALL))
    served = expected[0].startswith("closed") and not loaded(expected[0]).semaphore.free(NOW)
    assert apply(expected, confirm) == (*expected[:-1], "-" if served else "nudge")
    assert apply(expected, repeat, wait=waiter("b"), wait_read=True) == expected


def test_a_confirmed_waiter_that_can_never_be_granted_is_looked_at_by_an_admit_run() -> None:
    assert wait_commands.confirm(loaded("closed held"), waiter("b", permits=2)).nudge


CLAIM = """
open free             | open    | unknown      | -           | -
open granted          | open    | runs         | -           | -
open granted-late     | open    | unknown      | -           | -
open claimed          | open    | runs anew    | -           | nudge
open claimed-late     | open    | unknown      | -           | -
opening free          | opening | unknown      | -           | -
opening free b        | opening | unknown      | -           | -
opening claimed b     | opening | runs anew    | -           | nudge
closed free           | closed  | unknown      | -           | -
closed free b         | closed  | unknown      | -           | -
closed granted b      | closed  | runs         | -           | -
closed granted-late b | closed  | unknown      | -           | -
closed claimed b      | closed  | runs anew    | -           | nudge
closed claimed-late b | closed  | unknown      | -           | -
"""


@pytest.mark.parametrize("expected", table(CLAIM), ids=lambda expected: expected[0])
def test_a_claim_by_the_semaphores_record_alone(expected: tuple[str, ...]) -> None:
    rule = partial(lease_commands.claim, id_="a", grant=TOKEN)
    assert apply(expected, rule) == expected


CLAIM_LATE = """
open free             | open    | none         | -           | -
open granted          | open    | runs         | -           | -
open granted-late     | closed  | none         | a requeued  | nudge
open claimed          | open    | runs anew    | -           | nudge
open claimed-late     | closed  | none         | a requeued  | nudge
opening free          | opening | none         | -           | -
opening free b        | opening | none         | -           | -
opening claimed b     | opening | runs anew    | -           | nudge
closed free           | closed  | none         | -           | -
closed free b         | closed  | none         | -           | -
closed granted b      | closed  | runs         | -           | -
closed granted-late b | closed  | none         | a requeued  | nudge
closed claimed b      | closed  | runs anew    | -           | nudge
closed claimed-late b | closed  | none         | a requeued  | nudge
"""


@pytest.mark.parametrize("expected", table(CLAIM_LATE), ids=lambda expected: expected[0])
def test_a_claim_with_the_waiters_record_requeues_a_grant_that_expired(expected: tuple[str, ...]) -> None:
    rule = partial(lease_commands.claim, id_="a", grant=TOKEN)
    wait = waiter("a", "granted", grant=TOKEN)
    assert apply(expected, rule, wait=wait, wait_read=True) == expected


CLAIM_EVICTED = """
open free             | closed  | none         | a requeued  | nudge
opening free          | closed  | none         | a requeued  | nudge
opening free b        | closed  | none         | a requeued  | nudge
closed free           | closed  | none         | a requeued  | nudge
closed free b         | closed  | none         | a requeued  | nudge
"""


@pytest.mark.parametrize("expected", table(CLAIM_EVICTED), ids=lambda expected: expected[0])
def test_a_claim_requeues_a_grant_that_was_evicted_from_the_record(expected: tuple[str, ...]) -> None:
    rule = partial(lease_commands.claim, id_="a", grant=TOKEN)
    wait = waiter("a", "lost", grant=TOKEN)
    assert apply(expected, rule, wait=wait, wait_read=True) == expected


SIGNAL = """
open free             | open    | none         | -           | -
open held             | open    | released     | -           | -
open held-late        | open    | none         | -           | -
open granted          | open    | released     | -           | -
open granted-late     | open    | none         | -           | -
open claimed          | open    | released     | -           | -
open claimed-late     | open    | none         | -           | -
opening free          | opening | none         | -           | -
opening held          | open    | released     | -           | -
opening free b        | opening | none         | -           | -
opening claimed b     | closed  | released     | b granted   | -
closed free           | closed  | none         | -           | -
closed held           | opening | released     | -           | nudge
closed free b         | closed  | none         | -           | -
closed held b         | closed  | released     | b granted   | -
closed held-late b    | closed  | none         | -           | -
closed granted b      | closed  | released     | b granted   | -
closed granted-late b | closed  | none         | b granted   | -
closed claimed b      | closed  | released     | b granted   | -
closed claimed-late b | closed  | none         | b granted   | -
"""


@pytest.mark.parametrize("expected", table(SIGNAL), ids=lambda expected: expected[0])
def test_a_signal_ends_the_lease_and_grants_its_permit_to_the_head(expected: tuple[str, ...]) -> None:
    by_token, by_grant = EndLease("a", TOKEN, "op"), EndLease("a", TOKEN, "op", by_grant=True)
    for command in (by_token, by_grant):
        rule = partial(lease_commands.end_lease, command=command)
        assert apply(expected, rule, partial(lease_commands.end_reads, command=command)) == expected


RENEW = """
open free             | open    | none         | -           | -
open held             | open    | until +60    | -           | -
open held-late        | open    | none         | -           | -
open granted          | open    | until +60    | -           | -
open granted-late     | open    | none         | -           | -
open claimed          | open    | until +60    | -           | -
open claimed-late     | open    | none         | -           | -
opening free          | opening | none         | -           | -
opening held          | opening | until +60    | -           | -
opening free b        | opening | none         | -           | -
opening claimed b     | opening | until +60    | -           | -
closed free           | closed  | none         | -           | -
closed held           | closed  | until +60    | -           | -
closed free b         | closed  | none         | -           | -
closed held b         | closed  | until +60    | -           | -
closed held-late b    | closed  | none         | -           | -
closed granted b      | closed  | until +60    | -           | -
closed granted-late b | closed  | none         | -           | -
closed claimed b      | closed  | until +60    | -           | -
closed claimed-late b | closed  | none         | -           | -
"""


@pytest.mark.parametrize("expected", table(RENEW), ids=lambda expected: expected[0])
def test_a_renewal_extends_a_lease_that_is_held(expected: tuple[str, ...]) -> None:
    rule = partial(lease_commands.renew, id_="a", token=TOKEN, lease_seconds=None)
    assert apply(expected, rule) == expected


ADMIT = """
open free             | open    | none         | -           | -
open held             | open    | none         | -           | -
open held-late        | open    | none         | -           | -
open granted          | open    | none         | -           | -
open granted-late     | open    | none         | -           | -
open claimed          | open    | none         | -           | -
open claimed-late     | open    | none         | -           | -
opening free          | open    | none         | -           | -
opening held          | open    | none         | -           | -
opening free b        | opening | none         | b granted   | nudge
opening claimed b     | closed  | none         | -           | -
closed free           | opening | none         | -           | nudge
closed held           | closed  | none         | -           | -
closed free b         | opening | none         | b granted   | nudge
closed held b         | closed  | none         | -           | -
closed held-late b    | opening | none         | b granted   | nudge
closed granted b      | closed  | none         | -           | -
closed granted-late b | opening | none         | b granted   | nudge
closed claimed b      | closed  | none         | -           | -
closed claimed-late b | opening | none         | b granted   | nudge
"""


@pytest.mark.parametrize("expected", table(ADMIT), ids=lambda expected: expected[0])
def test_an_admit_run_grants_what_is_free_and_opens_in_two_steps(expected: tuple[str, ...]) -> None:
    assert apply(expected, admission.admit, admission.admit_reads) == expected


ADMIT_RELEASE = """
open free             | open    | none         | -           | -
open held             | open    | none         | -           | -
open held-late        | open    | none         | -           | -
open granted          | open    | none         | -           | -
open granted-late     | open    | none         | -           | -
open claimed          | open    | none         | -           | -
open claimed-late     | open    | none         | -           | -
opening free          | open    | none         | -           | -
opening held          | open    | none         | -           | -
opening free b        | opening | none         | b granted   | nudge
opening claimed b     | opening | none         | b granted   | nudge
closed free           | opening | none         | -           | nudge
closed held           | opening | none         | -           | nudge
closed free b         | opening | none         | b granted   | nudge
closed held b         | opening | none         | b granted   | nudge
closed held-late b    | opening | none         | b granted   | nudge
closed granted b      | opening | none         | b granted   | nudge
closed granted-late b | opening | none         | b granted   | nudge
closed claimed b      | opening | none         | b granted   | nudge
closed claimed-late b | opening | none         | b granted   | nudge
"""


@pytest.mark.parametrize("expected", table(ADMIT_RELEASE), ids=lambda expected: expected[0])
def test_an_admit_run_applies_a_release_that_was_left(expected: tuple[str, ...]) -> None:
    left = Release("a", TOKEN, "op", INCARNATION, created_at=NOW)
    assert apply(expected, admission.admit, admission.admit_reads, releases=(left,)) == expected


MORE_PERMITS = """
open free             | open    | semaphore    | -           | -
open held             | open    | semaphore    | -           | -
open held-late        | open    | semaphore    | -           | -
open granted          | open    | semaphore    | -           | -
open granted-late     | open    | semaphore    | -           | -
open claimed          | open    | semaphore    | -           | -
open claimed-late     | open    | semaphore    | -           | -
opening free          | opening | semaphore    | -           | nudge
opening held          | opening | semaphore    | -           | nudge
opening free b        | opening | semaphore    | -           | nudge
opening claimed b     | opening | semaphore    | -           | nudge
closed free           | closed  | semaphore    | -           | nudge
closed held           | closed  | semaphore    | -           | nudge
closed free b         | closed  | semaphore    | -           | nudge
closed held b         | closed  | semaphore    | -           | nudge
closed held-late b    | closed  | semaphore    | -           | nudge
closed granted b      | closed  | semaphore    | -           | nudge
closed granted-late b | closed  | semaphore    | -           | nudge
closed claimed b      | closed  | semaphore    | -           | nudge
closed claimed-late b | closed  | semaphore    | -           | nudge
"""


@pytest.mark.parametrize("expected", table(MORE_PERMITS), ids=lambda expected: expected[0])
def test_more_permits_nudge_an_admit_run_unless_nobody_can_wait(expected: tuple[str, ...]) -> None:
    rule = partial(upkeep.change_settings, settings=SemaphoreSettings(2, 60))
    assert apply(expected, rule) == expected


# --- what does not depend on the whole state ---


@pytest.mark.parametrize("state", STATES.strip().splitlines())
def test_settings_without_more_permits_change_nothing_else(state: str) -> None:
    before = loaded(state)
    after = upkeep.change_settings(before, SemaphoreSettings(1, 90))
    assert after.semaphore == replace(before.semaphore, lease_seconds=90)
    assert not after.nudge


def test_fewer_permits_hold_for_new_grants_only() -> None:
    two = replace(loaded("open held"), semaphore=replace(loaded("open held").semaphore, permits=2))
    fewer = upkeep.change_settings(two, SETTINGS)
    assert fewer.semaphore.leases == two.semaphore.leases
    request = WaitRequest("x")
    assert wait_commands.acquire(replace(two, semaphore=fewer.semaphore), request).answer == WaitAnswer()


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
    departure = wait_commands.cancel(late)
    assert (departure and departure.transition.waiter.state) == cancelled
    departure = wait_commands.time_out("s", late, NOW)
    assert (departure and departure.transition.waiter.state) == timed_out
    assert len(departure.effects if departure else ()) == (state == "waiting")


def test_a_deadline_that_is_not_over_is_retried() -> None:
    with pytest.raises(Unavailable):
        wait_commands.time_out("s", waiter("b", deadline_at=SOON), NOW)


def test_an_early_admit_run_is_retried() -> None:
    with pytest.raises(Unavailable):
        admission.check_due(NOW, SOON)
    admission.check_due(NOW, NOW)


def test_a_wait_that_could_never_be_granted_is_refused() -> None:
    with pytest.raises(BadSemaphore):
        wait_commands.wait(loaded("open free"), WaitRequest("x", CALL, permits=2))


@pytest.mark.parametrize(
    ("state", "deleted"),
    [
        ("open free", True),
        ("open held-late", True),
        ("open held", False),
        ("opening free", False),
        ("closed free", False),
    ],
)
def test_a_semaphore_is_unused_when_nobody_holds_or_waits(state: str, deleted: bool) -> None:
    semaphore = replace(loaded(state).semaphore, delete_after_seconds=60)
    assert upkeep.is_unused(semaphore, NOW, NOW - timedelta(seconds=60)) is deleted
    assert not upkeep.is_unused(semaphore, NOW, NOW - timedelta(seconds=59))
    assert not upkeep.is_unused(replace(semaphore, delete_after_seconds=None), NOW, NOW - timedelta(days=99))


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
    with LIMITS.replaced(expired_leases_max=0):
        after, evicted = loaded("open granted-late").semaphore.expire_leases(NOW)
    assert (after.leases, [lease.id for lease in evicted]) == ((), ["a"])


def granted(permits: int, *wanted: int, stale: int = 0) -> Transition[None]:
    """Run an admit run for waiters that want so many permits each, behind `stale` ones of an earlier semaphore."""
    free = Semaphore(permits, 60, mode="closed")
    old = [waiter(f"old{index}", incarnation=1) for index in range(stale)]
    queue = (*old, *(waiter(f"w{index}", permits=each) for index, each in enumerate(wanted)))
    return admission.admit(Loaded("s", free, INCARNATION, NOW, reads=QueueReads(90, in_order=True), waiters=queue))


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
def test_permits_go_to_the_head_in_order_and_nobody_overtakes_a_head_that_needs_many(
    permits: int, wanted: tuple[int, ...], names: list[str], mode: Mode, nudge: bool
) -> None:
    transition = granted(permits, *wanted)
    assert [one.waiter.id for one in transition.waiters] == names
    assert [effect.context["lease"]["id"].partition("~")[0] for effect in transition.effects] == names
    assert (transition.semaphore.mode, transition.nudge) == (mode, nudge)


def test_a_head_that_wants_more_permits_than_there_are_ends_and_blocks_nobody() -> None:
    transition = granted(3, 4, 1)
    assert [becomes(one) for one in transition.waiters] == ["w1 granted", "w0 refused"]
    assert transition.nudge


@pytest.mark.parametrize("state", ["closed held b", "closed granted b", "closed claimed b"])
def test_a_signal_passes_by_a_head_that_wants_more_permits_than_there_are(state: str) -> None:
    before = loaded(state, lambda _: QueueReads(waiters=1))
    before = replace(before, waiters=(waiter("b", permits=2, on_timeout=CALL),))
    transition = lease_commands.end_lease(before, EndLease("a", TOKEN, "op"))
    assert ([becomes(one) for one in transition.waiters], transition.nudge) == (["b refused"], True)
    assert [(effect.task, effect.context) for effect in transition.effects] == [("eat", {"reason": "permits"})]


def lowered_to_one(*wanted: int, payload_bytes: int = 0) -> Transition[Semaphore]:
    """Lower three permits to one, with waiters that want so many each."""
    late = Call("philosophers", "leave", {"note": "x" * payload_bytes})
    queue = tuple(waiter(f"w{index}", permits=each, on_timeout=late) for index, each in enumerate(wanted))
    before = replace(loaded("closed held"), semaphore=replace(loaded("closed held").semaphore, permits=3))
    reads = upkeep.settings_reads(before, SETTINGS)
    page = queue[: reads.waiters]
    return upkeep.change_settings(
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
def test_lowering_the_permits_beside_many_waiters_ends_them_in_pages(
    wanted: tuple[int, ...], payload_bytes: int, refused: list[str], after: str
) -> None:
    with LIMITS.replaced(grants_page_max=2):
        transition = lowered_to_one(*wanted, payload_bytes=payload_bytes)
    assert [one.waiter.id for one in transition.waiters] == refused
    assert [effect.payload["after"][1] for effect in transition.effects if effect.task == "refuse"] == [after]


def test_only_fewer_permits_read_the_wait_queue() -> None:
    for state in STATES.strip().splitlines():
        assert upkeep.settings_reads(loaded(state), SemaphoreSettings(2, 90)) == QueueReads()


def test_waiters_of_an_earlier_semaphore_are_deleted_and_never_granted() -> None:
    transition = granted(2, 1, stale=2)
    assert [becomes(one) for one in transition.waiters] == ["w0 granted", "old0 removed", "old1 removed"]


def test_tokens_grow_with_every_grant_and_every_second_claim() -> None:
    transition = granted(2, 1, 1)
    first, second = transition.semaphore.leases
    again, claimed = transition.semaphore.claim(replace(first), NOW)
    assert first.token < second.token
    taken, anew = replace(again, leases=(claimed,)).claim(claimed, NOW)
    assert claimed.token == first.token
    assert second.token < anew.token < taken.next_token


@pytest.mark.parametrize(("created_at", "operation"), [(NOW, "op"), (SOON, "")])
def test_a_left_release_counts_as_a_signal_only_if_it_was_created_in_time(created_at: datetime, operation: str) -> None:
    left = Release("a", TOKEN, "op", INCARNATION, created_at)
    transition = admission.admit(loaded("closed claimed", releases=(left,)))
    [ended] = transition.semaphore.ended
    assert (ended.operation, ended.in_time) == (operation, bool(operation))
    assert transition.releases_applied == (left,)


@pytest.mark.parametrize(
    ("operation", "written", "answer"), [("op", PAST, SOON), ("other", PAST, None), ("op", SOON, None)]
)
def test_a_repeated_signal_is_answered_from_the_record(
    operation: str, written: datetime, answer: datetime | None
) -> None:
    command = EndLease("a", TOKEN, "op")
    ended = lease_commands.end_lease(loaded("open held"), command).semaphore
    later = replace(loaded("open held"), semaphore=ended, update_time=written)
    assert lease_commands.end_lease(later, replace(command, operation=operation)).answer == answer


def test_a_claim_of_an_expired_grant_whose_deadline_is_over_times_out() -> None:
    wait = waiter("a", "granted", grant=TOKEN, deadline_at=PAST, on_timeout=CALL)
    transition = lease_commands.claim(loaded("open granted-late", wait=wait, wait_read=True), "a", TOKEN)
    assert [becomes(one) for one in transition.waiters] == ["a timed_out"]
    assert [effect.task for effect in transition.effects] == ["eat"]


def test_a_second_delivery_takes_the_release_of_the_first() -> None:
    transition = lease_commands.claim(loaded("open claimed"), "a", TOKEN)
    assert [one.lease_id for one in transition.releases_created] == [f"a~{TOKEN}"]
    assert lease_commands.claim(loaded("open granted"), "a", TOKEN).releases_created == ()


@pytest.mark.parametrize(
    ("state", "alarm"),
    [("open held", None), ("closed held b", SOON), ("closed held-late b", None), ("opening claimed b", SOON)],
)
def test_the_alarm_is_set_for_the_earliest_end_while_somebody_may_wait(state: str, alarm: datetime | None) -> None:
    before = loaded(state)
    assert with_alarm(Transition(before.semaphore, None), NOW).semaphore.alarm_at == alarm


WAIT_REPEATED = """
open free             | granted   | ended
open granted          | granted   | lease a~100
open granted-late     | granted   | waiting
closed claimed b      | granted   | lease a~100
closed claimed-late b | granted   | ended
open free             | lost      | waiting
open free             | cancelled | ended
open free             | timed_out | ended
"""


@pytest.mark.parametrize("expected", table(WAIT_REPEATED), ids=lambda expected: " ".join(expected[:2]))
def test_a_repeated_wait_that_has_left_the_wait_queue_is_answered_with_what_is_true_now(
    expected: tuple[str, str, str],
) -> None:
    state, outcome, answer = expected
    known = waiter("a", cast("State", outcome), grant=TOKEN)
    before = loaded(state, wait=known, wait_read=True)
    transition = wait_commands.wait(before, WaitRequest("a", CALL))
    assert (said(transition.answer), transition.commits(before)) == (answer, False)


def test_a_repeated_acquire_after_its_signal_is_over() -> None:
    signalled = lease_commands.end_lease(loaded("open held"), EndLease("a", TOKEN, "op")).semaphore
    later = replace(loaded("open held"), semaphore=signalled)
    assert wait_commands.acquire(later, WaitRequest("a")).answer == ENDED


def test_a_repeated_acquire_whose_release_was_left_to_an_admit_run_is_over() -> None:
    left = Release("a", TOKEN, "op", INCARNATION)
    assert wait_commands.acquire(loaded("open held", release=left), WaitRequest("a")).answer == ENDED
    older = replace(left, token=TOKEN - 1)
    assert wait_commands.acquire(loaded("open held", release=older), WaitRequest("a")).answer.acquired


def test_a_confirmed_waiter_of_an_earlier_semaphore_is_retried() -> None:
    with pytest.raises(Unavailable):
        wait_commands.confirm(loaded("open free"), waiter("b", incarnation=1))


def test_the_record_of_an_earlier_semaphore_is_deleted_before_a_new_waiter_is_created() -> None:
    old = waiter("x", incarnation=1)
    transition = wait_commands.wait(loaded("open held", wait=old, wait_read=True), WaitRequest("x", CALL))
    assert transition.answer is wait_commands.STALE_RECORD
    assert transition.waiters == (WaiterTransition("removed", old),)
