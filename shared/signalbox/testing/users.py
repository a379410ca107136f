"""Unsigned tokens of users for the local stack and for tests, in the form of Google's Auth emulator.

``python -m signalbox.testing.users ann`` prints one for curl.
"""

import argparse
import base64
import json
import sys
import time
from typing import Any

from signalbox.adapters.settings import settings
from signalbox.core.token_claims import ISSUER

SECONDS = 3_600


def user_token(id: str, **claims: Any) -> str:  # noqa: A002 (the user's `id`)
    """Return the ID token of a user, valid for an hour; `claims` adds claims, such as ``email="a@b.example"``."""
    now, project = int(time.time()), settings().project
    usual = {"iss": ISSUER + project, "aud": project, "sub": id, "user_id": id}
    times = {"iat": now, "exp": now + SECONDS, "auth_time": now}
    return f"{_segment({'alg': 'none', 'typ': 'JWT'})}.{_segment({**usual, **times, **claims})}."


def _segment(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m signalbox.testing.users", description=__doc__)
    parser.add_argument("id", help="the user's id")
    parser.add_argument("--email", help="the user's address, as verified")
    given = parser.parse_args()
    claims = {"email": given.email, "email_verified": True} if given.email else {}
    sys.stdout.write(f"{user_token(given.id, **claims)}\n")


if __name__ == "__main__":
    main()
