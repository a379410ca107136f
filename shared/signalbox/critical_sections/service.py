"""Load the section's record, decide, commit: each operation is one guarded change of one record.

When the answer of a commit is lost, the operation is decided again, and the record shows whether the first commit
landed: it then has the call's id, the delivery that claimed, or a newer token.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from signalbox.core.effects import Decision
from signalbox.core.perform import Records, Writes, perform
from signalbox.core.ports import Conflict, Must, Ports, Put, Snapshot
from signalbox.core.problems import Contended, NotFound, Problem, Unavailable
from signalbox.critical_sections.limits import LIMITS
from signalbox.critical_sections.machine import transitions
from signalbox.critical_sections.model import Grant, Section, SectionRun, path_of
from signalbox.critical_sections.requests import SectionRequest, check_key

Answer = TypeVar("Answer")


# --- for callers ---


def call(ports: Ports, key: str, request: SectionRequest) -> bool:
    """Call a critical section; return whether the run of this call is granted already.

    Raises `BadKey`, `OtherTask`, `OtherBody` or `Unavailable`.
    """
    call_id = request.id or ports.store.new_id()
    return _change(ports, key, lambda section, now: transitions.call(key, section, request, call_id, now))


def get(ports: Ports, key: str) -> Section:
    """Return the section of a key. Raises `BadKey` or `NotFound`."""
    [snapshot] = ports.store.read(path_of(check_key(key)))
    if snapshot.data is None:
        raise NotFound("The critical section of this key has not been called in the last week.", field="key")
    return Section.from_record(snapshot.data)


# --- for tasks ---


def wake(ports: Ports, key: str, at: datetime) -> None:
    """Grant the next run if it is due. Raises `Unavailable` if it is earlier than `at` by the server's clock."""
    _change(ports, key, lambda section, now: transitions.wake(key, section, at, now))


def wake_lost(ports: Ports, key: str) -> None:
    """Grant a run again if its task is lost, or the next run if its wake task is. Raises `Unavailable`."""
    _change(ports, key, lambda section, now: transitions.advance(key, section, now))


def run(ports: Ports, grant: Grant, code: Callable[[SectionRun], object]) -> None:
    """Run a task's code under the lease of its run, and end the run.

    A `Problem` also ends the run: the task is not retried, and other calls wait for the end. After any other error the
    task is retried, so only the lease is released.
    """
    lease = claim(ports, grant)
    if lease is None:
        ports.log.info("run of critical section ended, task dropped", key=grant.key, token=grant.token)
        return
    try:
        code(lease)
    except Problem:
        end(ports, lease)
        raise
    except Exception:
        release(ports, lease)
        raise
    end(ports, lease)


def claim(ports: Ports, grant: Grant) -> SectionRun | None:
    """Start a lease of the run that a task was granted, or return None if the run has ended.

    Raises `Unavailable` while another delivery holds the lease.
    """
    delivery = ports.store.new_id()
    return _change(
        ports, grant.key, lambda section, now: transitions.claim(grant.key, section, grant.token, delivery, now)
    )


def release(ports: Ports, lease: SectionRun) -> None:
    """End the lease before the task is retried. If the commit fails, the retry waits until the lease expires."""
    with suppress(Unavailable, Conflict):
        _change(ports, lease.key, lambda section, now: transitions.release(section, lease.token, now))


def end(ports: Ports, lease: SectionRun) -> bool:
    """End the run and grant the next one; return whether this delivery is known to have ended it.

    The result is False if another delivery has taken the run over, or if the answer to this delivery's own commit was
    lost. Callers of a busy key compete for its record, so `end` makes more attempts than a call does: if `end` fails,
    the code runs again. Raises `Unavailable`.
    """
    for _ in range(LIMITS.section_end_rounds_max - 1):
        with suppress(Contended):
            return _end(ports, lease)
    return _end(ports, lease)


def _end(ports: Ports, lease: SectionRun) -> bool:
    return _change(ports, lease.key, lambda section, now: transitions.end(lease.key, section, lease.token, now))


def _change(ports: Ports, key: str, rule: Callable[[Section, datetime], Decision[Section, Answer]]) -> Answer:
    """Change a section by a rule, and commit nothing if the rule leaves it unchanged."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Answer]:
        [snapshot] = read
        section, now = Section.from_record(snapshot.data), snapshot.read_time
        decided = rule(section, now)
        if decided.state == section:
            return Decision((), decided.answer)
        guard = snapshot.update_time or Must.NOT_EXIST
        return Decision((Put(snapshot.path, decided.state.to_record(now), guard),), decided.answer, decided.effects)

    answer, _ = perform(ports, Records([path_of(check_key(key))]), decide, retry_on=(Conflict, Unavailable))
    return answer
