"""The status of a stack, in lines: services, queues, outbox, objects, the last sweep, recent errors.

A section renders data of a `Source` as lines. A subject with data to show adds a method to `Source` and to both of its
implementations, and a section to `SECTIONS`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

OUTBOX_SECONDS = 120
"""A record older than this was left by a process that died, and the sweeper has not enqueued it yet."""

SWEEP_SECONDS = 180
STUCK_NAMED_MAX = 3

OBJECTS_MAX = 50
"""The number of objects whose waiting calls are counted, each by a separate query."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    text: str
    well: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the stack, and whether it is running."""

    name: str
    state: str
    well: bool = True


@dataclass(frozen=True, slots=True)
class Queue:
    """The counts of a queue, or None if they are unknown.

    `more` is the text after a count that is only a lower bound.
    """

    name: str
    waiting: int
    running: int | None = None
    more: bool = False
    state: str = "RUNNING"


@dataclass(frozen=True, slots=True)
class QueueNow:
    """A queue. `tasks` includes the `running` ones, which are being delivered; `per_minute` are attempts that ended.

    `oldest_seconds` is the time since the first task was due: it is negative if the task is due later, and None if
    there is no task.
    """

    name: str
    tasks: int
    running: int
    oldest_seconds: float | None
    per_minute: int
    state: str = "running"


@dataclass(frozen=True, slots=True)
class Outbox:
    """The records in the outbox, and the age of the oldest. `more` is whether only the first ones were read."""

    records: int
    oldest_seconds: float | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class Objects:
    """Durable objects, the calls that wait at them, and the calls that were given up.

    `more` is whether only the first ones were read. An object whose first call still waits is not counted, since it
    exists only after its first turn.
    """

    count: int
    waiting: int
    given_up: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class Sweep:
    """The age of the sweeper's last run, and whether it succeeded, or None if no run is known."""

    seconds_ago: float | None
    well: bool = True


@dataclass(frozen=True, slots=True)
class StuckFlows:
    """The runs of flows that are stuck, ``flow/id``. `more` is whether only the first ones were read."""

    runs: Sequence[str]
    more: bool = False


class Source(Protocol):
    """The source of a status: this machine's stack, or a deployment."""

    def parts(self) -> Sequence[Part]: ...

    def queues(self) -> Sequence[Queue]: ...

    def paused_schedules(self) -> Collection[str]:
        """Return the names of the schedules that are paused."""

    def outbox(self) -> Outbox: ...

    def objects(self) -> Objects: ...

    def last_sweep(self) -> Sweep | None:
        """Return the last run of the sweeper, or None if the project needs no sweeper."""

    def stuck_flows(self) -> StuckFlows: ...

    def errors(self) -> Sequence[Mapping[str, Any]]:
        """Return the log entries of recent errors, the newest last."""


def parts(source: Source) -> Iterator[Line]:
    for part in source.parts():
        yield Line(part.name, part.state, part.well)


def queues(source: Source) -> Iterator[Line]:
    return map(queue_line, source.queues())


def queue_line(queue: Queue) -> Line:
    """Return the line of a queue."""
    running = "" if queue.running is None else f", {queue.running:,} in delivery"
    state = "" if queue.state == "RUNNING" else f", {queue.state.lower()}"
    counted = f"{queue.waiting:,}{'+' if queue.more else ''} waiting{running}{state}"
    return Line(f"queue {queue.name}", counted, not state)


def schedules(source: Source) -> Iterator[Line]:
    """Iterate over a line for each paused schedule. A schedule that runs has none."""
    for name in source.paused_schedules():
        yield Line(f"schedule {name}", "paused", well=False)


def outbox(source: Source) -> Iterator[Line]:
    found = source.outbox()
    if not found.records:
        yield Line("outbox", "empty")
        return
    age = found.oldest_seconds or 0
    text = f"{found.records:,}{'+' if found.more else ''} records, the oldest {duration(age)} old"
    yield Line("outbox", text, age < OUTBOX_SECONDS)


def objects(source: Source) -> Iterator[Line]:
    found = source.objects()
    text = (
        f"{found.count:,}{'+' if found.more else ''}, {found.waiting:,} calls wait at them, {found.given_up:,} given up"
    )
    yield Line("objects", text if found.count or found.given_up else "none", not found.given_up)


def sweep(source: Source) -> Iterator[Line]:
    last = source.last_sweep()
    if last is None:
        return
    if last.seconds_ago is None:
        yield Line("last sweep", "none is known", well=False)
        return
    failed = "" if last.well else ", and it failed"
    yield Line(
        "last sweep", f"{duration(last.seconds_ago)} ago{failed}", last.well and last.seconds_ago < SWEEP_SECONDS
    )


def stuck_flows(source: Source) -> Iterator[Line]:
    found = source.stuck_flows()
    named = ", ".join(found.runs[:STUCK_NAMED_MAX])
    more = ", …" if found.more or len(found.runs) > STUCK_NAMED_MAX else ""
    yield Line("stuck flows", f"{len(found.runs)}: {named}{more}" if found.runs else "none", not found.runs)


def errors(source: Source) -> Iterator[Line]:
    found = source.errors()
    yield Line("recent errors", f"{len(found)}" if found else "none", not found)


SECTIONS: Sequence[Callable[[Source], Iterable[Line]]] = (
    parts,
    queues,
    schedules,
    outbox,
    objects,
    sweep,
    stuck_flows,
    errors,
)


def lines_of(source: Source) -> Iterator[Line]:
    """Return all lines. A section that cannot be read is a line with the reason."""
    for section in SECTIONS:
        try:
            yield from section(source)
        except Exception as error:  # noqa: BLE001 - a status shows what it can
            yield Line(section.__name__, f"cannot be read: {error}", well=False)


def duration(seconds: float) -> str:
    """Return a duration in its largest unit."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
