"""Identity tokens for the functions of a deployment.

A service account (a key file that ``GOOGLE_APPLICATION_CREDENTIALS`` names, or the metadata server) gets a token for
each function. A person signed in with gcloud gets one for all. A local stack (``http://``) needs none.
"""

import base64
import json
import subprocess
import threading
import time
from collections.abc import Callable

RENEWED_BEFORE_SECONDS = 300.0
"""A token is replaced this long before it expires. Google's are valid for an hour."""

GCLOUD = ("gcloud", "auth", "print-identity-token")

Fetch = Callable[[str], str]
"""Return a new identity token for an audience, the URL of a function."""


class NoIdentity(Exception):
    """No identity token could be had."""


class NoServiceAccount(NoIdentity):
    """The environment has no service account."""


class Tokens:
    """The tokens of a process, by audience; each is fetched once and renewed before it expires. Thread-safe."""

    def __init__(self, fetch: Fetch, clock: Callable[[], float] = time.time) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[str, float]] = {}

    def token(self, audience: str) -> str:
        """Return a valid token. Raises `NoIdentity`."""
        with self._lock:
            token, renewed_at = self._kept.get(audience, ("", 0.0))
            if self._clock() >= renewed_at:
                token = self._fetch(audience)
                self._kept[audience] = token, expiry(token) - RENEWED_BEFORE_SECONDS
            return token


def expiry(token: str) -> float:
    """Return the time at which a token (a JSON Web Token) expires; 0 if it does not say."""
    try:
        payload = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return 0.0


def default_token(audience: str) -> str:
    """Return a token of the environment's service account, or of the person that gcloud knows. Raises `NoIdentity`."""
    try:
        return service_account_token(audience)
    except NoServiceAccount as no_account:
        return persons_token(no_account)


def service_account_token(audience: str) -> str:
    """Return a token of the environment's service account, which is valid at one function.

    Raises `NoServiceAccount` if there is none, and `NoIdentity` if the package to find it is not installed.
    """
    try:
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request
        from google.oauth2.id_token import fetch_id_token
    except ImportError as error:
        raise NoIdentity("google-auth is not installed: pip install 'signalbox[client]'") from error
    try:
        return str(fetch_id_token(Request(), audience))
    except GoogleAuthError as error:
        raise NoServiceAccount(str(error)) from error


def persons_token(no_account: Exception) -> str:
    """Return the token of the person that gcloud knows, which is valid at every function. Raises `NoIdentity`."""
    try:
        ran = subprocess.run(GCLOUD, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 (a constant)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoIdentity(f"neither a service account ({no_account}) nor gcloud ({error}) has an identity") from error
    if ran.returncode:
        raise NoIdentity(f"neither a service account ({no_account}) nor gcloud has one: {ran.stderr.strip()}")
    return ran.stdout.strip()
