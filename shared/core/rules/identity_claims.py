"""The claims that the OIDC token of a queue or a schedule must have.

Cloud Tasks and Cloud Scheduler send a token (OpenID Connect) with the account they act for and the one address it is
meant for. An adapter verifies the signature; these are the checks of a verified token's claims.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.rules.problems import PermissionDenied
from shared.core.rules.problems import Unauthenticated as Unauthenticated

ISSUERS = ("https://accounts.google.com", "accounts.google.com")
"""Google uses both spellings."""

CLOCK_SKEW_SECONDS = 10
"""Tolerated difference between this machine's clock and the issuer's."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The accounts that may call, and the audience of their tokens: the function's address."""

    accounts: frozenset[str]
    audience: str


def check_claims(claims: Mapping[str, Any], expected: Expected, now_seconds: float) -> None:
    """Check the claims of a verified token. `now_seconds` counts from 1970.

    Raises `Unauthenticated` if the token is not valid here and now, `PermissionDenied` for another account.
    """
    _require(claims.get("iss") in ISSUERS, "The token is not issued by Google.")
    _require(claims.get("aud") == expected.audience, "The token has another audience.")
    check_times(claims, now_seconds)
    if claims.get("email") not in expected.accounts or claims.get("email_verified") is not True:
        raise PermissionDenied(f"{str(claims.get('email'))[:100]} may not call this: only its queues or schedules may.")


def account_of(claims: object) -> str | None:
    """Return the account that a verified token of Google's is for: its address, else its number; None if neither."""
    match claims:
        case {"iss": issuer, "email": str(email), "email_verified": True} if issuer in ISSUERS and email:
            return email
        case {"iss": issuer, "sub": str(number)} if issuer in ISSUERS and number:
            return number
    return None


def check_times(claims: Mapping[str, Any], now_seconds: float) -> None:
    """Raise `Unauthenticated` unless a verified token is valid now. `now_seconds` counts from 1970."""
    _require(_seconds(claims, "exp") > now_seconds - CLOCK_SKEW_SECONDS, "The token has expired.")
    _require(_seconds(claims, "iat") < now_seconds + CLOCK_SKEW_SECONDS, "The token is not valid yet.")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Unauthenticated(otherwise)


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    _require(isinstance(value, int | float), f"The token has no `{name}`.")
    try:
        return float(value)  # type: ignore[arg-type]  # a number: it was required
    except OverflowError:
        raise Unauthenticated(f"The token's `{name}` is no time.") from None
