"""Random record ids, like those Firestore's own clients draw."""

import secrets
import string

ALPHABET = string.ascii_letters + string.digits
LENGTH = 20
"""62^20 ids: two of a billion billion meet with a chance of about one in a million."""


def random_id() -> str:
    """Draw an id. Random ones also spread writes over Firestore's key range."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
