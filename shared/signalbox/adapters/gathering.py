"""Requests of one process that are handled together: those of one key that arrive while earlier ones are handled.

The first request of a key is handled at once, by its own thread. Those that arrive meanwhile wait, and are then handled
as one group by the thread of the first of them. So a key has one group under way in a process, without a thread of its
own and without a delay. This is group commit, as databases do it with their logs.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Generic, TypeVar

from signalbox.core.problems import Unavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Handle = Callable[[Mapping[str, Item]], Mapping[str, Answer | Exception]]
"""Handle a group of items by their ids: return each one's answer, or the error to raise."""


ENDED = "the thread that handled this request has ended"


@dataclass(slots=True, eq=False)
class _Request(Generic[Item, Answer]):
    """A request that waits for its answer; if it gets a group instead, its thread handles that."""

    id: str
    item: Item
    group: "list[_Request[Item, Answer]]" = field(default_factory=list)
    answer: Answer | Exception | None = None
    ready: Event = field(default_factory=Event)


class Gathering(Generic[Item, Answer]):
    """Groups of at most `most` requests. The ids in a group differ: a repeat is handled after its first request."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._waiting: dict[Hashable, list[_Request[Item, Answer]]] = {}

    def answer(self, key: Hashable, id_: str, item: Item, handle: Handle[Item, Answer]) -> Answer:
        """Return the answer to an item, which is handled alone or in a group. Raises what it was answered with."""
        request = _Request[Item, Answer](id_, item)
        self._enter(key, request)
        request.ready.wait()
        if request.group:
            self._handle(key, request.group, handle)
        if isinstance(request.answer, Exception):
            raise request.answer
        assert request.answer is not None, "a group has an answer for each of its items"
        return request.answer

    def _enter(self, key: Hashable, request: _Request[Item, Answer]) -> None:
        with self._lock:
            if key in self._waiting:
                self._waiting[key].append(request)
                return
            self._waiting[key] = []
        request.group = [request]
        request.ready.set()

    def _handle(self, key: Hashable, group: list[_Request[Item, Answer]], handle: Handle[Item, Answer]) -> None:
        answers: Mapping[str, Answer | Exception] = {request.id: Unavailable(ENDED) for request in group}
        try:
            answers = handle({request.id: request.item for request in group})
        except Exception as error:  # noqa: BLE001  each request of the group raises it
            answers = {request.id: error for request in group}
        finally:  # also if the code of one request ends the thread that handles all of them
            self._let_the_next_begin(key)
            for request in group:
                request.answer = answers[request.id]
                request.ready.set()

    def _let_the_next_begin(self, key: Hashable) -> None:
        with self._lock:
            waiting = self._waiting.pop(key)
            if not waiting:
                return
            group = _of_different_ids(waiting)[: self._most]
            self._waiting[key] = [request for request in waiting if request not in group]
        group[0].group = group
        group[0].ready.set()


def _of_different_ids(requests: list[_Request[Item, Answer]]) -> list[_Request[Item, Answer]]:
    first: dict[str, _Request[Item, Answer]] = {}
    for request in requests:
        first.setdefault(request.id, request)
    return list(first.values())
