"""The checks of a verified token's claims: of queues and schedules, and of users who signed in on a page.

Cloud Tasks and Cloud Scheduler send a token (OpenID Connect). It names the account they act for, and the one address
that may accept it. Users have an ID token of Firebase Authentication. An adapter verifies a token's signature first.
"""

from collections.abc import Mapping
from typing import Any

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import PermissionDenied, Unauthenticated

ISSUERS = ("https://accounts.google.com", "accounts.google.com")
"""The issuers of Google's tokens. Google uses both spellings."""


CLOCK_SKEW_SECONDS = 10
"""Tolerated difference between this machine's clock and the issuer's."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The accounts that may call a function, and the audience of their tokens: the function's address."""

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
    """Return the account of a verified Google token: its address, or else its number, or else None."""
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
        raise Unauthenticated(f"The token's `{name}` is not a time.") from None


ISSUER = "https://securetoken.google.com/"
"""The beginning of a token's issuer. The project's id follows, which is also the audience."""


ID_LETTERS_MAX = 128


@dataclass(frozen=True, slots=True)
class User:
    """A user of a page. `id` never changes. `claims` has all of the token's claims, even those that a project adds."""

    id: str
    claims: Mapping[str, Any]

    @property
    def email(self) -> str | None:
        """The user's address. Rely on it only if `email_verified`: a user may sign up with any address."""
        return _text(self.claims.get("email"))

    @property
    def email_verified(self) -> bool:
        """Whether the user has proved that mail to the address reaches them."""
        return self.claims.get("email_verified") is True

    @property
    def name(self) -> str | None:
        """The name that the user chose. It proves nothing."""
        return _text(self.claims.get("name"))


def user_from_claims(claims: Mapping[str, Any], project: str, now_seconds: float) -> User:
    """Return the user of a verified token. `now_seconds` counts from 1970. Raises `Unauthenticated`."""
    if claims.get("iss") != ISSUER + project:
        raise Unauthenticated("The token is not issued by Firebase Authentication for this project.")
    if claims.get("aud") != project:
        raise Unauthenticated("The token is meant for another project.")
    check_times(claims, now_seconds)
    id_ = claims.get("sub")
    if not isinstance(id_, str) or not 1 <= len(id_) <= ID_LETTERS_MAX:
        raise Unauthenticated("The token names no user.")
    return User(id_, claims)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
