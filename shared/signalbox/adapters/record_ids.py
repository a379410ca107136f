"""Random record ids, like those of Firestore's own clients."""

import secrets
import string

ALPHABET = string.ascii_letters + string.digits

LENGTH = 20
"""62^20 ids: among 10^15 of them, two are equal with a probability of about one in a million."""


def random_id() -> str:
    """Return a random id. Random ids also spread writes over Firestore's key range."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
