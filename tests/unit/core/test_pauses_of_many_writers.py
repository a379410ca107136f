"""Many writers of one record, whose attempts overlap: the pauses decide how many of them use up their attempts."""

import heapq
from dataclasses import dataclass
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from signalbox.core.limits import LIMITS
from signalbox.core.perform import pause

SECONDS = 20.0
ATTEMPT_SECONDS = 0.002


@dataclass
class Writer:
    """An operation that is repeated for ever: it loads, and later commits unless another has committed meanwhile."""

    attempt: int = 0
    loaded_at: float = -1.0


def failed_share(writers_count: int, *, measured: bool) -> float:
    """Return the share of operations that lose all of their races. The pauses depend on attempts if these are measured.

    The store is a simulated one: an attempt takes half to one and a half of `ATTEMPT_SECONDS`.
    """
    random, slept, committed_at, done, failed = Random(1), [0.0], -1.0, 0, 0
    clock: Any = SimpleNamespace(jitter=random.random, sleep=slept.append)
    ports: Any = SimpleNamespace(clock=clock)
    writers = [Writer() for _ in range(writers_count)]
    due = [(random.random() * ATTEMPT_SECONDS, number) for number in range(writers_count)]
    while due:
        now, number = heapq.heappop(due)
        writer, attempt_seconds = writers[number], ATTEMPT_SECONDS * (0.5 + random.random())
        if now > SECONDS:
            break
        if writer.loaded_at < 0:
            writer.loaded_at = now
            heapq.heappush(due, (now + attempt_seconds, number))
            continue
        loaded_at, writer.loaded_at = writer.loaded_at, -1.0
        if committed_at < loaded_at:
            committed_at, writer.attempt, done = now, 0, done + 1
            heapq.heappush(due, (now + ATTEMPT_SECONDS / 4, number))
            continue
        pause(ports, writer.attempt, now - loaded_at if measured else inf)
        heapq.heappush(due, (now + slept[-1], number))
        writer.attempt += 1
        if writer.attempt == LIMITS.rounds_max:
            writer.attempt, failed = 0, failed + 1
    return failed / (done + failed)


@pytest.mark.parametrize("writers", [10, 30])
def test_shorter_pauses_after_short_attempts_make_few_more_operations_fail(writers: int) -> None:
    assert failed_share(writers, measured=True) < 1.3 * failed_share(writers, measured=False)
