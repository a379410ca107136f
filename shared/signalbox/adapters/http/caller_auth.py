"""Authentication of callers: of tasks and schedules by their account, of the users of pages by Firebase Authentication.

Tasks and schedules have a bearer token of an account that may call. It is verified in one of two ways: by its
signature, with one of Google's public keys, or by Cloud Run, which authenticates the callers of a private service
itself and replaces the token's signature with a fixed text, so that no container can use the token elsewhere. Only a
deployment with ``SIGNALBOX_SIGNATURES=removed`` accepts such a token by its claims. If two headers have tokens, Cloud
Run verifies ``X-Serverless-Authorization`` and forwards the other one unchecked, so only that header is read if it is
present.

A token is used for many calls: verified tokens are cached, and only their claims are checked each time.

The public keys are fetched when first needed and cached. Google publishes new keys hours before it signs with them, and
withdraws old ones, so the cache expires after the `max-age` of the response, a few hours. An unknown key id causes a
fetch, but at a limited rate, since any caller can invent key ids.

Users of pages send an ID token of Firebase Authentication in the header ``Authorization``. The platform admits all
callers of such a function, so the function's own check is the only one. A token is signed with RS256 by one of
Firebase's keys. The local stack also accepts the unsigned tokens of Google's Auth emulator (`alg` is ``none``): every
process on that machine can act as any user. The settings of a deployed function cannot permit this.
"""

import http.client
import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import flask
from google.auth import jwt

from signalbox.adapters.http.cloud_run import SIGNATURE_REMOVED, identity_header
from signalbox.adapters.settings import settings
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import PermissionDenied, Problem, Unauthenticated, Unavailable
from signalbox.core.token_claims import CLOCK_SKEW_SECONDS, Expected, User, check_claims, user_from_claims

FETCH_SECONDS_MAX = 5.0
"""Timeout of a fetch: a task that waits longer should be retried."""


KEYS_BYTES_MAX = 1024 * 1024
"""Bytes of the response with the keys; Google's is about 4 KiB."""


KEPT_SECONDS_MAX = 6 * 3600.0
"""The maximum lifetime of the cache, and the lifetime if a response does not name one."""


PAUSE_SECONDS = 30.0
"""Pause between a fetch and the next one for an unknown key id."""


PAUSE_AFTER_FAILURE_SECONDS = 1.0
"""Pause after a failed fetch. Until it ends, requests fail without another fetch."""


_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=([0-9]{1,9})(?:$|[,\s])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FetchedKeys:
    """A response: PEM by key id, and how long the response may be cached."""

    keys: Mapping[str, str]
    max_age_seconds: float = KEPT_SECONDS_MAX


Fetch = Callable[[str], FetchedKeys]


class PublicKeys:
    """Public keys as PEM, by key id. Thread-safe: one thread fetches the keys, the others wait."""

    def __init__(self, url: str, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._fetch = fetch or fetched
        self._clock = clock
        self._fetching = threading.Lock()
        self._keys: Mapping[str, str] = {}
        self._stale_at = self._open_at = float("-inf")

    def pem(self, key_id: str) -> str | None:
        """Return the key with this id as PEM, or None. Raises `Unavailable` if the keys cannot be fetched."""
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


TOKENS_MAX = 256
"""Tokens in the cache. A function is called by one or two accounts, whose tokens are valid for an hour."""


Claims = Mapping[str, Any]


class IdentityTokens:
    """A cache of the claims of verified tokens, by token. Thread-safe."""

    def __init__(self, keys: PublicKeys, signatures_removed: bool) -> None:
        self._keys = keys
        self._signatures_removed = signatures_removed
        self._cached = lru_cache(TOKENS_MAX)(self._verified)

    def claims(self, token: str) -> Claims:
        """Return the claims of a token. Raises `Unauthenticated`, or `Unavailable` if the keys cannot be fetched."""
        return self._cached(token)

    def _verified(self, token: str) -> Claims:
        key_id = token_header(token).get("kid")
        if self._signatures_removed and token.endswith(SIGNATURE_REMOVED):
            return decoded_claims(token, verify=False)
        pem = self._keys.pem(key_id) if isinstance(key_id, str) else None
        if pem is None:
            raise Unauthenticated("The token is not signed with a key of Google's.")
        return decoded_claims(token, certs=pem, clock_skew_in_seconds=CLOCK_SKEW_SECONDS)


def refusal(request: flask.Request, audience: str, accounts: frozenset[str]) -> Problem | None:
    """Return the problem that refuses a caller of the address `audience`; None if the caller is one of `accounts`.

    Raises `Unavailable` if the public keys cannot be fetched.

    If `accounts` is empty, callers are not authenticated. In the cloud, all callers are refused then, because the
    deployment is incomplete.
    """
    chosen = settings()
    if not accounts:
        return (
            PermissionDenied("This deployment does not configure which account may call.") if chosen.in_cloud else None
        )
    try:
        claims = _tokens().claims(bearer_token(identity_header(request)))
        check_claims(claims, Expected(accounts, audience), time.time())
    except Problem as problem:
        return problem
    return None


@cache
def _tokens() -> IdentityTokens:
    return IdentityTokens(PublicKeys(settings().keys_url), settings().signatures_removed)


class UserTokens:
    """A cache of the claims of verified tokens, by token. Thread-safe."""

    def __init__(self, keys: PublicKeys, *, unsigned_too: bool) -> None:
        self._keys = keys
        self._unsigned_too = unsigned_too
        self._cached = lru_cache(TOKENS_MAX)(self._verified)

    def claims(self, token: str) -> Claims:
        """Return the claims of a token. Raises `Unauthenticated`, or `Unavailable` if the keys cannot be fetched."""
        return self._cached(token)

    def _verified(self, token: str) -> Claims:
        header = token_header(token)
        if self._unsigned_too and header.get("alg") == "none":
            return decoded_claims(token, verify=False)
        if header.get("alg") != "RS256":
            raise Unauthenticated("The token is not signed with RS256.")
        key_id = header.get("kid")
        pem = self._keys.pem(key_id) if isinstance(key_id, str) else None
        if pem is None:
            raise Unauthenticated("The token is not signed with a key of Firebase's.")
        return decoded_claims(token, certs=pem, clock_skew_in_seconds=CLOCK_SKEW_SECONDS)


def authenticated_user(request: flask.Request) -> User:
    """Return the user of the request's token. Raises `Unauthenticated` or `Unavailable`."""
    token = bearer_token(request.headers.get("Authorization", ""))
    return user_from_claims(_user_tokens().claims(token), settings().project, time.time())


def _user_tokens() -> UserTokens:
    return _user_tokens_of(settings().user_keys_url, settings().tokens_unsigned)


@cache
def _user_tokens_of(keys_url: str, unsigned_too: bool) -> UserTokens:
    return UserTokens(PublicKeys(keys_url), unsigned_too=unsigned_too)


def bearer_token(header: str) -> str:
    """Return the token of a header ``Bearer TOKEN``. Raises `Unauthenticated`."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("The request has no bearer token.")
    return token


def token_header(token: str) -> Mapping[str, Any]:
    """Return the unverified header of a token. Raises `Unauthenticated`."""
    try:
        header: Mapping[str, Any] = jwt.decode_header(token)
    except (ValueError, RecursionError) as error:
        raise Unauthenticated("The token is not a JSON Web Token.") from error
    return header


def decoded_claims(token: str, **how: Any) -> Claims:
    """Return the claims of a token, verified as `how` determines. Raises `Unauthenticated`."""
    try:
        claims: Claims = jwt.decode(token, **how)
    except (ValueError, RecursionError) as error:
        raise Unauthenticated("The token's signature is invalid, or the token has expired.") from error
    return claims
