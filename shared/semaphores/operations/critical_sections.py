"""Call a critical section; run what was granted, one run a key at a time.

Each operation reads the one record, decides and commits under its guard; the outbox has the task of the next run. After
a lost answer the record tells what an earlier commit has done: by the call's id, the delivery that claims, the token.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

from shared.core.operations.perform import Contended, Records, Writes, perform
from shared.core.operations.ports import Conflict, Must, Ports, Put, Snapshot
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NotFound, Unavailable
from shared.core.rules.task_context import SectionRun
from shared.semaphores.rules import critical_sections as rules
from shared.semaphores.rules.section_requests import SectionRequest, check_section_key
from shared.semaphores.rules.sections import Section, path_of

Answer = TypeVar("Answer")


def call(ports: Ports, key: str, request: SectionRequest) -> bool:
    """Run a task alone under its key; return whether its run is granted: otherwise it is due later, or shared.

    Raises `BadKey`, `OtherTask` or `Unavailable`.
    """
    operation = request.id or ports.store.new_id()
    return _change(ports, key, lambda section, now: rules.call(key, section, request, operation, now))


def get(ports: Ports, key: str) -> dict[str, Any]:
    """Return what runs under a key, and what is due. Raises `NotFound`."""
    [read] = ports.store.read(path_of(check_section_key(key)))
    if read.data is None:
        raise NotFound("Nobody has called a critical section of this key within the last week.", field="key")
    return Section.from_record(read.data).to_json(key)


def wake(ports: Ports, key: str, at: datetime) -> None:
    """Grant the next run when it is due. Raises `Unavailable`."""
    _change(ports, key, lambda section, now: rules.wake(key, section, at, now))


# --- for the task that runs ---


def claim(ports: Ports, granted: Mapping[str, Any]) -> SectionRun | None:
    """Start a run's lease; None: the run has ended. Raises `Unavailable` while another delivery may be running.

    `granted` is the section in the context of the task.
    """
    key, holder = granted["key"], ports.store.new_id()
    run = _change(ports, key, lambda section, now: rules.claim(section, granted["token"], holder, now))
    return None if run is None or run.ends_at is None else SectionRun(key, run.token, run.ends_at)


def let_go(ports: Ports, run: SectionRun) -> None:
    """End the lease of a run that its task's retry repeats; if that cannot be written, the retry waits for its end."""
    with suppress(Unavailable, Conflict):
        _change(ports, run.key, lambda section, now: rules.let_go(section, run.token, now))


def end(ports: Ports, run: SectionRun) -> bool:
    """End a run, and grant the next; return whether that was this delivery's end. Raises `Unavailable`.

    False: another delivery has taken the run over, or this one has ended it, by a commit whose answer was lost.
    Callers of a busy key race for its record: the end tries longer than they do, since without it the run is repeated.
    """
    for _ in range(LIMITS.section_end_rounds_max - 1):
        with suppress(Contended):
            return _end(ports, run)
    return _end(ports, run)


def _end(ports: Ports, run: SectionRun) -> bool:
    return _change(ports, run.key, lambda section, now: rules.end(run.key, section, run.token, now))


def _change(ports: Ports, key: str, rule: Callable[[Section, datetime], Decision[Section, Answer]]) -> Answer:
    """Change a section by a rule. A rule that leaves it as it is commits nothing."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Answer]:
        [snapshot] = read
        section, now = Section.from_record(snapshot.data), snapshot.read_time
        decided = rule(section, now)
        if decided.state == section:
            return Decision((), decided.answer)
        guard = snapshot.update_time or Must.NOT_EXIST
        return Decision((Put(snapshot.path, decided.state.to_record(now), guard),), decided.answer, decided.effects)

    reads = Records([path_of(check_section_key(key))])
    return perform(ports, reads, decide, retry_on=(Conflict, Unavailable))[0]
