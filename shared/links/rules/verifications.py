"""A verification as a value: how far one walk over all documents has come, and what it has found.

A walk is a chain of pages in the order of keys. Its record names the key after which the next page begins, so a page
that was counted is not counted again however often its task comes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS

COLLECTION = "verifications"
CURRENT = "walks/verification"
"""The record that names the walk which began last, so that two do not begin at once."""

QUEUE = "links"


@dataclass(frozen=True, slots=True)
class Finding:
    """What pages have found. ``looked`` counts documents.

    ``drifted`` counts documents that were not as a put would store them, and targets that did not know that somebody
    embeds them. ``moving`` counts such that were written lately: their own event may have been on its way. Both were
    repaired, but for ``refused``: what another client wrote and no put would take.
    """

    looked: int = 0
    drifted: int = 0
    moving: int = 0
    refused: int = 0

    def plus(self, other: "Finding") -> "Finding":
        """Add up."""
        return Finding(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Finding)))


@dataclass(frozen=True, slots=True)
class Verification:
    """One walk. ``cursor`` is the last key looked at; times are the server's; `ended_at` is None while it walks."""

    run: str
    begun_at: datetime
    moved_at: datetime
    cursor: str = ""
    pages: int = 0
    found: Finding = Finding()
    ended_at: datetime | None = None

    def walks(self, now: datetime) -> bool:
        """Tell whether this walk goes on, and has not been lost."""
        return self.ended_at is None and now - self.moved_at < timedelta(seconds=LIMITS.verify_abandoned_seconds)

    def page(self, found: Finding, last_key: str, now: datetime, *, more: bool) -> "Verification":
        """Count a page that ends with a key."""
        return replace(
            self,
            moved_at=now,
            cursor=last_key,
            pages=self.pages + 1,
            found=self.found.plus(found),
            ended_at=None if more else now,
        )

    def task(self) -> Effect:
        """Ask for the next page, once."""
        payload = {"run": self.run, "cursor": self.cursor}
        return Effect(name_of(COLLECTION, self.run, self.cursor), QUEUE, "link_verify", "page", payload)

    def shown(self) -> dict[str, Any]:
        """Give it as people see it."""
        state = "walking" if self.ended_at is None else "ended"
        ended = {"ended_at": self.ended_at} if self.ended_at else {}
        found = asdict(self.found) | {"repaired": self.found.drifted + self.found.moving - self.found.refused}
        return {"run": self.run, "state": state, "begun_at": self.begun_at, **ended, "pages": self.pages, **found}


def run_of(operation: str) -> str:
    """Name the walk that an operation begins, the same each time it is asked for."""
    return name_of(COLLECTION, operation)[:20]


def path_of(run: str) -> str:
    """Give the path of a walk's record."""
    return f"{COLLECTION}/{run}"


def encode(verification: Verification) -> dict[str, Any]:
    """Give the record of a walk."""
    record = asdict(verification)
    del record["run"]
    return record


def decode(run: str, data: Mapping[str, Any] | None) -> Verification | None:
    """Read the record of a walk; None: there is none."""
    return None if data is None else Verification(run, **{**data, "found": Finding(**data["found"])})
