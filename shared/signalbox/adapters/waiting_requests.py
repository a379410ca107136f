"""Requests of one process that wait for the same thing, in a line: only the first of each line looks for it.

So any number of waiting requests cost little more than one, are served in the order of their arrival, and do not race.
A repeat of a request whose answer was lost may already have what it waits for. It finds that out at any place in line.
"""

import time
from collections.abc import Callable, Hashable
from threading import Event, Lock
from typing import TypeVar

Answer = TypeVar("Answer")


class Lines:
    """Lines by key, of at most `most` requests in all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._lines: dict[Hashable, list[Event]] = {}

    def in_turn(
        self, key: Hashable, seconds: float, look: Callable[[float], Answer], before: Callable[[], Answer | None]
    ) -> Answer | None:
        """Wait for the first place, then look for the seconds that are left; return what was found.

        A request that is not the first at once returns what it has from `before`, if anything. So does one that does
        not reach the first place in time, or finds all places taken; if it has nothing, it returns None.
        """
        ends_at, place = time.monotonic() + seconds, Event()
        try:
            has_place = self._enter(key, place)
            if not place.is_set() and (had := before()) is not None:
                return had
            if not has_place:
                return None
            if not place.wait(max(0.0, ends_at - time.monotonic())):
                return before()
            return look(max(0.0, ends_at - time.monotonic()))
        finally:  # also if this thread is ended, by the code that it runs or by the time-out of its request
            self._leave(key, place)

    def _enter(self, key: Hashable, place: Event) -> bool:
        """Take the last place of a line; return False if all places are taken."""
        with self._lock:
            if sum(map(len, self._lines.values())) >= self._most:
                return False
            line = self._lines.setdefault(key, [])
            line.append(place)
            line[0].set()
            return True

    def _leave(self, key: Hashable, place: Event) -> None:
        with self._lock:
            line = self._lines.get(key, [])
            if place in line:
                line.remove(place)
            if line:
                line[0].set()
            else:
                self._lines.pop(key, None)
