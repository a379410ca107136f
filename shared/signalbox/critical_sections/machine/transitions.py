"""Every decision about a critical section, as pure functions of its state, a command and the server's time.

A section is in one of six states. In the last four it has a run, and may also have a next run.

    idle      no run and no next run
    waiting   no run; the next run is not granted yet
    granted   the run's task is enqueued, and no delivery has claimed the run
    claimed   a delivery holds the run's lease
    expired   the lease has ended: the code failed and will be retried, or the process died
    lost      no delivery has appeared for an hour, so the task no longer exists

    command  in state                          if                        state    answer   task
    -------  --------------------------------  ------------------------  -------  -------  ----
    call     any                               its id is remembered      same     no next  -
    call     any                               its id is of other call   OtherBody
    call     idle, waiting                     due now                   granted  True     run
    call     idle                              due later                 waiting  False    wake
    call     waiting                           due later, wake in time   waiting  False    -
    call     waiting                           due later, wake late      waiting  False    wake
    call     granted, claimed, expired         -                         same     False    -
    call     lost                              -                         granted  False    run
    call     any but idle                      next of another task      OtherTask
    call     any but idle                      next has no room          Unavailable

    wake     any                               before its time           Unavailable
    wake     idle, granted, claimed, expired   -                         same     no next  -
    wake     waiting                           due now                   granted  True     run
    wake     waiting                           due later, wake in time   waiting  False    -
    wake     waiting                           due later, wake late      waiting  False    wake
    wake     lost                              -                         granted  no next  run

    claim    any                               another grant             same     None     -
    claim    granted, expired, lost            -                         claimed  lease    -
    claim    claimed                           the same delivery         same     lease    -
    claim    claimed                           another delivery          Unavailable

    release  any                               another token             same     False    -
    release  claimed, expired, lost            its token                 expired  True     -

    end      any                               another token             same     False    -
    end      claimed, expired, lost            no next                   idle     True     -
    end      claimed, expired, lost            next due now              granted  True     run
    end      claimed, expired, lost            next later, wake in time  waiting  True     -
    end      claimed, expired, lost            next later, wake late     waiting  True     wake

The answer of `call` is whether the caller's run is granted; "no next" is true if no next run is left. A run ends only
by `end`, never by time: an expired lease lets another delivery of the same task take the run over under a new token,
but never starts the next run.
"""

from datetime import datetime, timedelta

from signalbox.core.effects import Decision, Effect, name_of
from signalbox.core.kit_names import ADMIT_QUEUE, SEMAPHORE_ADMIT
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.problems import OtherBody, Unavailable
from signalbox.core.times import microseconds
from signalbox.critical_sections.limits import LIMITS
from signalbox.critical_sections.machine.debounce import merge
from signalbox.critical_sections.model import Grant, NextRun, Phase, Run, Section, SectionRun, path_of
from signalbox.critical_sections.requests import SectionRequest

ID_CHARACTERS = 16
"""The length of a remembered hash, of an id or of its call: 64 bits, so no two of a hundred ids collide."""

Decided = Decision[Section, bool]


# --- states of a run ---


def phase(run: Run, now: datetime) -> Phase:
    """Return the state of a run at a time: granted, claimed by a delivery, expired or lost."""
    if run.ends_at is not None and now < run.ends_at:
        return Phase.CLAIMED
    if now >= run.lost_at:
        return Phase.LOST
    return Phase.GRANTED if run.ends_at is None else Phase.EXPIRED


# --- commands ---


def call(key: str, section: Section, request: SectionRequest, call_id: str, now: datetime) -> Decided:
    """Merge a call into the next run, and grant that run if it is due and nothing runs.

    A call without an id that does not change the next run writes nothing, since that run starts later anyway. Raises
    `OtherTask` if the next run is of another task, `OtherBody` if a caller named an id that another call has, and
    `Unavailable` if the next run has no room for the call's items.
    """
    id_ = name_of(call_id)[:ID_CHARACTERS]
    content = name_of(request.continuation.digest, request.collect)[:ID_CHARACTERS]
    before = next((known for known in section.ids if known.startswith(id_)), None)
    if before and request.named and before != id_ + content:
        raise OtherBody(f"The id {request.id!r} was used for another call: choose another id.", field="id")
    if before:
        return Decision(section, section.next is None)
    merged = merge(section.next, request, now)
    ids = (*section.ids, id_ + content)[-LIMITS.section_ids_max :]
    decided = advance(key, replace(section, next=merged, ids=ids), now)
    if not decided.effects and not request.id and section.next and _is_same(section.next, merged):
        return Decision(section, False)
    return decided


def wake(key: str, section: Section, at: datetime, now: datetime) -> Decided:
    """Grant the next run if it is due. Raises `Unavailable` if the queue's clock is ahead of the server's."""
    if now < at:
        raise Unavailable("the run is not due by the server's clock")
    return advance(key, section, now)


def claim(key: str, section: Section, grant: int, delivery: str, now: datetime) -> Decision[Section, SectionRun | None]:
    """Start a lease of the run for a delivery of its task. The answer is None if the run has ended.

    Raises `Unavailable` while another delivery holds the lease.
    """
    run = section.run
    if run is None or run.grant != grant:
        return Decision(section, None)
    if phase(run, now) is Phase.CLAIMED:
        if run.holder != delivery:
            raise Unavailable("another delivery of this run may still be running")
        return Decision(section, run.lease(key))
    token = next_token(section, now)
    claimed = replace(run, token=token, holder=delivery, ends_at=now + timedelta(seconds=run.lease_seconds))
    return Decision(replace(section, token=token, run=claimed), claimed.lease(key))


def release(section: Section, token: int, now: datetime) -> Decided:
    """End the lease of a run whose code failed, so that its retry can claim the run at once."""
    if section.run is None or section.run.token != token:
        return Decision(section, False)
    return Decision(replace(section, run=replace(section.run, ends_at=now)), True)


def end(key: str, section: Section, token: int, now: datetime) -> Decided:
    """End the run and grant the next one. The answer is False if another delivery has taken the run over."""
    if section.run is None or section.run.token != token:
        return Decision(section, False)
    return replace(advance(key, replace(section, run=None), now), answer=True)


# --- granting ---


def advance(key: str, section: Section, now: datetime) -> Decided:
    """Grant the next run if it is due and nothing runs. If it is due later, enqueue a wake task unless one exists."""
    run, next_ = section.run, section.next
    if run is not None and phase(run, now) is Phase.LOST:
        return _grant_again(key, section, run, now)
    if run is not None or next_ is None:
        return Decision(section, next_ is None)
    if next_.due_at <= now:
        return _grant(key, section, next_, now)
    if has_wake_task(section, next_, now):
        return Decision(section, False)
    return Decision(replace(section, alarm_at=next_.due_at), False, (wake_task(key, section, next_.due_at),))


def has_wake_task(section: Section, next_: NextRun, now: datetime) -> bool:
    """Return whether a wake task will arrive by the time the next run is due.

    A wake task whose time has passed does not count: it may have arrived during a run and done nothing.
    """
    return section.alarm_at is not None and now < section.alarm_at <= next_.due_at


def _grant(key: str, section: Section, next_: NextRun, now: datetime) -> Decided:
    token = next_token(section, now)
    run = Run(next_.call, next_.collect, next_.lease_seconds, token, token, now)
    return Decision(replace(section, token=token, run=run, next=None, alarm_at=None), True, (run_task(key, run),))


def _grant_again(key: str, section: Section, lost: Run, now: datetime) -> Decided:
    """Grant a lost run under a new token, so that a late delivery of its old task cannot claim it.

    The code may have been started, so its task continues the operation of the first one.
    """
    token = next_token(section, now)
    resumes = lost.resumes or run_task(key, lost).name
    run = replace(lost, grant=token, token=token, granted_at=now, holder="", ends_at=None, resumes=resumes)
    return Decision(replace(section, token=token, run=run), section.next is None, (run_task(key, run),))


def next_token(section: Section, now: datetime) -> int:
    """Return a token larger than all earlier ones of this key, including those of a record that has expired."""
    return max(section.token + 1, microseconds(now))


def _is_same(next_: NextRun, merged: NextRun) -> bool:
    """Return whether two runs have equal records. Their payloads are JSON text, in which 1 and true differ."""
    return next_.to_record() == merged.to_record()


# --- tasks ---


def run_task(key: str, run: Run) -> Effect:
    """Return the task of a granted run, named after its grant."""
    ends_at = run.granted_at + timedelta(seconds=run.lease_seconds)
    grant = Grant(key, run.grant, ends_at, run.collect, run.lease_seconds, run.resumes)
    return run.call.effect(name_of(path_of(key), run.grant, "run"), run.granted_at, section=grant.to_context())


def wake_task(key: str, section: Section, due_at: datetime) -> Effect:
    """Return the task that grants the next run when it is due."""
    name = name_of(path_of(key), section.token, "wake", microseconds(due_at))
    payload = {"key": key, "at": due_at.isoformat()}
    return Effect(name, ADMIT_QUEUE, SEMAPHORE_ADMIT, "wake", payload, not_before=due_at)
