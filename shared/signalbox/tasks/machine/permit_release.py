"""Whether the permit under which a task ran is released, or kept for its next attempt.

    an attempt ends with   release_on_return  release_on_failure  the permit is
    ---------------------  -----------------  ------------------  -------------------------------------
    a return               yes                any                 released
    a return               no                 any                 kept: the task's code signals
    a problem              any                any                 released: the task is not retried
    another error          any                no                  kept for the retry, at most to its end
    another error          any                yes                 released after the next wait is made

If the next wait cannot be made, the permit is kept. A unit's permit is always released after a return.
"""

from collections.abc import Mapping
from typing import Any

from signalbox.core.problems import Problem


def is_released_on_return(granted: Mapping[str, Any]) -> bool:
    """Return whether the permit is released when the code has returned."""
    return bool(granted.get("release_on_return"))


def is_released_at_once(error: Exception) -> bool:
    """Return whether the permit is released before the error is raised further, since the task is not retried.

    After any other error the retry needs the permit, which blocks other waiters until then.
    """
    return isinstance(error, Problem)


def may_wait_again(granted: Mapping[str, Any]) -> bool:
    """Return whether an attempt that fails commits the wait for the next attempt, then releases its permit."""
    return bool(granted.get("release_on_failure"))
