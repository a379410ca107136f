"""The answers about critical sections. Payloads are not shown: they may be large."""

from datetime import datetime
from typing import Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.critical_sections.model import NextRun, Run, Section


@dataclass(frozen=True, slots=True)
class SectionCalledShown:
    """A run will start after this call."""

    granted: bool
    """Whether the run of this call is enqueued; otherwise it is due later, or shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRunShown:
    """The current run."""

    function: str
    task: str

    flow: str = ""
    """The run of a flow that waits, as `checkout/order-7`."""

    step: str | None = None
    """The place in that run's log."""

    token: int
    granted_at: datetime

    ends_at: datetime | None = None
    """The end of the lease of the delivery that runs its code; absent until one does."""

    @classmethod
    def of(cls, run: Run) -> Self:
        return cls(**run.call.shown(), token=run.token, granted_at=run.granted_at, ends_at=run.ends_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRunShown:
    """The run that calls are merged into."""

    function: str
    task: str

    flow: str = ""
    """The run of a flow that waits, as `checkout/order-7`."""

    step: str | None = None
    """The place in that run's log."""

    called_at: datetime
    due_at: datetime

    @classmethod
    def of(cls, run: NextRun) -> Self:
        return cls(**run.call.shown(), called_at=run.first_at, due_at=run.due_at)


@dataclass(frozen=True, slots=True)
class SectionShown:
    """The current run and the next one, each absent if there is none."""

    key: str
    running: SectionRunShown | None = None
    next: NextRunShown | None = None

    @classmethod
    def of(cls, key: str, section: Section) -> Self:
        run, next_ = section.run, section.next
        return cls(key, SectionRunShown.of(run) if run else None, NextRunShown.of(next_) if next_ else None)
