"""Authentication of the callers of tasks and schedules: a verified bearer token of an account that may call.

A token is verified in one of two ways. Either by its signature with one of Google's public keys. Or by Cloud Run: it
authenticates the callers of a private service itself and replaces the token's signature with a fixed text, so that no
container can use the token elsewhere. Only a deployment with ``SIGNALBOX_SIGNATURES=removed`` accepts such a token by
its claims. If two headers carry tokens, Cloud Run verifies ``X-Serverless-Authorization`` and passes the other one
unchecked: so that header, if present, is the only one read.

A token serves for many calls: a verified one is cached, and only its claims are checked each time.
"""

import time
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import flask
from google.auth import jwt

from shared.adapters.http.calling_accounts import SIGNATURE_REMOVED, identity_header
from shared.adapters.http.public_keys import PublicKeys
from shared.adapters.settings import settings
from shared.core.rules.identity_claims import CLOCK_SKEW_SECONDS, Expected, Unauthenticated, check_claims
from shared.core.rules.problems import PermissionDenied, Problem

TOKENS_MAX = 256
"""Cached tokens: a function is called by one account or two, whose tokens last an hour."""

Claims = Mapping[str, Any]


class IdentityTokens:
    """Verifies tokens and returns their claims. Thread-safe."""

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


def refusal(request: flask.Request, function: str, accounts: frozenset[str]) -> Problem | None:
    """Return the problem that refuses a caller of `function`; None if it is one of `accounts`. Raises `Unavailable`.

    Without any account callers are not authenticated; in the cloud all are refused: the deployment is incomplete.
    """
    chosen = settings()
    if not accounts:
        return (
            PermissionDenied("This deployment does not configure which account may call.") if chosen.in_cloud else None
        )
    try:
        claims = _tokens().claims(bearer_token(identity_header(request)))
        check_claims(claims, Expected(accounts, chosen.address_of(function)), time.time())
    except Problem as problem:
        return problem
    return None


@cache
def _tokens() -> IdentityTokens:
    return IdentityTokens(PublicKeys(settings().keys_url), settings().signatures_removed)


def bearer_token(header: str) -> str:
    """Return the token of a header ``Bearer TOKEN``. Raises `Unauthenticated`."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("The request has no bearer token.")
    return token


def token_header(token: str) -> Mapping[str, Any]:
    """Return the header of a token, which nothing has verified. Raises `Unauthenticated`."""
    try:
        header: Mapping[str, Any] = jwt.decode_header(token)  # type: ignore[no-untyped-call]  # google-auth has no types here
    except (ValueError, RecursionError) as error:
        raise Unauthenticated("The token is not a JSON Web Token.") from error
    return header


def decoded_claims(token: str, **how: Any) -> Claims:
    """Return the claims of a token, verified unless `how` says otherwise. Raises `Unauthenticated`."""
    try:
        claims: Claims = jwt.decode(token, **how)  # type: ignore[no-untyped-call]  # likewise
    except (ValueError, RecursionError) as error:
        raise Unauthenticated("The token's signature is invalid, or the token has expired.") from error
    return claims
