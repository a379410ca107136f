"""Which notices an application receives: a model of "Tell your application" in docs/operations.md.

It uses nothing of the kit. A fact is what users see of their runs, batches and tasks (the state that a run has ended
in, the counts of a batch), together with what they have done themselves: the code that raised, the caller that
cancelled, the options of the batch. `notice_of` decides whether the page promises a notice of it, and which.

`Receiver` is the `on_failure` of the application. It recognises a repetition by its operation, as the page says, so it
has one notice for each fact: each fact has a notice, under one operation, and no two facts share an operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

NOTICE_TASK = "on_failure"
"""The name under which the world lists the failures of the code of `on_failure` itself."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What the page promises: the function whose code runs, and the fields of its argument."""

    function: str
    subject: str
    reason: str
    name: str
    id: str
    problem: str
    detail: str
    place: str = ""
    locks: tuple[str, ...] = ()


# --- facts ---


@dataclass(frozen=True, slots=True)
class RunStuck:
    """The status of a run is `stuck`, and was not or named another reason; `locks` are those that its code is in."""

    function: str
    flow: str
    run: str
    problem: str
    detail: str
    place: str
    locks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run has ended as `state`. `timed_out`: by its time-out; `has_parent`: it is a sub-flow."""

    function: str
    flow: str
    run: str
    state: str
    problem: str = ""
    detail: str = ""
    timed_out: bool = False
    has_parent: bool = False


@dataclass(frozen=True, slots=True)
class TaskGivenUp:
    """A task is listed among the failures, under `id`."""

    function: str
    task: str
    id: str
    problem: str
    detail: str


@dataclass(frozen=True, slots=True)
class BatchEnded:
    """A batch has ended with `failed` units of `size`, for `reason` if it is cancelled.

    `task`, `on_failure` and `on_complete` are the functions of these options; `for_flow`: a flow waits for it.
    """

    batch: str
    state: str
    size: int
    failed: int
    reason: str
    missing: int
    failures_max: int | None
    task: str = ""
    on_failure: str = ""
    on_complete: str = ""
    for_flow: bool = False


Fact = RunStuck | RunEnded | TaskGivenUp | BatchEnded


# --- what the page promises ---


def notice_of(fact: Fact) -> Notice | None:
    """Return the notice of a fact, or None if the page promises none."""
    match fact:
        case RunStuck():
            what = fact.flow, fact.run, fact.problem, fact.detail
            return Notice(fact.function, "flow", "stuck", *what, fact.place, fact.locks)
        case RunEnded():
            waits_for_a_person = fact.state == "failed" or (fact.state == "cancelled" and fact.timed_out)
            if not waits_for_a_person or fact.has_parent:
                return None
            return Notice(fact.function, "flow", "failed", fact.flow, fact.run, fact.problem, fact.detail)
        case TaskGivenUp():
            if fact.task == NOTICE_TASK:
                return None
            return Notice(fact.function, "task", "failed", fact.task, fact.id, fact.problem, fact.detail)
        case BatchEnded():
            return _notice_of_batch(fact)


def _notice_of_batch(fact: BatchEnded) -> Notice | None:
    by_deadline, by_caller = fact.reason == "deadline", fact.reason == "cancelled"
    too_many = fact.failed > (fact.failures_max or 0)
    if by_caller or fact.for_flow or not (too_many or by_deadline):
        return None
    function = fact.task or fact.on_failure or fact.on_complete
    detail = f"{fact.failed} of {fact.size} units failed."
    if by_deadline:
        detail = f"The deadline is over; {fact.missing} units without an outcome are known. {detail}"
    return Notice(function, "batch", "failed", "", fact.batch, "deadline" if by_deadline else "failures", detail)


# --- what an application receives ---


@dataclass(slots=True)
class Receiver:
    """The code of `on_failure` of the functions `paged`. `receive` and `missing` return what is wrong, or nothing."""

    paged: Collection[str]
    due: Counter[Notice] = field(default_factory=Counter)
    received: dict[str, Notice] = field(default_factory=dict)

    def happens(self, fact: Fact) -> None:
        notice = notice_of(fact)
        if notice and notice.function in self.paged:
            self.due[notice] += 1

    def is_retried(self, operation: str) -> None:
        """Note that a person runs a given-up `on_failure` again: that is a new run, with its own operation."""
        self.due[self.received[operation]] += 1

    def receive(self, operation: str, notice: Notice) -> str:
        known = self.received.setdefault(operation, notice)
        if known != notice:
            return f"{operation} repeats {known} as {notice}"
        if Counter(self.received.values())[notice] > self.due[notice]:
            return f"{notice} was received more often than the {self.due[notice]} times that it happened"
        return ""

    def missing(self) -> list[Notice]:
        return sorted((self.due - Counter(self.received.values())).elements(), key=str)
