"""The header of a batch: its options, its state and its counts; and the status that callers see."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, Literal, Self

from signalbox.batches.model.settings import BatchSettings
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit
from signalbox.core.calls import Call
from signalbox.core.given import given
from signalbox.core.lazy_dataclasses import dataclass

REPLACED = "replaced"
"""The reason for the end of a sub-batch that was not sealed before its unit's task returned another sub-batch."""

ShownState = Literal["open", "sealed", "completed", "cancelled"]
"""The states that callers see. A batch that is being removed is not found."""

State = Literal["open", "sealed", "completed", "cancelled", "removed"]
"""See the table in `machine/lifecycle.py`."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The units of a batch: `size` is all of them; `succeeded` and `failed` are disjoint."""

    size: int
    succeeded: int
    failed: int

    @property
    def remaining(self) -> int:
        """The number of units without an outcome."""
        return self.size - self.succeeded - self.failed


# --- the header ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a batch: its options and its state.

    - `first_pages`: the number of pages of the creating call, which no other call may load.
    - `pages`, `size`: None until the seal.
    - `succeeded`, `failed`: counted at the end.
    - `due_at`: the time at which the sweeper handles the batch next.
    - `missing`: indexes of units without an outcome at the deadline.
    - `parent`: the unit whose work this batch is.
    - `then`: the JSON of the batch that follows if this one succeeds. Large units are payloads.
    """

    incarnation: str
    digest: str
    deadline_at: datetime
    due_at: datetime
    first_pages: int
    state: State = "open"
    settings: BatchSettings = BatchSettings()
    pages: int | None = None
    size: int | None = None
    succeeded: int = 0
    failed: int = 0
    reason: str = ""
    missing: tuple[int, ...] = ()
    parent: PlacedUnit | None = None
    then: str = ""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        own = {field.name: record[field.name] for field in fields(cls) if field.name != "settings"}
        return cls(
            **own
            | {
                "settings": BatchSettings.from_record(record),
                "missing": tuple(record["missing"]),
                "parent": record["parent"] and PlacedUnit.from_record(record["parent"]),
            }
        )

    def to_record(self) -> dict[str, Any]:
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "settings"}
        return {
            **own,
            **self.settings.to_record(),
            "missing": list(self.missing),
            "parent": self.parent and self.parent.to_record(),
            "parent_run": self.parent and self.parent.run.key,
        }

    @property
    def ended(self) -> bool:
        return self.state not in {"open", "sealed"}

    @property
    def counts(self) -> Counts:
        """The counts of an ended batch."""
        return Counts(self.size or 0, self.succeeded, self.failed)

    def summary(self) -> dict[str, Any]:
        """Return the state and counts of an ended batch, as its completion task and its callers receive them."""
        why = given(reason=self.reason or None, missing=list(self.missing) or None)
        return {"state": self.state, **asdict(self.counts), **why}


def header_of(record: Mapping[str, Any] | None) -> Header | None:
    """Return the header of a batch, or None if the batch has no record or is being removed."""
    header = None if record is None else Header.from_record(record)
    return header if header and header.state != "removed" else None


def header_of_run(record: Mapping[str, Any] | None, run: BatchRun) -> Header | None:
    """Return the header if it belongs to this run, and None for another incarnation."""
    header = header_of(record)
    return header if header and header.incarnation == run.incarnation else None


# --- the status ---


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """State and counts. `pages` is the number of pages as far as known. `reason` and `missing` describe the end.

    `then` is the id of the batch that follows. Without a `task`, units are completed from outside.
    """

    id: str
    state: State
    counts: Counts
    pages: int | None
    reason: str = ""
    missing: tuple[int, ...] = ()
    then: str = ""
    task: Call | None = None

    @classmethod
    def of_ended(cls, batch: str, header: Header) -> Self:
        """Return the status of a batch that has ended."""
        follows = then_id(batch, header)
        return cls(
            batch,
            header.state,
            header.counts,
            header.pages,
            header.reason,
            header.missing,
            follows,
            header.settings.task,
        )

    @property
    def runs(self) -> bool:
        """Whether units may run or be retried."""
        return self.state in ("open", "sealed")


def then_id(batch: str, header: Header) -> str:
    """Return the id of the batch that follows, or an empty text. That batch exists once this batch has succeeded."""
    return BatchRun(batch, header.incarnation).then_id if header.then else ""
