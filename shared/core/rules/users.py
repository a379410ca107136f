"""Users who signed in on a page with Firebase Authentication, and the claims that their ID token must have.

An adapter verifies the token's signature; these are the checks of a verified token's claims, as Firebase has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.rules.identity_claims import Unauthenticated, check_times

ISSUER = "https://securetoken.google.com/"
"""Followed by the project's id, which is the audience too."""

ID_LETTERS_MAX = 128


@dataclass(frozen=True, slots=True)
class User:
    """A user of a page. `id` stays the same for ever; `claims` are all of the token's, a project's own among them."""

    id: str
    claims: Mapping[str, Any]

    @property
    def email(self) -> str | None:
        """Return the user's address. Rely on it only if `email_verified`: anybody may sign up with any address."""
        return _text(self.claims.get("email"))

    @property
    def email_verified(self) -> bool:
        """Return whether the user has shown to receive mail at the address."""
        return self.claims.get("email_verified") is True

    @property
    def name(self) -> str | None:
        """Return the name that the user chose, which proves nothing."""
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
