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

from signalbox.core.problems import Problem


def is_released_at_once(error: Exception) -> bool:
    """Return whether the permit is released before the error is raised further, since the task is not retried.

    After any other error the retry needs the permit, which blocks other waiters until then.
    """
    return isinstance(error, Problem)
