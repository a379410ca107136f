"""Requests of one process that wait for the same thing, in a line: only the first of each line looks for it.

So any number of requests that wait cost what one does, they come in the order of their arrival, and they do not race.
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

    def in_turn(self, key: Hashable, seconds: float, look: Callable[[float], Answer]) -> Answer | None:
        """Wait for the first place, then look for the seconds that are left; return what was found.

        Returns None, without a look, if the first place was not reached in time, or if all places are taken.
        """
        ends_at = time.monotonic() + seconds
        place = self._place(key)
        if place is None:
            return None
        try:
            if not place.wait(seconds):
                return None
            return look(max(0.0, ends_at - time.monotonic()))
        finally:
            self._leave(key, place)

    def _place(self, key: Hashable) -> Event | None:
        with self._lock:
            if sum(map(len, self._lines.values())) >= self._most:
                return None
            place = Event()
            line = self._lines.setdefault(key, [])
            line.append(place)
            if line[0] is place:
                place.set()
            return place

    def _leave(self, key: Hashable, place: Event) -> None:
        with self._lock:
            line = self._lines[key]
            line.remove(place)
            if line:
                line[0].set()
            else:
                del self._lines[key]
