"""The public keys that verify identity tokens: fetched when first needed, cached, and fetched again for a new key id.

Google publishes new keys hours before it signs with them, and withdraws old ones: so the cache expires after the
`max-age` of the response, some hours. An unknown key id causes a fetch, but at a limited rate, since anybody can
invent one.
"""

import http.client
import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shared.core.rules.problems import Unavailable

FETCH_SECONDS_MAX = 5.0
"""Timeout of a fetch: a task that waits longer should be retried."""

KEYS_BYTES_MAX = 1024 * 1024
"""Of the response; Google's is some 4 KiB."""

KEPT_SECONDS_MAX = 6 * 3600.0
"""The cache lifetime that Google's response states, or longer; used where a response states none."""

PAUSE_SECONDS = 30.0
"""Between a fetch and the next one for an unknown key id."""

PAUSE_AFTER_FAILURE_SECONDS = 1.0
"""After a failed fetch: until then requests fail without another one."""

_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=([0-9]{1,9})(?:$|[,\s])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FetchedKeys:
    """A response: PEM by key id, and how long it may be cached."""

    keys: Mapping[str, str]
    max_age_seconds: float = KEPT_SECONDS_MAX


Fetch = Callable[[str], FetchedKeys]


class PublicKeys:
    """PEM by key id. Thread-safe: one thread fetches, the others wait for it."""

    def __init__(self, url: str, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._fetch = fetch or fetched
        self._clock = clock
        self._fetching = threading.Lock()
        self._keys: Mapping[str, str] = {}
        self._stale_at = self._open_at = float("-inf")

    def pem(self, key_id: str) -> str | None:
        """Return the key of an id, or None. Raises `Unavailable` if the keys cannot be fetched."""
        with self._fetching:
            now = self._clock()
            if now >= self._stale_at or (key_id not in self._keys and now >= self._open_at):
                self._renew(now)
            return self._keys.get(key_id)

    def _renew(self, now: float) -> None:
        if now < self._open_at:
            raise Unavailable("the public keys could not be fetched a moment ago")
        try:
            fetched_keys = self._fetch(self._url)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._open_at = now + PAUSE_AFTER_FAILURE_SECONDS
            raise Unavailable("the public keys cannot be fetched") from error
        kept_seconds = min(max(fetched_keys.max_age_seconds, PAUSE_SECONDS), KEPT_SECONDS_MAX)
        self._keys, self._stale_at, self._open_at = fetched_keys.keys, now + kept_seconds, now + PAUSE_SECONDS


def fetched(url: str) -> FetchedKeys:
    """Fetch keys. Raises `OSError`, `HTTPException`, or `ValueError` if the response is not an object of keys."""
    with urllib.request.urlopen(url, timeout=FETCH_SECONDS_MAX) as answer:  # noqa: S310 (the deployment's own setting)
        keys = json.loads(answer.read(KEYS_BYTES_MAX))
        max_age_seconds = max_age_of(answer.headers.get("Cache-Control", ""))
    if not isinstance(keys, dict):
        raise ValueError("the response is not an object of keys by id")  # noqa: TRY004 (the response is wrong, not an argument)
    return FetchedKeys({str(key_id): str(pem) for key_id, pem in keys.items()}, max_age_seconds)


def max_age_of(cache_control: str) -> float:
    """Return how long a response may be cached, by its header ``Cache-Control``."""
    stated = _MAX_AGE.search(cache_control)
    return float(stated[1]) if stated else KEPT_SECONDS_MAX
