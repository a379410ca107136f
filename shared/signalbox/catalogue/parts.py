"""The kit's parts, and which of them a project uses: the others are not deployed, nor served locally.

A part has workers, which are functions that queues, events and schedules call, and functions for callers over HTTP.
A function that enqueues to a part's queue uses the part; its workers, their queues, triggers and schedules follow, and
so do the parts that it needs. The functions for callers are deployed if the catalogue's `api` names the part. An entry
of the catalogue, such as a semaphore with fixed limits, also uses its part.

    PARTS["semaphores"].queue        # "admit": code that enqueues to it uses the part
    used([Use("semaphores", "functions/orders/main.py:7")]).parts   # semaphores, tasks and sweep, each with its origin
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from signalbox.core.kit_names import (
    ADMIT_QUEUE,
    BATCH_EXPAND,
    BATCHES_QUEUE,
    FLOWS_QUEUE,
    LINK_FAN_OUT,
    LINK_REFRESH,
    LINK_VERIFY,
    LINKS_QUEUE,
    OBJECTS_QUEUE,
    SEMAPHORE_ADMIT,
    STANDING_FOLD,
    STANDINGS_QUEUE,
    TASKS_QUEUE,
)
from signalbox.core.lazy_dataclasses import dataclass

ALL = "all"
"""The value of `api` for the functions of all parts."""

SWEEP = "sweep"
SCHEDULED = "scheduled_tasks"
HANDLERS = "handlers"
VERIFICATIONS = "verifications"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the kit: names of the catalogue's entries that it consists of, and of the parts that it needs."""

    workers: tuple[str, ...] = ()
    queue: str = ""
    needs: tuple[str, ...] = ()
    api: tuple[str, ...] = ()
    api_needs: tuple[str, ...] = ()
    """Parts that follow from `api`, because a caller's request may use them. In code, their own names show the use."""
    triggers: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()
    ended_by_tasks: tuple[str, ...] = ()
    """The queues to which a task enqueues that ends a piece of this work, such as a lease or a unit."""
    collections: tuple[str, ...] = ()
    """The collections of its records, whose indexes are settings of a deployment."""


PARTS: dict[str, Part] = {
    "documents": Part(
        workers=(LINK_FAN_OUT, LINK_REFRESH),
        queue=LINKS_QUEUE,
        needs=(VERIFICATIONS,),
        api=("documents",),
        triggers=("documents",),
        collections=("documents", "histories", "transforms", "versions", "walks"),
    ),
    "transforms": Part(needs=("documents",), api=("transforms",)),
    VERIFICATIONS: Part(
        workers=(LINK_VERIFY, "verifications"),
        needs=("documents",),
        api=("verifications",),
        schedules=("verify",),
        collections=("verifications",),
    ),
    "semaphores": Part(
        workers=(SEMAPHORE_ADMIT,),
        queue=ADMIT_QUEUE,
        needs=("tasks",),
        api=("semaphores", "semaphore_wait", "semaphore_signal", "semaphore_renew"),
        ended_by_tasks=(ADMIT_QUEUE, TASKS_QUEUE),
        collections=("critical_sections", "rate_waits", "rates", "releases", "semaphores", "waiters"),
    ),
    "rates": Part(needs=("semaphores",), api=("rates",), ended_by_tasks=(ADMIT_QUEUE, TASKS_QUEUE)),
    "critical_sections": Part(
        needs=("semaphores",), api=("critical_section",), ended_by_tasks=(ADMIT_QUEUE, TASKS_QUEUE)
    ),
    "batches": Part(
        workers=(BATCH_EXPAND,),
        queue=BATCHES_QUEUE,
        needs=("tasks",),
        api=("batches", "batch_complete", "smoke"),
        api_needs=("semaphores",),
        ended_by_tasks=(BATCHES_QUEUE, TASKS_QUEUE),
        collections=("batches", "completions", "counters", "pages", "units"),
    ),
    "objects": Part(queue=OBJECTS_QUEUE, needs=("tasks",), collections=("mailbox", "objects")),
    "flows": Part(queue=FLOWS_QUEUE, needs=("tasks",), collections=("flows", "log", "mailbox")),
    "standings": Part(
        workers=("standing_count", STANDING_FOLD, "standings"),
        queue=STANDINGS_QUEUE,
        needs=("tasks",),
        api=("standings", "yokes"),
        triggers=("yokes",),
        schedules=("recount",),
        collections=("adjustments", "counted", "entries", "standing_declarations", "yokes"),
    ),
    "tasks": Part(queue=TASKS_QUEUE, api=("tasks",), collections=("attempts", "failures", "receipts")),
    HANDLERS: Part(needs=("tasks",), collections=("document_events",)),
    SCHEDULED: Part(workers=("tasks",), needs=("tasks",), collections=("document_events",)),
    "failures": Part(needs=("tasks",), api=("failures",)),
    SWEEP: Part(workers=("sweep",), schedules=("sweep",), collections=("outbox", "outbox_refused")),
}
"""All parts by name. Flows need no batches: if there are none, an action on all runs that match is refused."""

APIS = tuple(name for name, part in PARTS.items() if part.api)
"""The names that `api` may contain."""

OF_QUEUES = {part.queue: name for name, part in PARTS.items() if part.queue}
"""The part of each queue of the kit."""

OF_NAMES = {
    **dict.fromkeys(("semaphore", "rate", "critical_section"), "semaphores"),
    **dict.fromkeys(("batch", "sub_batch"), "batches"),
    **dict.fromkeys(("documents", "transaction", "resource", "add_resource"), "documents"),
    **dict.fromkeys(("yokes", "standings", "standing_changed"), "standings"),
    **dict.fromkeys(("objects", "send"), "objects"),
    "flows": "flows",
}
"""The part of each public name of `signalbox` that starts work. Its import uses the part, wherever it is passed on."""

OF_SECTIONS = {"semaphores": "semaphores", "rates": "rates", "history": "documents"}
"""The part of each section of the catalogue whose entries use one."""

OF_EVENTS = {"documents": "documents", "yokes": "standings"}
"""The parts of collections of the kit whose events a function of the project may handle."""

FUNCTIONS = {function: name for name, part in reversed(PARTS.items()) for function in (*part.workers, *part.api)}
"""The part of each function of the kit. A function of two parts is attributed to the first one in `PARTS`."""


TASKS_ONLY = frozenset({"smoke"})
"""Functions in `api` that only queues call."""


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a part, with its origin, such as ``functions/orders/main.py:7``.

    `called` are functions of the part that are called over HTTP.
    """

    part: str
    origin: str
    called: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Used:
    """The parts in use, each with its first origin, and the functions that callers may call."""

    parts: Mapping[str, str] = field(default_factory=dict)
    called: frozenset[str] = frozenset()

    @property
    def functions(self) -> frozenset[str]:
        """The functions that are deployed."""
        return frozenset({*self.called, *(name for part in self._parts for name in part.workers)})

    @property
    def queues(self) -> frozenset[str]:
        """The queues that are deployed."""
        return frozenset(part.queue for part in self._parts if part.queue)

    @property
    def triggers(self) -> frozenset[str]:
        """The triggers that are deployed."""
        return frozenset(name for part in self._parts for name in part.triggers)

    @property
    def schedules(self) -> frozenset[str]:
        """The schedules that are deployed."""
        return frozenset(name for part in self._parts for name in part.schedules)

    @property
    def _parts(self) -> Iterator[Part]:
        return (PARTS[name] for name in self.parts)


def used(uses: Iterable[Use], *, verified: bool = True) -> Used:
    """Return the parts that follow from these uses, with the parts that those need.

    The sweeper follows from any part. `verified` is whether the nightly verification of documents is on.
    """
    parts: dict[str, str] = {}
    called: set[str] = set()
    left = list(uses)
    while left:
        use = left.pop(0)
        called.update(use.called)
        if use.part not in parts:
            parts[use.part] = use.origin
            needed = (name for name in PARTS[use.part].needs if name != VERIFICATIONS or verified)
            left += [Use(name, use.part) for name in needed]
    if parts:
        parts.setdefault(SWEEP, next(iter(parts)))
    return Used({name: parts[name] for name in PARTS if name in parts}, frozenset(called))


def collections_of(parts: Iterable[str]) -> list[str]:
    """Return the collections of parts, sorted."""
    return sorted({collection for name in parts for collection in PARTS[name].collections})


def absent(function: str, database: str = "") -> str:
    """Return what to add to have a function of the kit for callers; empty if the kit has no such function for them.

    `function` is its name or its URL segment, and `database` that of the functions which it would serve.
    """
    name = function.replace("-", "_")
    api = next((part for part, each in PARTS.items() if name in each.api and name not in TASKS_ONLY), "")
    named = f"{database}.{api}" if database else api
    return f"{function} is not deployed for callers: add `api: [{named}]` to the catalogue" if api else ""
