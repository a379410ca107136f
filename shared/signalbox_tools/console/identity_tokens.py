"""Identity tokens for the console's server, which may run for longer than a token is valid."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from signalbox_tools.deploy.waiting_clock import REAL, Clock

SECONDS_MAX = 1_800.0
"""The time for which a token is used. gcloud's tokens are valid for an hour."""

TokenFor = Callable[[str], str]


@dataclass(slots=True)
class Tokens:
    """The tokens of a user. `make` returns a function that returns and caches the token for a function's address."""

    make: Callable[[], TokenFor]
    clock: Clock = REAL
    _token_for: TokenFor | None = None
    _made_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def token(self, url: str) -> str:
        """Return a token for a function's address. Raises `CommandFailed`."""
        with self._lock:
            if self._token_for is None or self.clock.now() - self._made_at > SECONDS_MAX:
                self._token_for, self._made_at = self.make(), self.clock.now()
            return self._token_for(url)

    def renewed(self, url: str) -> str:
        """Return a new token to replace one that was refused."""
        with self._lock:
            self._token_for = None
        return self.token(url)
