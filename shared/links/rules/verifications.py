"""A verification as a value: the progress of one walk over all documents, and what it has found.

A walk is a chain of pages in the order of keys. Its record names the key after which the next page begins, so a page is
counted once, however often its task is delivered.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Self

from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS

COLLECTION = "verifications"
CURRENT = "walks/verification"
"""The record that names the walk which began last, so that two do not begin at once."""

QUEUE = "links"


@dataclass(frozen=True, slots=True)
class Finding:
    """Counts over pages. ``looked`` counts documents.

    ``drifted`` counts documents that differed from what a put would store, and targets that were not marked as linked.
    ``moving`` counts those among such that were written lately: their own event may have been on its way. Both were
    repaired, except ``refused``: what another client wrote and a put would not accept.
    """

    looked: int = 0
    drifted: int = 0
    moving: int = 0
    refused: int = 0

    def plus(self, other: "Finding") -> "Finding":
        """Return the sums."""
        return Finding(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Finding)))


@dataclass(frozen=True, slots=True)
class Verification:
    """One walk. ``cursor`` is the last key verified; times are the server's; ``ended_at`` is None while it runs."""

    run: str
    begun_at: datetime
    moved_at: datetime
    cursor: str = ""
    pages: int = 0
    found: Finding = Finding()
    ended_at: datetime | None = None

    @classmethod
    def from_record(cls, run: str, data: Mapping[str, Any] | None) -> Self | None:
        """Return the walk of a record, or None if there is no record."""
        return None if data is None else cls(run, **{**data, "found": Finding(**data["found"])})

    def to_record(self) -> dict[str, Any]:
        """Return the record."""
        record = asdict(self)
        del record["run"]
        return record

    def to_json(self) -> dict[str, Any]:
        """Return the report that callers see."""
        state = "running" if self.ended_at is None else "ended"
        ended = {"ended_at": self.ended_at} if self.ended_at else {}
        found = asdict(self.found) | {"repaired": self.found.drifted + self.found.moving - self.found.refused}
        return {"run": self.run, "state": state, "begun_at": self.begun_at, **ended, "pages": self.pages, **found}

    def is_running(self, now: datetime) -> bool:
        """Return whether this walk has neither ended nor been abandoned."""
        return self.ended_at is None and now - self.moved_at < timedelta(seconds=LIMITS.verify_abandoned_seconds)

    def awaits(self, cursor: str) -> bool:
        """Return whether the next page is the one after `cursor`."""
        return self.ended_at is None and self.cursor == cursor

    def count_page(self, found: Finding, last_key: str, now: datetime, *, more: bool) -> "Verification":
        """Return the walk after a page that ends with a key."""
        return replace(
            self,
            moved_at=now,
            cursor=last_key,
            pages=self.pages + 1,
            found=self.found.plus(found),
            ended_at=None if more else now,
        )

    def next_page_task(self) -> Effect:
        """Return the task for the next page, named once a page."""
        payload = {"run": self.run, "cursor": self.cursor}
        return Effect(name_of(COLLECTION, self.run, self.cursor), QUEUE, "link_verify", "page", payload)


def run_of(operation: str) -> str:
    """Return the id of the walk that an operation begins; the same operation, the same id."""
    return name_of(COLLECTION, operation)[:20]


def path_of(run: str) -> str:
    """Return the path of a walk's record."""
    return f"{COLLECTION}/{run}"
