"""Who calls a task's or a schedule's route: a bearer token that Google vouches for, of the one right account.

Two things vouch for a token. Its signature does, by one of Google's public keys. Or Cloud Run does: it checks who calls
a private service itself, and then puts a fixed text in place of the token's signature, so that no container can use the
token elsewhere. Only a deployment that says so (``SIGNALBOX_SIGNATURES=removed``) takes such a token on its claims.
Where two headers carry tokens, Cloud Run checks ``X-Serverless-Authorization`` and passes the other one on as it came:
so that header, where it is there, is the only one read.

A token serves for many calls: one that was found genuine is remembered, and only its claims are judged each time.
"""

import time
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import flask
from google.auth import jwt

from shared.adapters.http.public_keys import PublicKeys
from shared.adapters.settings import settings
from shared.core.rules.identity_claims import CLOCK_SKEW_SECONDS, Expected, Unauthenticated, judge
from shared.core.rules.problems import NotAllowed, Problem

SIGNATURE_REMOVED = ".SIGNATURE_REMOVED_BY_GOOGLE"

TOKENS_MAX = 256
"""Remembered: a function is called by one account or two, whose tokens last an hour."""

Claims = Mapping[str, Any]


class IdentityTokens:
    """Reads tokens that somebody vouches for. Safe to use from many threads."""

    def __init__(self, keys: PublicKeys, signatures_removed: bool) -> None:
        self._keys = keys
        self._signatures_removed = signatures_removed
        self._remembering = lru_cache(TOKENS_MAX)(self._vouched)

    def claims(self, token: str) -> Claims:
        """Give what a genuine token claims. Raises `Unauthenticated`, or `Unavailable` while that cannot be known."""
        return self._remembering(token)

    def _vouched(self, token: str) -> Claims:
        key_id = _header(token).get("kid")
        if self._signatures_removed and token.endswith(SIGNATURE_REMOVED):
            return _decoded(token, verify=False)
        pem = self._keys.pem(key_id) if isinstance(key_id, str) else None
        if pem is None:
            raise Unauthenticated("The token is signed with no key of Google's")
        return _decoded(token, certs=pem, clock_skew_in_seconds=CLOCK_SKEW_SECONDS)


def refusal(request: flask.Request, function: str, account: str) -> Problem | None:
    """Say why this call of `function` is refused; None if it comes from `account`. Raises `Unavailable`.

    Without an account nobody is checked, except in the cloud, where everybody is refused: the deployment is not whole.
    """
    chosen = settings()
    if not account:
        return NotAllowed("This deployment does not say which account may call") if chosen.in_cloud else None
    try:
        claims = _tokens().claims(_bearer(request))
        judge(claims, Expected(account, chosen.address_of(function)), time.time())
    except Problem as problem:
        return problem
    return None


@cache
def _tokens() -> IdentityTokens:
    return IdentityTokens(PublicKeys(settings().keys_url), settings().signatures_removed)


def _bearer(request: flask.Request) -> str:
    header = request.headers.get("X-Serverless-Authorization")
    if header is None:
        header = request.headers.get("Authorization", "")
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("The call carries no bearer token")
    return token


def _header(token: str) -> Mapping[str, Any]:
    try:
        header: Mapping[str, Any] = jwt.decode_header(token)  # type: ignore[no-untyped-call]
    except (ValueError, RecursionError) as error:
        raise Unauthenticated("The token is no JSON Web Token") from error
    return header


def _decoded(token: str, **how: Any) -> Claims:
    try:
        claims: Claims = jwt.decode(token, **how)  # type: ignore[no-untyped-call]
    except (ValueError, RecursionError) as error:
        raise Unauthenticated("The token's signature is not Google's, or its time is over") from error
    return claims
