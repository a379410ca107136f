"""Verifications, and the paths and fields of links in records.

A verification is one walk over all documents, or over a part of them. It is a chain of pages in the order of keys. Its
record has the key after which the next page begins, so each page is counted once, however often its task is delivered.

A nightly verification is a part of a cycle: it begins where the part before it ended, and compares a seventh of the
documents that the last cycle counted. So each document is compared once a week. The seventh part has no bound, so a
cycle ends after seven nights even if documents were added meanwhile.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Any, Self

from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.documents.model.stamped_contents import RESERVED
from signalbox.links.limits import LIMITS

LINK_KEYS = (RESERVED, "link_keys")
LINK_FIELDS = (RESERVED, "link_fields")
LINKED = (RESERVED, "linked")

VERIFICATIONS = "verifications"

CURRENT = "walks/verification"
"""The record with the ids of the verification (`run`) and of the nightly one (`part`) that began last, so that two do
not begin at once.
"""


def verification_path(run: str) -> str:
    return f"{VERIFICATIONS}/{run}"


def run_of(operation: str) -> str:
    """Return the id of the verification that an operation begins. The same operation always has the same id."""
    return name_of(VERIFICATIONS, operation)[:20]


@dataclass(frozen=True, slots=True)
class Finding:
    """Counts of documents. `looked` counts all documents of a page.

    `drifted` counts documents that differed from the record that a put would store, and targets that were not marked as
    linked. `moving` counts the differences of recently written documents, whose own event may still have been on its
    way. All were repaired except `refused`: documents with content from another client that a put would refuse.
    """

    looked: int = 0
    drifted: int = 0
    moving: int = 0
    refused: int = 0

    def plus(self, other: "Finding") -> "Finding":
        """Return the sums of the counts."""
        return Finding(*(getattr(self, count.name) + getattr(other, count.name) for count in fields(Finding)))


@dataclass(frozen=True, slots=True)
class Verification:
    """A verification. Times are the server's.

    - `cursor` is the last key verified, and `ended_at` is None until the end.
    - `part` is the number of a nightly verification in its cycle, from 1; 0 if it is not nightly.
    - `documents_max` ends the part after the page that reaches it; 0 is no bound.
    - `looked_before` are the documents that the earlier parts of the cycle compared.
    - `stored` are the documents that the last cycle compared; 0 if there was none.
    - `reached_end` is whether no document follows `cursor`.

    The record has the last five only if the verification is nightly.
    """

    run: str
    begun_at: datetime
    moved_at: datetime
    cursor: str = ""
    pages: int = 0
    found: Finding = Finding()
    ended_at: datetime | None = None
    part: int = 0
    documents_max: int = 0
    looked_before: int = 0
    stored: int = 0
    reached_end: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether this verification compares all documents."""
        return self.part <= 1 and not self.documents_max

    @classmethod
    def from_record(cls, run: str, data: Mapping[str, Any] | None) -> Self | None:
        """Return the verification of a record, or None if the record does not exist."""
        return None if data is None else cls(run, **{**data, "found": Finding(**data["found"])})

    def to_record(self) -> dict[str, Any]:
        record = asdict(self)
        del record["run"]
        if not self.part:
            for name in ("part", "documents_max", "looked_before", "stored", "reached_end"):
                del record[name]
        return record

    def is_running(self, now: datetime) -> bool:
        """Return whether this verification has neither ended nor been abandoned."""
        return self.ended_at is None and now - self.moved_at < timedelta(seconds=LIMITS.verify_abandoned_seconds)

    def awaits(self, cursor: str) -> bool:
        """Return whether the next page is the one after `cursor`."""
        return self.ended_at is None and self.cursor == cursor

    def with_page(self, found: Finding, last_key: str, now: datetime, *, more: bool) -> "Verification":
        """Return the verification after a page that ends with a key."""
        total = self.found.plus(found)
        is_full = 0 < self.documents_max <= total.looked
        return replace(
            self,
            moved_at=now,
            cursor=last_key,
            pages=self.pages + 1,
            found=total,
            ended_at=None if more and not is_full else now,
            reached_end=not more,
        )
