"""The account that calls a function which people call: a person's or a service account's, as Cloud Run has verified it.

In front of a private function Cloud Run verifies the caller's token, replaces its signature with a fixed text, and
forwards it. Such a token counts as a proof only with ``SIGNALBOX_SIGNATURES=removed``, which Terraform sets for private
functions alone. In front of an open function, and on a laptop, the header is not verified, so it names no account.
"""

import base64
import json
import re

import flask

from signalbox.adapters.settings import settings
from signalbox.core.identity import account_of

SIGNATURE_REMOVED = ".SIGNATURE_REMOVED_BY_GOOGLE"

_TOKEN = re.compile(rf"[Bb]earer [\w-]+\.(?P<claims>[\w-]+){re.escape(SIGNATURE_REMOVED)}", re.ASCII)
"""Matches a header with one token: if there are several, it is not known which one was verified."""


def identity_header(request: flask.Request) -> str:
    """Return the header that Cloud Run verifies. If two headers have tokens, it forwards the other one unchecked."""
    header = request.headers.get("X-Serverless-Authorization")
    return request.headers.get("Authorization", "") if header is None else header


def calling_account(request: flask.Request) -> str | None:
    """Return the account that Cloud Run has verified; None if it has verified none."""
    token = _TOKEN.fullmatch(identity_header(request)) if settings().signatures_removed else None
    return account_of(_claims(token["claims"])) if token else None


def _claims(part: str) -> object:
    """Return the claims in the middle part of a token; None if it has none."""
    try:
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
