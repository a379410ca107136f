"""Who calls what only queues and schedules may call: what the claims of an OIDC token must say.

Google's queues and schedules present a token (OpenID Connect) that names the account they act for and the one address
it is meant for. Whether the token is genuine is an adapter's to find out; this is what a genuine one must claim.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.rules.problems import NotAllowed, Problem

ISSUERS = ("https://accounts.google.com", "accounts.google.com")
"""Google writes its name either way."""

CLOCK_SKEW_SECONDS = 10
"""By which this machine's clock and the issuer's may differ."""


class Unauthenticated(Problem):
    status = 401
    title = "Present a token that says who calls, made for this address"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


@dataclass(frozen=True, slots=True)
class Expected:
    """The one account that may call, and the address that its token must be made for."""

    account: str
    audience: str


def judge(claims: Mapping[str, Any], expected: Expected, now_seconds: float) -> None:
    """Let the caller in, or say why not. `now_seconds` counts from 1970.

    Raises `Unauthenticated` if the token is not one for here and now, `NotAllowed` if somebody else calls.
    """
    _require(claims.get("iss") in ISSUERS, "The token is not issued by Google")
    _require(claims.get("aud") == expected.audience, "The token is made for another address")
    _require(_seconds(claims, "exp") > now_seconds - CLOCK_SKEW_SECONDS, "The token has expired")
    _require(_seconds(claims, "iat") < now_seconds + CLOCK_SKEW_SECONDS, "The token is not valid yet")
    if claims.get("email") != expected.account or claims.get("email_verified") is not True:
        raise NotAllowed(f"{str(claims.get('email'))[:100]} may not call this: it is for a queue or a schedule")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Unauthenticated(otherwise)


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    _require(isinstance(value, int | float), f"The token does not say when ({name})")
    return float(value)  # type: ignore[arg-type]  # a number: it was required
