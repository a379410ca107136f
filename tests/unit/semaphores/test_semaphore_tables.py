"""Each row of the transition tables in the docstrings of `machine/`, run in every state that it covers."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, get_args

import pytest

from signalbox.core.problems import Unavailable
from signalbox.semaphores.machine import deletion, lanes, leases, settings, wait_queue, waits
from signalbox.semaphores.machine.decision_types import Head, Loaded, QueueReads, Transition, Undecided
from signalbox.semaphores.machine.leases import EndLease, Renewal
from signalbox.semaphores.model.lanes import Lane
from signalbox.semaphores.model.leases import EndedLease, Lease, LeaseRecord, Release
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.model.waiters import State, WaitAnswer, Waiter
from signalbox.semaphores.requests import WaitRequest
from tests.unit.semaphores.semaphore_states import (
    CALL,
    INCARNATION,
    MODES,
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
from tests.unit.transition_tables import Row, tables, values

[NEW_WAITS, WAITS_WITH_LANES, REPEATED_WAITS] = tables(waits.__doc__)
[READ_LANES, JOINED_LANES] = tables(lanes.__doc__)
[ANY_LEASE, RELEASED, LOST_CLAIMS] = tables(leases.__doc__)
[ADMIT] = tables(wait_queue.__doc__)
[CHANGES] = tables(settings.__doc__)
[CLEAN_UPS, SWEEPS] = tables(deletion.__doc__)

LIVE, LATE = ("held", "granted", "claimed"), ("held-late", "granted-late", "claimed-late")
KINDS = {"absent": ("free",), "live": LIVE, "late": LATE, "continued-late": LATE[1:]}
QUEUES = tuple(state.replace(" free", "") for state in STATES if " free" in state)
LEFT = Release("a", TOKEN, "op", INCARNATION, created_at=NOW)


def lease_kinds(cell: str) -> set[str]:
    """Return the leases that a cell covers, in the words of the states."""
    return {kind for name in values(cell) for kind in KINDS.get(name, (name,))}


def covers(row: Row, state: str, *, free: bool | None = None) -> bool:
    """Return whether a row covers a state by its columns of mode, permits, queue and lease."""
    mode, lease, *waiting = state.split()
    free = loaded(state).semaphore.free(NOW) > 0 if free is None else free
    cells = {
        "mode": {mode},
        "permits": {"free" if free else "held"},
        "queue": {"waiters" if waiting else "empty"},
        "its lease": {lease},
    }
    return all(
        row[name] == "any" or found & (lease_kinds(row[name]) if name == "its lease" else set(values(row[name])))
        for name, found in cells.items()
        if name in row
    )


def only(row: Row, state: str, rows: list[Row], **more: Any) -> bool:
    """Return whether a row covers a state, and check that no other row of its command does."""
    if not covers(row, state, **more):
        return False
    assert [other for other in rows if other["command"] == row["command"] and covers(other, state, **more)] == [row]
    return True


def answer_in_words(answer: Any) -> str:
    match answer:
        case None:
            return "None"
        case Undecided():
            return answer.name
        case WaitAnswer(lease=Lease(id=id_)):
            return "its lease" if id_ == f"a~{TOKEN}" else "a lease"
        case WaitAnswer():
            return "ended" if answer.ended else "waiting" if answer.waiting else "not acquired"
        case LeaseRecord(token=token):
            return "its lease" if token == TOKEN else "a new token"
        case Renewal(after=after):
            assert after.ends_at == NOW + timedelta(seconds=60)
            return "renewed"
        case datetime():
            return "its end"
    raise AssertionError(f"no words for {answer}")


def check(row: Row, state: str, transition: Transition[Any]) -> None:
    """Check a transition against the columns of a row that state its outcome."""
    mode, *_ = state.split()
    if "answer" in row:
        assert answer_in_words(transition.answer) == row["answer"]
    assert transition.semaphore.mode == (mode if row["then"] == "same" else row["then"])
    assert ", ".join(map(change_of, transition.waiters)) == row["waiter"].replace("-", "")
    assert transition.nudge == (row["admit run"] == "nudge")
    if "release" in row:
        assert (release_of(transition) or "-") == row["release"]


def release_of(transition: Transition[Any]) -> str:
    """Return the precondition on the lease's release, or its creation, in a transition, in the words of the tables."""
    concerned: tuple[LeaseRecord | Release, ...] = (*transition.unreleased, *transition.releases_created)
    assert all((lease.id, lease.token) == ("a", TOKEN) for lease in concerned)
    return "none" * len(transition.unreleased) + "created" * len(transition.releases_created)


def cases(rows: list[Row], *commands: str) -> Iterator[Any]:
    """Iterate over the rows of some commands with each state that they cover."""
    for row in rows:
        for state in STATES:
            if row["command"] in commands and only(row, state, rows):
                yield pytest.param(row, state, id=f"{row['command']}: {state}")


def test_the_tables_cover_each_command_in_each_state() -> None:
    for rows, commands in ((NEW_WAITS, ("acquire", "wait", "confirm")), (ANY_LEASE, ("end", "renew"))):
        for command in commands:
            assert {case.values[1] for case in cases(rows, command)} == set(STATES)
    claimed = {case.values[1] for case in cases(ANY_LEASE, "claim")}
    assert claimed == {state for state in STATES if " held" not in state}


# --- waits ---


@pytest.mark.parametrize(("row", "state"), list(cases(NEW_WAITS, "acquire", "wait", "confirm")))
def test_a_new_wait(row: Row, state: str) -> None:
    if row["command"] == "confirm":
        check(row, state, waits.confirm(loaded(state), waiter("x")))
        return
    request = WaitRequest("x", CALL if row["command"] == "wait" else None)
    rule = waits.wait if request.continuation else waits.acquire
    check(row, state, rule(loaded(state, partial(waits.wait_reads, request=request)), request))


REPEATED_LEASES = {
    "absent": ("free",),
    "remembered": ("free",),
    "live": ("granted", "claimed"),
    "live, released": ("claimed",),
    "expired, unclaimed": ("granted-late",),
    "expired": ("claimed-late",),
    "any": ("free", "granted", "claimed", "granted-late", "claimed-late"),
}


def repeats() -> Iterator[Any]:
    for row in REPEATED_WAITS:
        if row["command"] in ("acquire", "wait"):
            kinds = REPEATED_LEASES[row["its lease"]]
            if row["command"] == "acquire":
                kinds = {"live": ("held",), "live, released": ("held",), "expired": ("held-late",)}.get(
                    row["its lease"], kinds
                )
            for kind in kinds:
                for queue in QUEUES:
                    mode, *waiting = queue.split()
                    state = " ".join((mode, kind, *waiting))
                    yield pytest.param(row, state, id=f"{row['command']}, {row['its record']}: {state}")


LANE = "high:a"
PLAIN_WITH_OTHERS = Lane("", tag=5)


def with_lane(its_lane: str, permits: str) -> Loaded:
    """Return a closed semaphore with the plain lane, and perhaps the lane in question."""
    own = () if its_lane == "absent" else (Lane(LANE, 3, its_lane),)  # type: ignore[arg-type]  # a mode of the table
    before = loaded("closed free" if permits == "free" else "closed held")
    return replace(before, semaphore=replace(before.semaphore, lanes=(PLAIN_WITH_OTHERS, *own)))


def lane_rows() -> Iterator[Any]:
    for row in WAITS_WITH_LANES:
        for its_lane in ("closed", "opening", "absent") if row["its lane"] == "any" else values(row["its lane"]):
            for permits in ("free", "held") if row["permits"] == "any" else (row["permits"],):
                yield pytest.param(row, its_lane, permits, id=f"{row['command']}: {its_lane}, {permits}")


@pytest.mark.parametrize(("row", "its_lane", "permits"), list(lane_rows()))
def test_a_wait_of_a_semaphore_with_lanes(row: Row, its_lane: str, permits: str) -> None:
    before = with_lane(its_lane, permits)
    request = WaitRequest("x", CALL, key="a", priority="high")
    transition: Transition[Any]
    if row["command"] == "confirm":
        transition = waits.confirm(before, waiter("x", lane=LANE))
    elif row["command"] == "acquire":
        assert waits.wait_reads(before, WaitRequest("x")) == QueueReads()
        transition = waits.acquire(before, WaitRequest("x"))
    else:
        assert waits.wait_reads(before, request) == QueueReads()
        transition = waits.wait(before, request)
    assert answer_in_words(transition.answer) == row["answer"]
    after = transition.semaphore.lane(LANE)
    assert (after.mode if after else "absent") == (its_lane if row["its lane then"] == "same" else "closed")
    assert transition.semaphore.mode == "closed"
    assert ", ".join(map(change_of, transition.waiters)) == row["waiter"].replace("-", "")
    assert transition.nudge == (row["admit run"] == "nudge")


@pytest.mark.parametrize("row", READ_LANES, ids=lambda row: f"{row['lane']}: {row['waiters read']}")
def test_a_lane_after_a_read(row: Row) -> None:
    for mode in values(row["lane"]):
        found = [waiter("w1", lane=LANE), waiter("w2", lane=LANE)]
        read = {"none": [], "some remain": found, "all are granted": found}.get(row["waiters read"])
        lane = Lane(LANE, 7, mode)  # type: ignore[arg-type]  # a mode of the table
        semaphore = Semaphore(SemaphoreSettings(3, 60), mode="closed", lanes=(PLAIN_WITH_OTHERS, lane))
        heads = {} if read is None else {LANE: Head(tuple(read), more=False, asked=3)}
        before = Loaded("s", semaphore, INCARNATION, NOW, heads=heads)
        granted = found[:1] if row["waiters read"] == "some remain" else list(read or ())
        after = lanes.served(before, semaphore, granted, {each.id for each in granted}).lane(LANE)
        assert after is not None, "the lane is kept for its tag"
        assert after.mode == (mode if row["then"] == "same" else row["then"])


@pytest.mark.parametrize("row", JOINED_LANES, ids=lambda row: f"{row['a waiter joins']}")
def test_a_waiter_joins_a_lane(row: Row) -> None:
    alone = row["a waiter joins"] == "alone"
    for mode in ("closed", "opening", "open", "absent"):
        own = () if mode == "absent" else (Lane(LANE, 3, mode),)  # type: ignore[arg-type]  # a mode of the table
        semaphore = Semaphore(SemaphoreSettings(1, 60), mode="closed", lanes=(PLAIN_WITH_OTHERS, *own))
        assert lanes.is_closed(semaphore, LANE) == (mode == "closed")
        after = lanes.closed(semaphore, LANE, NOW).lane(LANE)
        assert after is not None
        assert after.mode == (row["then"] if not alone else "closed")
        assert after.tag == (0 if mode == "absent" else 3)


@pytest.mark.parametrize(("row", "state"), list(repeats()))
def test_a_repeated_wait_is_answered_with_the_current_state(row: Row, state: str) -> None:
    release = LEFT if row["its lease"] == "live, released" else None
    if row["command"] == "acquire":
        before = loaded(state, partial(waits.wait_reads, request=WaitRequest("a")), release=release)
        if row["its lease"] == "remembered":
            ended = before.semaphore.remember([EndedLease("a", TOKEN, PAST, "op")])
            before = replace(before, semaphore=ended)
        transition: Transition[Any] = waits.acquire(before, WaitRequest("a"))
    else:
        record = waiter("a", "granted", grant=TOKEN, incarnation=1)
        if row["its record"] != "of an earlier semaphore":
            record = waiter("a", row["its record"], grant=TOKEN)  # type: ignore[arg-type]  # a state of a waiter
        before = loaded(state, wait=record, wait_read=True, release=release)
        transition = waits.wait(before, WaitRequest("a", CALL))
    check(row, state, transition)
    if (row["then"], row["waiter"]) == ("same", "-"):
        assert not transition.commits(before)


def records(row: Row) -> list[Waiter]:
    """Return the waiters with which a row of `cancel` or `timeout` begins."""
    known = {
        "waiting": waiter("b"),
        "waiting, late": waiter("b", deadline_at=PAST),
        "waiting, early": waiter("b", deadline_at=SOON),
        "waiting, no deadline": waiter("b"),
    }
    others = [waiter("b", state, deadline_at=PAST) for state in get_args(State) if state != "waiting"]
    return [known[row["its record"]]] if row["its record"] in known else others


@pytest.mark.parametrize(
    "row",
    [row for row in REPEATED_WAITS if row["command"] in ("cancel", "timeout")],
    ids=lambda row: f"{row['command']} {row['its record']}",
)
def test_a_wait_leaves_the_wait_queue(row: Row) -> None:
    for record in records(row):
        command = waits.cancel if row["command"] == "cancel" else waits.time_out
        if row["answer"] == "Unavailable":
            with pytest.raises(Unavailable):
                command("s", record, NOW)
            continue
        departure = command("s", record, NOW)
        assert (change_of(departure.transition) if departure else "-") == row["waiter"]


# --- leases ---


@pytest.mark.parametrize(("row", "state"), list(cases(ANY_LEASE, "end", "renew", "claim")))
def test_a_command_for_a_lease(row: Row, state: str) -> None:
    match row["command"]:
        case "end":
            for by_grant in (False, True):
                command = EndLease("a", TOKEN, "op", by_grant=by_grant)
                before = loaded(state, partial(leases.end_reads, command=command))
                check(row, state, leases.end_lease(before, command))
        case "renew":
            check(row, state, leases.renew(loaded(state), "a", TOKEN, None))
        case "claim":
            check(row, state, leases.claim(loaded(state), "a", TOKEN))


@pytest.mark.parametrize("state", [state for state in STATES if state.split()[1] in LIVE])
def test_a_renewal_of_a_released_lease_finds_it_lost(state: str) -> None:
    [row] = RELEASED
    before = loaded(state, release=LEFT)
    transition = leases.renew(before, "a", TOKEN, None)
    assert (row["command"], row["its lease"]) == ("renew", "live, released")
    check(row | {"waiter": "-"}, state, transition)
    assert not transition.commits(before)


LOST_RECORDS: dict[str, Waiter | None] = {
    "granted": waiter("a", "granted", grant=TOKEN),
    "granted, late": waiter("a", "granted", grant=TOKEN, deadline_at=PAST),
    "lost": waiter("a", "lost", grant=TOKEN),
    "cancelled": waiter("a", "cancelled", grant=TOKEN),
    "another grant": waiter("a", "granted", grant=TOKEN + 1),
    "deleted": None,
}


@pytest.mark.parametrize(
    ("row", "state"),
    [
        pytest.param(row, state, id=f"{row['its record']}: {state}")
        for row in LOST_CLAIMS
        for state in STATES
        if covers({"its lease": row["its lease"]}, state)
    ],
)
def test_a_claim_with_the_waiters_record(row: Row, state: str) -> None:
    before = loaded(state, wait=LOST_RECORDS[row["its record"]], wait_read=True)
    check(row, state, leases.claim(before, "a", TOKEN))


# --- the admit run ---


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_an_admit_run(state: str, released: bool) -> None:
    before = loaded(state, releases=(LEFT,) if released else ())
    free = released or before.semaphore.free(NOW) > 0
    [row] = [row for row in ADMIT if covers(row, state, free=free)]
    reads = wait_queue.admit_reads(before)
    waiters = loaded(state, lambda _: reads).waiters
    check(row, state, wait_queue.admit(replace(before, reads=reads, waiters=waiters)))


# --- settings ---


def changes() -> Iterator[Any]:
    for row in CHANGES:
        for queue in QUEUES:
            mode, *waiting = queue.split()
            if mode in values(row["mode"]) and (waiting or row["permits"] != "too few"):
                yield pytest.param(row, queue, id=f"{queue}: {row['permits']}")


@pytest.mark.parametrize(("row", "queue"), list(changes()))
def test_a_change_of_the_settings(row: Row, queue: str) -> None:
    mode, *waiting = queue.split()
    numbers = {"the same": (3,), "more": (4,), "fewer": (2,), "too few": (2,), "any": (2, 3, 4)}[row["permits"]]
    wanted = 3 if row["permits"] == "too few" else 1
    for permits in numbers:
        before = loaded(f"{mode} free")
        before = replace(before, semaphore=with_settings(before.semaphore, permits=3))
        asked = SemaphoreSettings(permits, 60)
        reads = settings.settings_reads(before, asked)
        queued = tuple(waiter(id_, permits=wanted) for id_ in waiting)[: reads.waiters]
        transition = settings.change_settings(replace(before, reads=reads, waiters=queued), asked)
        check(row, f"{mode} free", transition)
        assert transition.semaphore == with_settings(before.semaphore, permits=permits)


@pytest.mark.parametrize("row", CLEAN_UPS, ids=lambda row: f"{row['clean-up']}, {row['receipt']}")
def test_a_clean_up(row: Row) -> None:
    before = loaded("open claimed-late")
    due = replace(before.semaphore, clean_at=PAST if row["clean-up"] == "due" else SOON)
    own = row["receipt"].endswith("in the record")
    receipt = waiter("a" if own else "c", "granted", expires_at=SOON if row["receipt"] == "young" else PAST)
    transition = deletion.clean_up(replace(before, semaphore=due, receipts=(receipt,)))
    assert (", ".join(map(change_of, transition.waiters)) or "-") == row["then"]


@pytest.mark.parametrize("row", SWEEPS, ids=lambda row: ", ".join(row.values()))
def test_a_visit_of_the_sweeper(row: Row) -> None:
    lease = {"absent": "free", "expired": "held-late", "live": "held", "silent": "granted-late"}[row["leases"]]
    for mode in values(row["mode"]):
        after = 60 if row["delete_after_seconds"] == "set" else None
        semaphore = with_settings(loaded(f"{mode} {lease}").semaphore, delete_after_seconds=after)
        unchanged = 60 if row["unchanged for"] == "long enough" else 59
        unused = deletion.is_unused(semaphore, NOW, NOW - timedelta(seconds=unchanged))
        assert unused == (row["then"] == "deleted")


def test_every_mode_is_in_a_table() -> None:
    assert {mode for row in (*ADMIT, *CHANGES) for mode in values(row["mode"])} == set(MODES)


def test_no_waiter_is_read_for_a_decision_that_needs_none() -> None:
    held = loaded("closed held")
    assert wait_queue.admit_reads(held) == QueueReads()
    assert waits.wait_reads(held, WaitRequest("x", CALL)) == QueueReads()


def test_loaded_states_are_as_they_are_written() -> None:
    before: Loaded = loaded("closed claimed b", lambda _: QueueReads(waiters=1))
    assert (before.semaphore.mode, before.semaphore.free(NOW), len(before.waiters)) == ("closed", 0, 1)
