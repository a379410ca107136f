"""What Cloud Run determines for a request: the account that calls, as verified, and the part of the function.

The account is a person's or a service account's. In front of a private function Cloud Run verifies the caller's token,
replaces its signature with a fixed text, and forwards it. Such a token counts as a proof only with
``SIGNALBOX_SIGNATURES=removed``, which Terraform sets for private functions alone. In front of an open function, and on
a laptop, the header is not verified, so it names no account.

The part of a function is the one that this process, or the address of a request, serves. A function that is open to the
network and has tasks is deployed twice from one folder: ``NAME`` for people, where no task can be called, and ``NAME-
tasks``, which is private and serves only tasks. ``NAME`` forwards the tasks that a queue still delivers there. Cloud
Run verifies the callers of the private one and removes the signatures of their tokens; an open function could not
distinguish such a token from a forged one.

In the cloud the part is a setting. The local stack serves both parts in one process and names the part in the WSGI
environment of the request, which clients cannot write.
"""

import base64
import json
import re
from typing import TYPE_CHECKING

from signalbox.adapters.settings import settings
from signalbox.core.token_claims import account_of

if TYPE_CHECKING:
    import flask

SIGNATURE_REMOVED = ".SIGNATURE_REMOVED_BY_GOOGLE"

_TOKEN = re.compile(rf"[Bb]earer [\w-]+\.(?P<claims>[\w-]+){re.escape(SIGNATURE_REMOVED)}", re.ASCII)
"""Matches a header with one token: if there are several, it is not known which one was verified."""


def identity_header(request: "flask.Request") -> str:
    """Return the header that Cloud Run verifies. It forwards a second header with a token unchecked."""
    header = request.headers.get("X-Serverless-Authorization")
    return request.headers.get("Authorization", "") if header is None else header


def calling_account(request: "flask.Request") -> str | None:
    """Return the account that Cloud Run has verified, or None if it has verified no account."""
    token = _TOKEN.fullmatch(identity_header(request)) if settings().signatures_removed else None
    return account_of(_claims(token["claims"])) if token else None


def _claims(part: str) -> object:
    """Return the claims in the middle part of a token, or None if there are none."""
    try:
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None


PEOPLE, TASKS = "people", "tasks"

ENVIRONMENT_KEY = "signalbox.part"


def part_served(request: "flask.Request") -> str:
    """Return the part of the function that is served here, ``people`` or ``tasks``; empty if it is not split."""
    part: str = request.environ.get(ENVIRONMENT_KEY) or settings().part
    return part
