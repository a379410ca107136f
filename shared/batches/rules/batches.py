"""A batch as a value: its header, its pages, its units and what became of them, and how they lie in their records.

    batches/{id}                      header: what a batch is and how it stands; written a handful of times in its life
    batches/{id}/pages/{life}-{n}     payloads of up to 100 units, or the seal's end mark behind the last
    batches/{id}/counters/{life}-…    counters and nodes of the tree (`batch_tree.py`)
    batches/{id}/units/{life}-{i}     what became of a unit

`batch_identity.py` says what a life is, and names all this.

States: open ─seal→ sealed ─all done→ completed; from open and sealed also → cancelled (by a caller, at the deadline, by
too many failures: `reason` says which); an ended batch is removed after a while.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from shared.batches.rules.identity import COLLECTION as COLLECTION
from shared.batches.rules.identity import Life as Life
from shared.batches.rules.identity import Unit as Unit
from shared.batches.rules.identity import path_of as path_of
from shared.core.rules import values
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS

State = Literal["open", "sealed", "completed", "cancelled", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a batch is and how it stands. `pages` and `size` are None until the seal.

    `first_pages` are the pages of the creating call, which nobody else may load. `done` and `failed` are counted when
    the batch ends. `due_at` is when the sweeper should look at it next.
    """

    incarnation: str
    digest: str
    deadline_at: datetime
    due_at: datetime
    first_pages: int
    state: State = "open"
    task: Mapping[str, Any] | None = None
    on_complete: Mapping[str, Any] | None = None
    failures_max: int | None = None
    pages: int | None = None
    size: int | None = None
    done: int = 0
    failed: int = 0
    reason: str = ""
    missing: tuple[int, ...] = ()
    parent: Mapping[str, Any] | None = None

    @property
    def ended(self) -> bool:
        return self.state not in {"open", "sealed"}

    def record(self) -> dict[str, Any]:
        """Give the header's record."""
        return {one.name: getattr(self, one.name) for one in fields(self)} | {"missing": list(self.missing)}


def decode(data: Mapping[str, Any] | None) -> Header | None:
    """Read a header's record."""
    return None if data is None else Header(**{**data, "missing": tuple(data["missing"])})


def alive(data: Mapping[str, Any] | None, life: Life) -> Header | None:
    """Read a header's record if it is of this life and not being removed."""
    header = decode(data)
    return header if header and header.incarnation == life.incarnation and header.state != "removed" else None


def digest(*parts: Any) -> str:
    """Hash what a caller sent, so that the same call is known again."""
    return hashlib.sha256(values.canonical(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def sealed(header: Header, pages: int, size: int, now: datetime) -> Header:
    """Say that no page follows; the sweeper looks when nothing has moved for a while."""
    look_at = min(header.deadline_at, now + timedelta(seconds=LIMITS.batch_look_seconds))
    return replace(header, state="sealed", pages=pages, size=size, due_at=look_at)


def looked_at(header: Header, now: datetime) -> Header:
    """Say when the sweeper should look again."""
    return replace(header, due_at=min(header.deadline_at, now + timedelta(seconds=LIMITS.batch_look_seconds)))


def removing(header: Header, now: datetime) -> Header:
    """Say that a batch is being removed; a minute later another sweep goes on, and lets others have their turn."""
    return replace(header, state="removed", due_at=now + timedelta(seconds=LIMITS.batch_look_seconds))


@dataclass(frozen=True, slots=True)
class Ending:
    """How a batch ends, and what was counted then. `missing` names units that were not done at the deadline."""

    state: Literal["completed", "cancelled"]
    size: int
    done: int
    failed: int
    reason: str = ""
    missing: tuple[int, ...] = ()


def ended(header: Header, ending: Ending, now: datetime) -> Header:
    """Say that a batch has ended."""
    return kept(replace(header, **asdict(ending)), now)


def kept(header: Header, now: datetime) -> Header:
    """Say when an ended batch may be removed."""
    return replace(header, due_at=now + timedelta(seconds=LIMITS.batch_keep_seconds))


def announcements(life: Life, header: Header, now: datetime) -> tuple[Effect, ...]:
    """Ask for what the end of a batch calls for: the caller's own task, and completing the unit it is the work of."""
    state = {"id": life.batch, **summary(header)}
    effects = []
    if header.on_complete is not None:
        effects.append(Call.from_record(header.on_complete).effect(life.task_name("complete"), now, batch=state))
    if header.parent is not None:
        effects.append(life.ask("child", unit=dict(header.parent)))
    return tuple(effects)


def summary(header: Header) -> dict[str, Any]:
    """Give how an ended batch stands, as its completion and its callers see it."""
    why = ({"reason": header.reason} if header.reason else {}) | (
        {"missing": list(header.missing)} if header.missing else {}
    )
    return {"state": header.state, "size": header.size or 0, "done": header.done, "failed": header.failed} | why
