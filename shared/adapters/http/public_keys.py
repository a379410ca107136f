"""The public keys that identity tokens are signed for: fetched when first needed, kept, and fetched anew for a new id.

Google gives new keys out hours before it signs with them, and takes old ones back: so what is kept is renewed after
some hours, and a key id that nobody knows is looked for, but not as often as strangers could make one up.
"""

import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping

from shared.core.rules.problems import Unavailable

FETCH_SECONDS_MAX = 5.0
"""For the keys to arrive: a task that waits longer had better come again."""

KEYS_BYTES_MAX = 1024 * 1024
"""Of the keys; Google's are some 4 KiB."""

KEPT_SECONDS_MAX = 6 * 3600.0
"""As long as Google says that its answer may be kept."""

PAUSE_SECONDS = 30.0
"""After a fetch before an unknown key id leads to another one."""

PAUSE_AFTER_FAILURE_SECONDS = 1.0
"""After a fetch that failed: meanwhile nobody waits for another to fail."""

Fetch = Callable[[str], Mapping[str, str]]


class PublicKeys:
    """PEM by key id. Safe to use from many threads: one of them fetches, the others wait for it."""

    def __init__(self, url: str, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._fetch = fetch or fetched
        self._clock = clock
        self._fetching = threading.Lock()
        self._keys: Mapping[str, str] = {}
        self._stale_at = self._open_at = float("-inf")

    def pem(self, key_id: str) -> str | None:
        """Give the key of that id; None if there is none. Raises `Unavailable` if the keys cannot be had."""
        with self._fetching:
            now = self._clock()
            if now >= self._stale_at or (key_id not in self._keys and now >= self._open_at):
                self._renew(now)
            return self._keys.get(key_id)

    def _renew(self, now: float) -> None:
        if now < self._open_at:
            raise Unavailable("the public keys could not be fetched a moment ago")
        try:
            self._keys = self._fetch(self._url)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._open_at = now + PAUSE_AFTER_FAILURE_SECONDS
            raise Unavailable("the public keys cannot be fetched") from error
        self._stale_at, self._open_at = now + KEPT_SECONDS_MAX, now + PAUSE_SECONDS


def fetched(url: str) -> dict[str, str]:
    """Fetch keys. Raises `OSError`, `HTTPException`, or `ValueError` if what comes are no keys."""
    with urllib.request.urlopen(url, timeout=FETCH_SECONDS_MAX) as answer:  # noqa: S310 (the deployment's own setting)
        keys = json.loads(answer.read(KEYS_BYTES_MAX))
    if not isinstance(keys, dict):
        raise ValueError("these are no keys by id")  # noqa: TRY004 (what came is wrong, not what was passed)
    return {str(key_id): str(pem) for key_id, pem in keys.items()}
