"""Decisions: whether a call is sent again, how a stream of events is read, how documents are grouped for a load.

A call is sent again after a transport error, 429, 502, 503 and 504, with exponential pauses and full jitter (Brooker,
"Exponential Backoff and Jitter", 2015), at least as long as ``Retry-After`` demands, until `seconds_max` have passed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from signalbox.client.model import Event, Json
from signalbox.client.problems import ApiError, PreconditionFailed, Unavailable, error_of

RETRIED = frozenset({429, 502, 503, 504})
PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 8.0
LOAD_DOCUMENTS_MAX = 500
LOAD_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of a request of a load: half of what the function accepts."""


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
        pause: float = PAUSE_SECONDS * 2**self.number
        pause = max(answered.retry_after_seconds, jitter * min(pause, PAUSE_SECONDS_MAX))
        self.number += 1
        if now + pause > self.ends_at:
            raise self.raised_for(answered)
        return pause

    def raised_for(self, answered: "Answered") -> Exception:
        """Return the error of an answer that is not tried again."""
        if not answered.status:
            return Unavailable(0, {"title": "No answer", "detail": answered.text})
        error = error_of(answered.status, answered.problem)
        if isinstance(error, PreconditionFailed):
            error.is_repeated = self.had_no_answer
        return error


@dataclass(frozen=True, slots=True)
class Answered:
    """An unsuccessful answer; status 0 if there is none, and then `text` says why."""

    status: int
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def problem(self) -> dict[str, Any]:
        """The problem document; of another answer, the beginning of its text."""
        try:
            found = json.loads(self.text)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {"detail": self.text[:300]}

    @property
    def retry_after_seconds(self) -> float:
        """The pause that the answer demands; 0 if it demands none in seconds."""
        return retry_after_seconds(self.headers)


def retry_after_seconds(headers: Mapping[str, str]) -> float:
    """Return the pause that an answer asks for; 0 if it asks for none in seconds."""
    try:
        return max(0.0, float(headers.get("Retry-After", 0)))
    except ValueError:
        return 0.0


def content_of(status: int, content: bytes) -> Json:
    """Return the JSON of a successful answer; None of an empty one. Raises `ApiError` for what is not the API's."""
    try:
        return json.loads(content) if content else None
    except (ValueError, RecursionError) as error:
        raise ApiError(status, {"title": "No JSON", "detail": content[:300].decode(errors="replace")}) from error


@dataclass(slots=True)
class EventReader:
    """Reads server-sent events line by line (WHATWG HTML, section 9.2). `last_id` is where a new stream continues."""

    last_id: str = ""
    _name: str = ""
    _data: list[str] = field(default_factory=list)

    def line(self, text: str) -> Event | None:
        """Take a line without its end. Returns the event that it completes."""
        if not text:
            return self._completed()
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id":
            self.last_id = value
        return None

    def _completed(self) -> Event | None:
        name, data, self._name, self._data = self._name, self._data, "", []
        return {"event": name or "message", "id": self.last_id, "data": json.loads("\n".join(data))} if data else None


@dataclass(slots=True)
class Group:
    """The documents of one request of a load, as newline-delimited JSON."""

    documents: list[tuple[str | None, bytes]] = field(default_factory=list)
    size_bytes: int = 0

    def takes(self, line: bytes) -> bool:
        """Return whether the group has room for one more document."""
        return not self.documents or (
            len(self.documents) < LOAD_DOCUMENTS_MAX and self.size_bytes + len(line) <= LOAD_BYTES_MAX
        )

    def add(self, key: str | None, line: bytes) -> None:
        """Add a document."""
        self.documents.append((key, line))
        self.size_bytes += len(line)

    @property
    def content(self) -> bytes:
        """The body of the request."""
        return b"".join(line for _, line in self.documents)


@dataclass(slots=True)
class Patience:
    """Growing pauses of a loop that looks until something has happened. Raises `TimeoutError` when the time is over."""

    ends_at: float
    pause: float = 0.1

    def next_pause(self, now: float, what: str, least: float = 0.0) -> float:
        """Return the next pause, in seconds: at least `least`, unless the time is over before."""
        if now >= self.ends_at:
            raise TimeoutError(f"{what} after the given time")
        pause, self.pause = self.pause, min(self.pause * 1.5, 2.0)
        return min(max(pause, least), self.ends_at - now)
