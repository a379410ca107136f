"""Decide whether a call is sent again, and after which pause, or which error it raises.

A call is sent again after a transport error, 429, 502, 503 and 504, with exponential pauses and full jitter (Brooker,
"Exponential Backoff and Jitter", 2015), at least as long as ``Retry-After`` demands, until `seconds_max` have passed.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from signalbox.catalogue.parts import absent
from signalbox.client.problems import Unavailable, error_of
from signalbox.core.lazy_dataclasses import dataclass

RETRIED = frozenset({429, 502, 503, 504})
PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 8.0
DOUBLINGS_MAX = 10
"""After this many doublings the pause exceeds `PAUSE_SECONDS_MAX`. A call may be retried for hours, and a larger power
of 2 would overflow a float."""


@dataclass(slots=True)
class Attempts:
    """The attempts of one call. `jitter` is a number of [0, 1) for each pause."""

    ends_at: float
    number: int = 0
    had_no_answer: bool = False

    def pause_seconds(self, now: float, jitter: float, answered: "Answered") -> float:
        """Return how long to wait before the next attempt. Raises the error of the answer if there is none."""
        self.had_no_answer |= answered.status in (0, 502, 504)
        if answered.status not in (0, *RETRIED):
            raise self.raised_for(answered)
        most = min(PAUSE_SECONDS * 2 ** min(self.number, DOUBLINGS_MAX), PAUSE_SECONDS_MAX)
        pause: float = max(answered.retry_after_seconds, jitter * most)
        self.number += 1
        if now + pause > self.ends_at:
            raise self.raised_for(answered)
        return pause

    def raised_for(self, answered: "Answered") -> Exception:
        """Return the error of an answer that is not tried again."""
        if not answered.status:
            return Unavailable(0, {"title": "No answer", "detail": answered.text})
        error = error_of(answered.status, answered.problem)
        error.is_repeated = self.had_no_answer
        return error


@dataclass(frozen=True, slots=True)
class Answered:
    """An unsuccessful answer of a function; status 0 if there is none, and then `text` says why."""

    status: int
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    function: str = ""

    @property
    def problem(self) -> dict[str, Any]:
        """The problem document; of another answer, the beginning of its text.

        A 404 that is not the API's comes from Google: there is no such function.
        """
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        missing = absent(self.function) if self.status == 404 else ""
        return {"title": "Not deployed", "detail": missing} if missing else {"detail": self.text[:300]}

    @property
    def retry_after_seconds(self) -> float:
        """The pause that the answer demands; 0 if it demands none in seconds."""
        return retry_after_seconds(self.headers)


def retry_after_seconds(headers: Mapping[str, str]) -> float:
    """Return the pause that an answer asks for. If it names none, or names a date, return 0."""
    try:
        return max(0.0, float(headers.get("Retry-After", 0)))
    except ValueError:
        return 0.0


@dataclass(slots=True)
class Patience:
    """Growing pauses of a loop that looks until something has happened. Raises `TimeoutError` when the time is over.

    The error contains the `warning`, if there is one.
    """

    ends_at: float
    pause: float = 0.1
    warning: str = ""

    def next_pause(self, now: float, what: str, least: float = 0.0) -> float:
        """Return the next pause, in seconds: at least `least`, unless the time is over before."""
        if now >= self.ends_at:
            raise TimeoutError(f"{what} after the given time" + (f". {self.warning}" if self.warning else ""))
        pause, self.pause = self.pause, min(self.pause * 1.5, 2.0)
        return min(max(pause, least), self.ends_at - now)
