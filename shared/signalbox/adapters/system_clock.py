"""The machine's clock and random numbers: sleeping, jitter, time budgets, record ids like those of Firestore's clients.

The `now` of decisions is the store's time instead.
"""

import random
import secrets
import string
import time

from signalbox.core.ports import Budget, OutOfTime


class SystemClock:
    def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        time.sleep(seconds)

    def jitter(self) -> float:
        """Return a random number from 0 to 1."""
        return random.random()  # noqa: S311 - spreads retries, guards no secret

    def steady(self) -> float:
        """Return the seconds of this machine's monotonic clock."""
        return time.monotonic()


def time_budget(seconds: float) -> Budget:
    """Return a budget of `seconds`, which starts each time it is called."""

    def begin() -> OutOfTime:
        ends_at = time.monotonic() + seconds
        return lambda: time.monotonic() >= ends_at

    return begin


ALPHABET = string.ascii_letters + string.digits

LENGTH = 20
"""The length of a random id. Of 62^20 possible ids, two among 10^15 are equal with a probability of about one in a
million."""


_LETTERS = (ALPHABET * (256 // len(ALPHABET))).encode()

_LEFT_OUT = bytes(range(len(_LETTERS), 256))
"""The bytes that are left out of ids, since the first letters of the alphabet would be drawn more often than others."""

_TABLE = _LETTERS + _LEFT_OUT


def random_id() -> str:
    """Return a random id. Random ids also spread writes over Firestore's key range."""
    letters = b""
    while len(letters) < LENGTH:  # one draw is almost always enough
        letters += secrets.token_bytes(2 * LENGTH).translate(_TABLE, _LEFT_OUT)
    return letters[:LENGTH].decode()
