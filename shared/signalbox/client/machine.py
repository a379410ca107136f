"""Decisions: whether a call is sent again, how an answer and a stream of events are read, how a load is grouped.

A call is sent again after a transport error, 429, 502, 503 and 504, with exponential pauses and full jitter (Brooker,
"Exponential Backoff and Jitter", 2015), at least as long as ``Retry-After`` demands, until `seconds_max` have passed.
"""

import json
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, TypeVar, cast

from signalbox.client.model import Event, Json
from signalbox.client.problems import ApiError, PreconditionFailed, Unavailable, error_of
from signalbox.core.lazy_dataclasses import dataclass

RETRIED = frozenset({429, 502, 503, 504})
PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 8.0
DOUBLINGS_MAX = 10
"""Doublings of the pause, after which it is longer than the longest one. A call may be tried for hours."""

LOAD_DOCUMENTS_MAX = 500
LOAD_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of a request of a load: half of what the function accepts."""

Shape = TypeVar("Shape", bound=Mapping[str, Any])
Value = TypeVar("Value")


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
        except (ValueError, RecursionError):
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


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer, or a part of it: the request's method and path, the status, and the JSON.

    The methods raise `ApiError` if the answer does not have what the client reads of it.
    """

    asked: str
    status: int
    content: Json
    headers: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def read(asked: str, status: int, content: bytes, headers: Mapping[str, str]) -> "Answer":
        """Return an answer by its body; an empty one has the content None."""
        return Answer(asked, status, json_of(asked, status, content) if content else None, headers)

    def shaped(self, shape: type[Shape]) -> Shape:
        """Return the answer's object, with all members that `shape` requires: a `TypedDict`, or `dict` for any."""
        if not isinstance(self.content, dict):
            raise self.unreadable("is not an object")
        if missing := sorted(getattr(shape, "__required_keys__", frozenset()) - self.content.keys()):
            raise self.unreadable(f"has no {missing[0]!r}")
        return cast("Shape", self.content)

    def member(self, name: str, kind: type[Value]) -> Value:
        """Return a member of the answer's object that must be there, and of a type of JSON."""
        kinds: Any = (int, float) if kind is float else kind
        found = self.part(name).content
        if not isinstance(found, kinds):
            raise self.unreadable(f"has another {name!r} than expected")
        return cast("Value", found)

    def part(self, name: str) -> "Answer":
        """Return a member of the answer's object, to read members of it."""
        content = self.shaped(dict)
        if name not in content:
            raise self.unreadable(f"has no {name!r}")
        return replace(self, content=content[name])

    def items(self, name: str) -> list["Answer"]:
        """Return the items of a list in the answer's object, to read members of each."""
        return [replace(self, content=item) for item in self.member(name, list)]

    def unreadable(self, why: str) -> ApiError:
        """Return the error of an answer that is not as expected."""
        return unreadable(self.asked, self.status, why, json.dumps(self.content, ensure_ascii=False))


def json_of(asked: str, status: int, text: bytes | str) -> Json:
    """Return the JSON of an answer's text. Raises `ApiError` for what is not the API's."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if isinstance(text, str) else text.decode(errors="replace")
        raise unreadable(asked, status, "is not JSON", shown) from error


def unreadable(asked: str, status: int, why: str, text: str) -> ApiError:
    """Return the error of a successful answer that this client cannot read, with the beginning of its text."""
    return ApiError(status, {"title": "Unreadable answer", "detail": f"the answer to {asked} {why}: {text[:300]}"})


@dataclass(slots=True)
class EventReader:
    """Reads server-sent events line by line (WHATWG HTML, section 9.2).

    `last_id` is where a new stream continues: after what an empty line ended. `asked` is the request's method and path.
    """

    asked: str
    last_id: str = ""
    _id: str = ""
    _name: str = ""
    _data: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Begin another stream: forget what the last one left of an event that it did not end."""
        self._id, self._name, self._data = self.last_id, "", []

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
            self._id = value
        return None

    def _completed(self) -> Event | None:
        name, data, self._name, self._data = self._name, self._data, "", []
        self.last_id = self._id
        if not data:
            return None
        return {"event": name or "message", "id": self.last_id, "data": json_of(self.asked, 200, "\n".join(data))}


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
