"""Requests of one process that are handled together: those of one key that arrive while earlier ones are handled.

The first request of a key is handled at once, by its own thread. Those that arrive meanwhile wait, and are then handled
as one group by the thread of the first of them. So a process handles one group of a key at a time, without an extra
thread and without a delay. This is group commit, as databases do it with their logs.
"""

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import field
from threading import Lock
from typing import Generic, TypeVar

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import Unavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Handle = Callable[[Mapping[str, Item]], Mapping[str, Answer | Exception]]
"""Handle a group of items, passed by their ids. Return, by id, the answer to each item, or the error to raise."""


class _Signal:
    """A signal for one thread, which waits for it once. `threading.Event` takes ten times as long."""

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent = Lock()
        self._sent.acquire()

    def wait(self) -> None:
        self._sent.acquire()

    def send(self) -> None:
        """Send it, also if it was sent already."""
        with suppress(RuntimeError):
            self._sent.release()


ENDED = "the request that this one was handled with has failed"


@dataclass(slots=True, eq=False)
class _Request(Generic[Item, Answer]):
    """A request that waits for its answer, or for a group that its own thread then handles.

    `answers` are the answers to the request's group, by the ids of the items.
    """

    id: str
    item: Item
    group: "list[_Request[Item, Answer]]" = field(default_factory=list)
    answers: Mapping[str, Answer | Exception] = field(default_factory=dict)
    answer: Answer | Exception | None = None
    ready: _Signal = field(default_factory=_Signal)


@dataclass(slots=True, eq=False)
class _Line(Generic[Item, Answer]):
    """The requests of a key: the first request of the group that is being handled, and the requests that wait."""

    first: _Request[Item, Answer]
    waiting: list[_Request[Item, Answer]] = field(default_factory=list)


class Gathering(Generic[Item, Answer]):
    """Groups of at most `most` requests. The ids in a group differ: a repeat is handled after the first request."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._lines: dict[Hashable, _Line[Item, Answer]] = {}

    def answer(self, key: Hashable, id_: str, item: Item, handle: Handle[Item, Answer]) -> Answer:
        """Handle an item, alone or in a group. Return the answer, or raise it if the answer is an error.

        If `handle` raises, so does the request that called it. The other requests of the group raise `Unavailable`.
        """
        request = _Request[Item, Answer](id_, item)
        try:
            self._enter(key, request)
            request.ready.wait()
            if request.group:
                request.answers = handle({member.id: member.item for member in request.group})
        finally:  # even if the code that it runs, or the time-out of its request, ends this thread
            try:
                self._leave(key, request)
            finally:  # if the time-out ends the first call, the second completes it
                self._leave(key, request)
        if isinstance(request.answer, Exception):
            raise request.answer
        assert request.answer is not None, "a group has an answer for each of its items"
        return request.answer

    def _enter(self, key: Hashable, request: _Request[Item, Answer]) -> None:
        with self._lock:
            if line := self._lines.get(key):
                line.waiting.append(request)
                return
            request.group = [request]
            self._lines[key] = _Line(request)
        request.ready.send()

    def _leave(self, key: Hashable, request: _Request[Item, Answer]) -> None:
        """Let the next group begin, and answer this request's group. A request without a group stops waiting.

        A second call completes a first one that was interrupted at any point, because a single assignment or deletion
        moves the line to its next group.
        """
        with self._lock:
            line = self._lines.get(key)
            if not request.group:
                _stop_waiting(line, request)
                return
            if line and line.first is request:
                line = self._next_group(key, line.waiting)
        if line:
            line.first.ready.send()
        for member in request.group:
            member.answer = request.answers.get(member.id, Unavailable(ENDED))
            member.ready.send()

    def _next_group(self, key: Hashable, waiting: "list[_Request[Item, Answer]]") -> "_Line[Item, Answer] | None":
        """Form a key's next group from the requests that wait. The thread of its first request handles it."""
        if not waiting:
            del self._lines[key]
            return None
        group = _of_different_ids(waiting)[: self._most]
        group[0].group = group
        line = self._lines[key] = _Line(group[0], [request for request in waiting if request not in group])
        return line


def _stop_waiting(line: "_Line[Item, Answer] | None", request: _Request[Item, Answer]) -> None:
    if line and request in line.waiting:
        line.waiting.remove(request)


def _of_different_ids(requests: list[_Request[Item, Answer]]) -> list[_Request[Item, Answer]]:
    first: dict[str, _Request[Item, Answer]] = {}
    for request in requests:
        first.setdefault(request.id, request)
    return list(first.values())
