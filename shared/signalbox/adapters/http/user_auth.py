"""Authentication of the users of pages: an ID token of Firebase Authentication in the header ``Authorization``.

The platform admits all callers of such a function, so the function's own check is the only one. A token is signed with
RS256 by one of Firebase's keys. The local stack also accepts the unsigned tokens of Google's Auth emulator (`alg` is
``none``): every process on that machine can act as any user. The settings of a deployed function cannot permit this.
"""

import time
from functools import cache, lru_cache

import flask

from signalbox.adapters.http.caller_auth import (
    TOKENS_MAX,
    Claims,
    PublicKeys,
    bearer_token,
    decoded_claims,
    token_header,
)
from signalbox.adapters.settings import settings
from signalbox.core.identity import CLOCK_SKEW_SECONDS, User, user_from_claims
from signalbox.core.problems import Unauthenticated

FIREBASE = "firebase"


class UserTokens:
    """A cache of verified tokens with their claims. Thread-safe."""

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
    return user_from_claims(_tokens().claims(token), settings().project, time.time())


def _tokens() -> UserTokens:
    return _tokens_of(settings().user_keys_url, settings().tokens_unsigned)


@cache
def _tokens_of(keys_url: str, unsigned_too: bool) -> UserTokens:
    return UserTokens(PublicKeys(keys_url), unsigned_too=unsigned_too)
