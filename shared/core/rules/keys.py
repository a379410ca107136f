"""Keys and names: what can be the id of a record."""

import re

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadKey

_FORBIDDEN = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
"""Characters forbidden in keys: lone surrogates (not UTF-8) and control characters (invalid in event headers)."""

_RULES = "without '/' and control characters, and is not '.', '..' or '__…__'"


def valid_key(key: object) -> bool:
    """Tell whether a record can lie under this key."""
    if not isinstance(key, str) or not key or "/" in key or key in (".", "..") or re.fullmatch("(?s)__.*__", key):
        return False
    return not _FORBIDDEN.search(key) and len(key.encode()) <= LIMITS.key_bytes_max


def check_key(key: str) -> str:
    """Give the key back, or raise `BadKey`."""
    if not valid_key(key):
        raise BadKey(f"A key has 1 to {LIMITS.key_bytes_max:,} bytes of UTF-8, {_RULES}.", field="key")
    return key
