"""Count the starts of a user's task. One blind commit, whose answer carries the new count."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from shared.core.operations.ports import SERVER_TIME, Change, Increment, Ports
from shared.core.rules.problems import Problem, Unavailable
from shared.tasks.rules.attempts import Attempt, RetryLimits

STARTS, COUNTED_AT = ("starts",), ("counted_at",)
"""The fields of the record. Firestore deletes it 31 days after the last count: Cloud Tasks keeps no task for longer."""

Returned = TypeVar("Returned")


def start(ports: Ports, attempt: Attempt, retry_limits: RetryLimits, code: Callable[[], Returned]) -> Returned:
    """Run the code, and count that. Raises `GaveUp` instead if that would be one start too many.

    Raises `Unavailable`, and runs nothing, if a repeated attempt cannot be counted.
    """
    if attempt.is_repeated:
        retry_limits.check(count_start(ports, attempt))
        return code()
    with _counted_on_error(ports, attempt):
        return code()


def count_start(ports: Ports, attempt: Attempt) -> int:
    """Count one start, and return how many were counted. Raises `Unavailable`."""
    counting = Change(attempt.record_path, {STARTS: Increment(1), COUNTED_AT: SERVER_TIME}, guard=None)
    [result] = ports.store.commit([counting]).results
    return int(result.values[STARTS])


@contextmanager
def _counted_on_error(ports: Ports, attempt: Attempt) -> Iterator[None]:
    """Count a first start afterwards, if it is to be retried. One that cannot be counted costs the task nothing."""
    try:
        yield
    except Problem:
        raise
    except Exception:
        with suppress(Unavailable):
            count_start(ports, attempt)
        raise
