"""Whether a failed step of a flow runs again, and after which pause."""

from typing import Any

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import GaveUp, Problem
from signalbox.flows.limits import LIMITS
from signalbox.flows.problems import BadFlow, check_count, check_seconds, is_number
from signalbox.mailboxes.model.outcomes import CallOutcome


class Retried:
    """A step that runs again after a `Problem`, with `attempts_max` attempts in all.

    Problems of the classes `no_retry` are not retried. The pause before the second attempt is `pause_seconds`. Each
    further pause is `pause_factor` times as long, and none is longer than `pause_max_seconds`.
    """

    __slots__ = ()

    attempts_max: int
    pause_seconds: float
    pause_factor: float
    pause_max_seconds: float
    no_retry: tuple[type[Problem], ...]

    def _check_retries(self) -> None:
        """Raise `BadFlow` for values out of range."""
        check_count("attempts_max", self.attempts_max, LIMITS.flow_step_attempts_max)
        check_seconds("pause_seconds", self.pause_seconds, CORE_LIMITS.delay_seconds_max)
        check_seconds("pause_max_seconds", self.pause_max_seconds, CORE_LIMITS.delay_seconds_max)
        factor, most = self.pause_factor, LIMITS.flow_pause_factor_max
        if not is_number(factor) or not 1 <= factor <= most:
            raise BadFlow(f"`pause_factor` must be a number from 1 to {most:,}.", field="pause_factor")
        if self.pause_max_seconds < self.pause_seconds:
            raise BadFlow("`pause_max_seconds` must be at least `pause_seconds`.", field="pause_max_seconds")
        kinds: Any = self.no_retry
        if kinds != () and not (
            isinstance(kinds, tuple) and all(isinstance(kind, type) and issubclass(kind, Problem) for kind in kinds)
        ):
            raise BadFlow("`no_retry` must be a tuple of subclasses of `Problem`.", field="no_retry")

    def pause_before(self, attempt: int) -> float:
        """Return the seconds of the pause before an attempt. The first attempt has no pause."""
        if attempt == 1:
            return 0
        try:
            return min(self.pause_max_seconds, self.pause_seconds * float(self.pause_factor) ** (attempt - 2))
        except OverflowError:
            return self.pause_max_seconds if self.pause_seconds else 0

    def is_retried(self, attempt: int, outcome: CallOutcome) -> bool:
        """Return whether the step runs again after this attempt has failed."""
        error = outcome.error or {}
        slug = error.get("type")
        is_final = slug == GaveUp.slug() and error.get("title") == GaveUp.title  # a user's class may have the same name
        is_final = is_final or slug in [kind.slug() for kind in self.no_retry]
        return attempt < self.attempts_max and not is_final and not isinstance(outcome.exception(), self.no_retry)
