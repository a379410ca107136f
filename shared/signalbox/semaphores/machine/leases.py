"""The decisions about a lease: a continuation claims it, its holder renews it, a signal ends it.

The commit that ends a lease also grants its permits to the head of the wait queue, continuations included.

    command  its lease                mode     queue    answer           then     waiter   admit run  release
    -------  -----------------------  -------  -------  ---------------  -------  -------  ---------  -------
    end      absent, held-late        any      any      None             same     -        -          -
    end      live                     open     empty    its end          open     -        -          none
    end      live                     opening  empty    its end          open     -        -          none
    end      live                     opening  waiters  its end          closed   granted  -          none
    end      live                     closed   empty    its end          opening  -        nudge      none
    end      live                     closed   waiters  its end          closed   granted  -          none
    end      continued-late           open     empty    None             open     -        -          -
    end      continued-late           opening  empty    None             open     -        -          -
    end      continued-late           opening  waiters  None             closed   granted  -          -
    end      continued-late           closed   empty    None             opening  -        nudge      -
    end      continued-late           closed   waiters  None             closed   granted  -          -

    renew    live                     any      any      renewed          same     -        -          none
    renew    absent, late             any      any      None             same     -        -          -

    claim    granted                  any      any      its lease        same     -        -          -
    claim    claimed                  any      any      a new token      same     -        nudge      created
    claim    absent, continued-late   any      any      READ_WAITER      same     -        -          -

`held` is the lease of a wait without a continuation. A continuation's lease is `granted`, and `claimed` once its task
has claimed it. `live` is any of the three, `late` any that has expired, `continued-late` a continuation's that has
expired. The answer of `end` is the lease's end: the commit must come before it for the lease to count as released.

A release that was left for an admit run has already ended its lease. So the commit of a row with `none` requires that
there is no such release under the lease's token. The commit of a row with `created` creates one for the token that it
voids. If one was left, either commit fails. A renewal is then decided with the release, and an end is left to the
record of the release, which names the signal that created it:

    command  its lease        answer  then  admit run
    -------  ---------------  ------  ----  ---------
    renew    live, released   None    same  nudge

After READ_WAITER the claim is decided again with the waiter's record:

    command  its lease                its record     answer       then     waiter     admit run
    -------  -----------------------  -------------  -----------  -------  ---------  ---------
    claim    granted                  granted        its lease    same     -          -
    claim    claimed                  granted        a new token  same     -          nudge
    claim    absent                   granted        None         same     -          -
    claim    absent                   lost           None         closed   requeued   nudge
    claim    continued-late           granted        None         closed   requeued   nudge
    claim    granted-late             granted, late  None         same     timed_out  -
    claim    claimed-late             granted, late  None         closed   requeued   nudge
    claim    absent                   cancelled      None         same     -          -
    claim    absent, continued-late   another grant  None         same     -          -
    claim    absent, continued-late   deleted        None         same     -          -
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine import lanes
from signalbox.semaphores.machine.decision_types import (
    Loaded,
    QueueReads,
    Transition,
    Undecided,
    WaiterTransition,
    continuation_name,
    deadline_task,
    leave,
    timeout_task,
    unchanged,
)
from signalbox.semaphores.machine.lanes import lane_of, mode_after
from signalbox.semaphores.machine.wait_queue import grant_waiters
from signalbox.semaphores.model.leases import LeaseRecord, Release
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.waiters import Waiter

# --- end ---


TAKEN_OVER = ""
"""The operation of a release that another delivery has created. The operation of a signal is never empty."""


@dataclass(frozen=True, slots=True)
class EndLease:
    """The command to end a lease. `token` is the current token, or with `by_grant` the token of the grant.

    `operation` identifies the signal, so that a repeat gets the same answer.
    """

    id: str
    token: int
    operation: str
    by_grant: bool = False

    def lease(self, semaphore: Semaphore) -> LeaseRecord | None:
        """Return the lease to end, or None. The lease may have expired."""
        return find_lease(semaphore, self.id, self.token, by_grant=self.by_grant)


def find_lease(semaphore: Semaphore, id_: str, token: int, *, by_grant: bool) -> LeaseRecord | None:
    """Return a lease by its current token, or with `by_grant` by its grant's token. The lease may have expired."""
    return semaphore.granted_as(id_, token) if by_grant else semaphore.lease(id_, token)


def end_reads(loaded: Loaded, command: EndLease) -> QueueReads:
    """Read as many waiters as there are permits once the lease has ended."""
    lease = command.lease(loaded.semaphore)
    if lease is None or loaded.semaphore.mode == "open":
        return QueueReads()
    free = loaded.semaphore.end(lease).free(loaded.now)
    return QueueReads(waiters=max(0, min(free, LIMITS.grants_page_max)), in_order=True)


def end_lease(loaded: Loaded, command: EndLease) -> Transition[datetime | None]:
    """End a lease and grant its permits to the head of the wait queue. The answer is None if the lease was lost before.

    If a release of the lease was left for an admit run, the commit fails: that release has ended it.
    """
    lease = command.lease(loaded.semaphore)
    if lease is None:
        return unchanged(loaded, _ended_before(loaded, command))
    live = lease.is_live(loaded.now)
    if not live and not lease.continued:
        return unchanged(loaded, None)
    ended = loaded.semaphore.end(lease, command.operation if live else "")
    passed_on = grant_freed(loaded, ended, lease.ends_at if live else None)
    return replace(passed_on, unreleased=(lease,)) if live else passed_on


def _ended_before(loaded: Loaded, command: EndLease) -> datetime | None:
    """Return the lease's end if an earlier commit of the same operation is known to have come before it.

    The answer of that commit was lost. The commit came no later than the record's last write. If that write is after
    the end of the lease, the order cannot be known, and the answer is that the lease was lost.
    """
    token = None if command.by_grant else command.token  # the grant's last token may be a later one
    ended = loaded.semaphore.ended_lease(command.id, token, command.operation)
    if ended is None:
        return None
    in_time = ended.in_time or (loaded.update_time is not None and loaded.update_time < ended.ends_at)
    return ended.ends_at if in_time else None


def grant_freed(loaded: Loaded, semaphore: Semaphore, answer: datetime | None) -> Transition[datetime | None]:
    """Grant the free permits. Only a read without waiters begins to open the semaphore: otherwise more may follow.

    If permits are left over, an admit run reads the queue again: a waiter may have been created alone after this read,
    or the head that needs more permits may have left. In a semaphore with lanes, some lanes may not have been read.
    """
    granted = grant_waiters(loaded, semaphore)
    mode = granted.semaphore.mode
    if loaded.reads.waiters and not semaphore.lanes:
        mode = mode_after(mode, found=False, remaining=bool(loaded.waiters))
    unread = bool(semaphore.lanes) and mode != "open"
    more = (bool(loaded.waiters) or unread) and granted.semaphore.free(loaded.now) > 0
    return Transition(
        granted.semaphore.moved_to(mode, loaded.now),
        answer,
        granted.transitions,
        effects=granted.tasks(loaded),
        nudge=mode == "opening" or more or bool(granted.stale or granted.refused),
        evicted=granted.evicted,
    )


# --- renew ---


@dataclass(frozen=True, slots=True)
class Renewal:
    """A lease before and after its renewal. If the commit comes after the end of `before`, the lease was lost."""

    before: LeaseRecord
    after: LeaseRecord


def renew(
    loaded: Loaded,
    id_: str,
    token: int,
    lease_seconds: float | None,
    *,
    by_grant: bool = False,
    tried: Sequence[Renewal] = (),
) -> Transition[Renewal | None]:
    """Extend a lease. The answer is None if the lease was lost: a lost lease is not reacquired.

    `tried` are the earlier attempts of this renewal, of which one may have landed without an answer. If a release of
    the lease was left for an admit run, the lease is lost. If that release was not loaded, the commit fails.
    """
    lease = find_lease(loaded.semaphore, id_, token, by_grant=by_grant)
    if lease is None or not lease.is_live(loaded.now):
        return unchanged(loaded, None)
    if lease.is_ended_by(loaded.release):
        return Transition(loaded.semaphore, None, nudge=True)
    semaphore, renewed = loaded.semaphore.renew(lease, lease_seconds or lease.seconds, loaded.now)
    return Transition(semaphore, Renewal(lease_before(loaded, lease, tried), renewed), unreleased=(lease,))


def lease_before(loaded: Loaded, lease: LeaseRecord, tried: Sequence[Renewal]) -> LeaseRecord:
    """Return the lease as this attempt to renew it must treat it.

    If an earlier attempt has landed, this is the lease before that attempt, unless the attempt is known to be in time.

    That attempt came no later than the record's last write. If that write is after the end that the lease had, the
    order cannot be known.
    """
    for earlier in tried:
        if earlier.before.ends_at < earlier.after.ends_at == lease.ends_at:
            in_time = loaded.update_time is not None and loaded.update_time < earlier.before.ends_at
            return lease if in_time else earlier.before
    return lease


# --- claim ---

Claimed = LeaseRecord | Undecided | None


def claim(loaded: Loaded, id_: str, grant: int) -> Transition[Claimed]:
    """Start the lease that a continuation was granted. The answer is None if the task must not run under this grant.

    A second delivery takes the lease over, in a commit that also prevents the first delivery from leaving a release.
    """
    lease = loaded.semaphore.granted_as(id_, grant)
    if lease and lease.is_live(loaded.now):
        semaphore, claimed = loaded.semaphore.claim(lease, loaded.now)
        taken = take_over(loaded, lease)
        return Transition(semaphore, claimed, releases_created=taken, nudge=lease.claimed)
    return claim_lost(loaded, lease, grant) if loaded.wait_read else unchanged(loaded, Undecided.READ_WAITER)


def seconds_since_grant(loaded: Loaded, id_: str, grant: int) -> Sequence[float]:
    """Return the seconds from a continuation's due time to its first claim, or an empty sequence for a later claim."""
    lease = loaded.semaphore.granted_as(id_, grant)
    if lease is None or lease.claimed:
        return ()
    due_at = lease.ends_at - timedelta(seconds=LIMITS.claim_seconds)
    return (max(0.0, (loaded.now - due_at).total_seconds()),)


def claim_lost(loaded: Loaded, lease: LeaseRecord | None, grant: int) -> Transition[Claimed]:
    """Put the wait back into its old place if this grant expired. Do nothing if a signal ended the grant."""
    waiter = loaded.wait
    if waiter is None or waiter.incarnation != loaded.incarnation or waiter.grant != grant:
        return unchanged(loaded, None)
    if lease is None and waiter.state != "lost":
        return unchanged(loaded, None)
    semaphore = loaded.semaphore.end(lease) if lease else loaded.semaphore
    taken = take_over(loaded, lease) if lease else ()
    waiter = waiter_after(waiter, lease)
    if waiter.is_late(loaded.now):
        timeout = timeout_task(loaded.name, waiter, loaded.now)
        return Transition(semaphore, None, (leave(waiter, "timed_out"),), taken, effects=timeout)
    lane = lane_of(semaphore, waiter.request.key, waiter.request.priority)
    in_queue = replace(waiter_resumed(loaded.name, waiter), state="waiting", grant=None, since=waiter.joined, lane=lane)
    deadline = deadline_task(loaded.name, waiter)
    closed = lanes.without_known_head(lanes.closed(semaphore, lane, loaded.now), lane)
    back = WaiterTransition("requeued", in_queue)
    return Transition(closed, None, (back,), taken, effects=deadline, nudge=True)


def waiter_after(waiter: Waiter, lease: LeaseRecord | None) -> Waiter:
    """Return the waiter of a lost lease. If the lease was claimed, the wait was in time and cannot time out."""
    return replace(waiter, deadline_at=None) if lease is not None and lease.claimed else waiter


def waiter_resumed(name: str, waiter: Waiter) -> Waiter:
    """Return a granted waiter, whose next task continues the operation of this grant's task and its count of grants."""
    request = waiter.request
    operation = request.resumes or continuation_name(name, waiter, waiter.grant)
    return replace(waiter, request=request.resuming(operation, request.resumed + 1))


def take_over(loaded: Loaded, lease: LeaseRecord) -> tuple[Release, ...]:
    """Create the release of a claimed lease's old token. The commit fails if the other delivery has left one."""
    return (release_of(loaded, lease, TAKEN_OVER),) if lease.claimed else ()


def grant_may_continue(command: EndLease, operation: str) -> bool:
    """Return whether a release with this operation ended only one token of a grant, and the command ends all tokens.

    The grant may be held under its next token: read the semaphore again.
    """
    return command.by_grant and operation == TAKEN_OVER


def release_of(loaded: Loaded, lease: LeaseRecord, operation: str) -> Release:
    """Return the record that ends a token."""
    return Release(lease.id, lease.token, operation, loaded.incarnation)
