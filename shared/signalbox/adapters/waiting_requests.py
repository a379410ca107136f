"""Requests of one process that wait in a line for the same thing. Only the first of each line looks for it.

So any number of waiting requests cost little more than one, are served in the order of their arrival, and do not race.
A repeat of a request whose answer was lost may already have its result. It finds that result at any place in line.

A process has few places, since each occupies one of its threads. A request that finds no place, or
finds nothing in its time, is refused, and its caller repeats it under the same name. Until then its arrival is
remembered, so that later requests do not take its turn.
"""

import time
from collections.abc import Callable, Hashable
from itertools import count
from threading import Event, Lock
from typing import TypeVar

from signalbox.core.lazy_dataclasses import dataclass

Answer = TypeVar("Answer")
Asker = tuple[Hashable, str]
"""The key of a line, and the name of a request, under which the request is repeated."""

LINE_MIN = 2
"""A line with fewer requests accepts any request, so that it is not empty while earlier requests are away."""

AWAY_MAX = 1_000
"""The most requests that are remembered while they are away."""


@dataclass(frozen=True, slots=True)
class _Pace:
    """The time at which a line last served a request, and the average seconds between two served requests."""

    served_at: float
    seconds_each: float | None

    def after(self, now: float) -> "_Pace":
        """Return the pace after another request was served at `now`."""
        seconds = now - self.served_at
        return _Pace(now, seconds if self.seconds_each is None else (3 * self.seconds_each + seconds) / 4)


class Lines:
    """Lines by key, with at most `most` requests in all. A refused request is remembered for `away_seconds`.

    While requests that came earlier are away, a later one takes a place only if more places are free than they need, or
    if its line has fewer than `LINE_MIN` requests.
    """

    def __init__(self, most: int, away_seconds: float) -> None:
        self._most = most
        self._away_seconds = away_seconds
        self._lock = Lock()
        self._lines: dict[Hashable, list[Event]] = {}
        self._numbers = count()
        self._arrivals: dict[Asker, int] = {}
        self._away: dict[Asker, float] = {}
        self._paces: dict[Hashable, _Pace] = {}

    def in_turn(
        self,
        key: Hashable,
        name: str,
        seconds: float,
        look: Callable[[float], Answer | None],
        before: Callable[[], Answer | None],
    ) -> Answer | None:
        """Wait for the first place, then return the result of `look`, called with the seconds that are left.

        A request that is not the first when it arrives calls `before`, and returns the result if there is one. If it
        does not reach the first place in time, it calls `before` again and returns that result. A request with an empty
        name is not remembered.
        """
        ends_at, place, has_nothing = time.monotonic() + seconds, Event(), False
        try:
            has_place = self.enter(key, name, place)
            found = None if place.is_set() else before()
            if found is None and has_place:
                is_first = place.wait(max(0.0, ends_at - time.monotonic()))
                found = look(max(0.0, ends_at - time.monotonic())) if is_first else before()
                if is_first and found is not None:
                    self._note_served(key)
            has_nothing = found is None
            return found
        finally:  # even if the code that it runs, or the time-out of its request, ends this thread
            self.leave(key, place)
            self.remember((key, name), comes_back=has_nothing and bool(name))

    def seconds_until_turn(self, key: Hashable, name: str) -> float | None:
        """Return the seconds until the expected turn of a request that is away, or None if the turn is not known."""
        with self._lock:
            pace, arrival = self._paces.get(key), self._arrivals.get((key, name))
            if pace is None or pace.seconds_each is None or arrival is None:
                return None
            ahead = len(self._lines.get(key, [])) + self._earlier(arrival, key)
            return ahead * pace.seconds_each

    def enter(self, key: Hashable, name: str, place: Event) -> bool:
        """Join the end of a line; return False if all places are taken, or kept for earlier requests."""
        with self._lock:
            self._forget_late()
            self._away.pop((key, name), None)
            arrival = next(self._numbers)
            if name:
                arrival = self._arrivals.setdefault((key, name), arrival)
            free = self._most - sum(map(len, self._lines.values()))
            is_fed = len(self._lines.get(key, [])) >= LINE_MIN
            if free <= 0 or (is_fed and self._earlier(arrival) >= free):
                return False
            line = self._lines.setdefault(key, [])
            line.append(place)
            line[0].set()
            return True

    def leave(self, key: Hashable, place: Event) -> None:
        """Free a place, and wake the request that is first after it."""
        with self._lock:
            line = self._lines.get(key, [])
            if place in line:
                line.remove(place)
            if line:
                line[0].set()
            else:
                self._lines.pop(key, None)
                self._paces.pop(key, None)

    def remember(self, asker: Asker, *, comes_back: bool) -> None:
        """Remember the arrival of a refused request that `comes_back`, or forget a request that does not."""
        with self._lock:
            self._away.pop(asker, None)
            if comes_back and len(self._away) < AWAY_MAX:
                self._away[asker] = time.monotonic()
                self._arrivals.setdefault(asker, next(self._numbers))
            else:
                self._arrivals.pop(asker, None)

    def _forget_late(self) -> None:
        """Forget the requests that did not come back."""
        left_before = time.monotonic() - self._away_seconds
        for asker in [asker for asker, left_at in self._away.items() if left_at < left_before]:
            del self._away[asker], self._arrivals[asker]

    def _earlier(self, arrival: int, key: Hashable | None = None) -> int:
        """Count the requests that are away and came before `arrival`: in all lines, or in the line of `key`."""
        return sum(self._arrivals[asker] < arrival for asker in self._away if key is None or asker[0] == key)

    def _note_served(self, key: Hashable) -> None:
        """Record the time at which the first request of a line was served, for the line's pace."""
        with self._lock:
            now = time.monotonic()
            self._paces[key] = self._paces[key].after(now) if key in self._paces else _Pace(now, None)
