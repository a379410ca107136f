"""What clients did at a semaphore: visits by this machine's monotonic clock, and what they tell of a way to do it."""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

HOLD_SECONDS = 0.005
RUN_SECONDS_MAX = 60.0
POLL_SECONDS = (0.01, 0.05)
"""The pause of a client without a permit, drawn again each time; used by implementations that poll."""


@dataclass(frozen=True, slots=True)
class Visit:
    """The times at which a client requested a permit, received it, and was about to release it: monotonic seconds."""

    asked: float
    entered: float
    left: float


class Refused(Exception):
    """A pair of acquire and release that did not come to its end, and why."""


Act = Callable[[int, float], Visit]
"""One wait and signal by the client with that number, which stops at that time. Raises `Refused`."""


@dataclass(frozen=True, slots=True)
class Run:
    """Visits of some clients, each with one pair under way at any time."""

    way: str
    clients: int
    seconds: float
    visits: Sequence[Visit]
    refusals: Counter[str]

    @property
    def each_second(self) -> float:
        return len(self.visits) / self.seconds

    def grant_seconds(self, share: float) -> float:
        """Return how long this share of the visits, those that came soonest, waited for the permit at most."""
        waits = sorted(visit.entered - visit.asked for visit in self.visits)
        return waits[min(len(waits) - 1, int(share * len(waits)))] if waits else float("inf")


def most_inside(visits: Sequence[Visit]) -> int:
    """Return how many held a permit at once, at most."""
    moments = sorted([(visit.entered, 1) for visit in visits] + [(visit.left, -1) for visit in visits])
    return max(itertools.accumulate(change for _, change in moments), default=0)


def run(way: str, clients: int, pairs: int, act: Act, seconds_max: float = RUN_SECONDS_MAX) -> Run:
    """Run so many pairs in all, each client one after the other; end early when the time is over."""
    numbers = itertools.count()
    visits: list[Visit] = []
    refusals: Counter[str] = Counter()
    together = threading.Barrier(clients)

    def client(number: int) -> None:
        together.wait()
        while next(numbers) < pairs and time.monotonic() < stop_at:
            try:
                visits.append(act(number, stop_at))
            except Refused as refused:
                refusals[str(refused)] += 1

    began = time.monotonic()
    stop_at = began + seconds_max
    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(client, number) for number in range(clients)]:
            done.result()
    return Run(way, clients, time.monotonic() - began, visits, refusals)


def visit(acquire: Callable[[], bool], leave: Callable[[], object], stop_at: float) -> Visit:
    """Poll until a permit is acquired, hold it, give it back. Raises `Refused`."""
    asked = time.monotonic()
    while not acquire():
        if time.monotonic() > stop_at:
            raise Refused("no permit until the end")
        poll_pause()
    entered = time.monotonic()
    time.sleep(HOLD_SECONDS)
    left = time.monotonic()
    leave()
    return Visit(asked, entered, left)


def poll_pause() -> None:
    """Sleep for a moment drawn at random, so that losers do not meet again."""
    time.sleep(random.uniform(*POLL_SECONDS))
