"""The rules of a queue, as values: dispatch rate, retry policy, reserved names.

Nothing here reads a clock or does I/O. Callers pass `now`, in seconds since 1970, and all durations, in seconds. The
rate is a token bucket; a worker that answers 429 or 503 lowers the rate for a while. The retry interval starts at the
minimum backoff, doubles, then grows by equal steps up to the maximum (the API's documentation of `RetryConfig`).
"""

import math
from dataclasses import dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime

RETENTION_SECONDS = 31 * 24 * 3600
"""A task of this age is deleted, dispatched or not."""

RETRY_AFTER_SECONDS_MAX = 3600.0
"""The longest delay that one response may request."""

SHARE_MIN = 1 / 16
"""The least share of a queue's rate under throttling: a queue that stopped would never recover."""

HALVING_SECONDS = 1.0
"""The rate is halved at most this often, so that one overload answered by many running tasks counts once."""

DOUBLING_SECONDS = 5.0
"""Without throttling responses the rate doubles in this time, until it is again the configured rate."""

DOUBLINGS_MAX = 64
"""Beyond this a doubled interval exceeds any task's lifetime, and would overflow a float."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The number of dispatches that a queue may begin each second, in a burst, and concurrently."""

    dispatches_per_second: float
    burst: int
    concurrent_max: int


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The times of retries, and the end of retrying. `attempts_max` -1 and `retry_seconds_max` 0 set no limit."""

    attempts_max: int
    retry_seconds_max: float
    backoff_min_seconds: float
    backoff_max_seconds: float
    doublings_max: int

    def backoff_seconds(self, attempts: int) -> float:
        """Return the backoff after the attempt of this number (the first is 1), at most the lifetime of a task."""
        doublings_max = min(self.doublings_max, DOUBLINGS_MAX)
        doublings = min(attempts - 1, doublings_max)
        steps = max(1, attempts - doublings_max)
        backoff = self.backoff_min_seconds * math.exp2(doublings) * steps
        return min(backoff, self.backoff_max_seconds, float(RETENTION_SECONDS))

    def exhausted(self, attempts: int, seconds_since_first: float) -> bool:
        """Return whether a failed task is out of retries: only if attempts and time are both used up.

        A limit that is not set counts as used up, except that a task without any limit is never given up.
        """
        if self.attempts_max < 0 and not self.retry_seconds_max:
            return False
        attempts_used = self.attempts_max < 0 or attempts >= self.attempts_max
        return attempts_used and seconds_since_first >= self.retry_seconds_max


def retry_after_seconds(text: str, now: float) -> float:
    """Return the seconds of a `Retry-After`, which may also be a date; 0 if it is empty or invalid."""
    text = text.strip()
    try:
        seconds = float(text) if text.isdecimal() else _date(text) - now
    except (ValueError, OverflowError):  # a date with numbers of many digits
        return 0.0
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS_MAX)


def _date(text: str) -> float:
    moment = parsedate_to_datetime(text)
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


@dataclass(frozen=True, slots=True)
class ThrottleShare:
    """The share of a queue's rate that is in use: 1 unless a worker throttled it recently."""

    share: float = 1.0
    since: float = 0.0

    def share_at(self, now: float) -> float:
        if self.share >= 1:
            return 1.0
        doublings = max(0.0, now - self.since) / DOUBLING_SECONDS
        return min(1.0, self.share * math.exp2(min(doublings, DOUBLINGS_MAX)))

    def throttled(self, now: float) -> "ThrottleShare":
        """Halve the share after a 429 or a 503."""
        if self.share < 1 and now - self.since < HALVING_SECONDS:
            return self
        return ThrottleShare(max(SHARE_MIN, self.share_at(now) / 2), now)


@dataclass(frozen=True, slots=True)
class Throttle:
    """A token bucket at one instant: a dispatch takes a token, and tokens are added at the queue's rate and share."""

    rates: RateLimits
    tokens: float
    at: float
    pace: ThrottleShare = ThrottleShare()

    @classmethod
    def full(cls, rates: RateLimits, now: float) -> "Throttle":
        return cls(rates, float(rates.burst), now)

    def refilled(self, now: float) -> "Throttle":
        """Add the tokens since the last refill, up to the burst. If the clock went back, add none."""
        gained = max(0.0, now - self.at) * self._rate(now)
        return replace(self, tokens=min(float(self.rates.burst), self.tokens + gained), at=now)

    def taken(self) -> "Throttle":
        assert self.tokens >= 1, "a dispatch needs a token"
        return replace(self, tokens=self.tokens - 1)

    def wait_seconds(self) -> float:
        """Return the seconds until there is a token, or 0 if there is one."""
        return max(0.0, 1 - self.tokens) / self._rate(self.at)

    def throttled(self, now: float) -> "Throttle":
        return replace(self.refilled(now), pace=self.pace.throttled(now))

    def _rate(self, now: float) -> float:
        return self.rates.dispatches_per_second * self.pace.share_at(now)


@dataclass(slots=True)
class Tombstones:
    """Names of deleted queues and tasks, each with the time until which it is reserved."""

    ends_at: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, ends_at: float) -> None:
        self.ends_at[name] = ends_at

    def holds(self, name: str, now: float) -> bool:
        return self.ends_at.get(name, now) > now

    def expire(self, now: float) -> None:
        """Delete expired tombstones."""
        self.ends_at = {name: ends_at for name, ends_at in self.ends_at.items() if ends_at > now}


@dataclass(slots=True)
class Counts:
    """The counts of a queue since the server started."""

    created: int = 0
    dispatched: int = 0
    done: int = 0
    dropped: int = 0
