"""The marks of a call that may kill its process: how often it was started, by which run, and until when.

They are on the call's own record. Counted by deliveries of the run, an innocent call at the head of the mailbox would
be given up for the deaths of another on its page; on the header, each mark would make the run before it lose its guard.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable


@dataclass(frozen=True, slots=True)
class Mark:
    """`attempts` starts, the last one by the run `run`, which has it to itself until `until`."""

    attempts: int = 0
    run: str = ""
    until: datetime | None = None

    @classmethod
    def from_record(cls, data: Mapping[str, Any]) -> Self | None:
        """Read the mark of a message's record, or return None."""
        mark = data.get("mark")
        return None if mark is None else cls(mark["attempts"], mark["run"], mark["until"])

    def to_record(self) -> dict[str, Any]:
        """Return the mark as a message's record holds it."""
        return {"attempts": self.attempts, "run": self.run, "until": self.until}

    @property
    def is_spent(self) -> bool:
        """Return whether the call was started as often as it may be."""
        return self.attempts >= LIMITS.call_attempts_max

    def next(self, run: str, now: datetime) -> "Mark":
        """Return the mark of one more start. Raises `Unavailable` while another run has the call."""
        if self.until is not None and self.run != run and now < self.until:
            raise Unavailable("another run may still be at this call")
        return Mark(self.attempts + 1, run, now + timedelta(seconds=LIMITS.call_mark_seconds))
