"""Names in Firestore: ids, the keys that users choose, paths of records and of collections."""

import re
from functools import lru_cache

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS
from signalbox.core.problems import BadKey

NAME_BYTES_MAX = 1_500
"""Firestore's limit on an id, and on a field's name."""


MEMOISED = 8_192
"""The size of the caches of names. Names recur: measuring and checking each name again would take most of a check's
time."""


_CONTROL = re.compile("[\x00-\x1f\x7f]")
"""Control characters: valid in an id, but not in a header of an event."""


@lru_cache(MEMOISED)
def name_bytes(name: str) -> int:
    """Return the size of an id or of a field's name, plus 1 for its end; 0 if Firestore refuses the name.

    Firestore refuses an empty name, ``__…__``, a name over `NAME_BYTES_MAX` and lone surrogates (not UTF-8).
    """
    if not name or (len(name) >= 4 and name.startswith("__") and name.endswith("__")):
        return 0
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return 0
    return size + 1 if size <= NAME_BYTES_MAX else 0


def valid_id(name: str) -> bool:
    """Return whether Firestore accepts this as an id."""
    return _id_bytes(name) > 0


def _id_bytes(name: str) -> int:
    """Return the bytes of an id; 0 if Firestore refuses it."""
    return 0 if "/" in name or name in {".", ".."} else max(0, name_bytes(name) - 1)


def valid_key(key: object) -> bool:
    """Return whether users may choose this key: an id short enough to be queried, without control characters."""
    return isinstance(key, str) and 0 < _id_bytes(key) <= LIMITS.key_bytes_max and not _CONTROL.search(key)


def check_key(key: str) -> str:
    """Return the key. Raises `BadKey`."""
    if not valid_key(key):
        raise BadKey(
            f"A key has 1 to {LIMITS.key_bytes_max:,} bytes of UTF-8, without '/' and control characters, "
            "and is not '.', '..' or '__…__'.",
            field="key",
        )
    return key


@dataclass(frozen=True, slots=True)
class IdSpace:
    """The ids of one kind of record, some of which callers choose and some of which the kit derives.

    A derived id is the name of the kind, `~` and a digest. No caller can choose such an id, so it is free when the kit
    uses it, even for callers that can read or compute it before. An id of another kind, and a longer id that contains a
    derived one, can be chosen.
    """

    kind: str

    def derived(self, digest: str) -> str:
        """Return the id that the kit derives from a digest of 40 digits (`name_of`)."""
        return f"{self.kind}~{digest}"

    def is_derived(self, id_: str) -> bool:
        """Return whether only the kit makes this id."""
        kind, _, digest = id_.partition("~")
        return kind == self.kind and _DERIVED.fullmatch(digest) is not None

    def check_chosen(self, id_: str) -> str:
        """Return an id that a caller chooses. Raises `BadKey` for an id that only the kit makes."""
        if self.is_derived(id_):
            raise BadKey(f"Only the kit makes ids such as {printable(id_)}: choose another id.", field="id")
        return id_


_DERIVED = re.compile("[0-9a-f]{40}")


@lru_cache(MEMOISED)
def check_path(path: str) -> None:
    """Raise `BadKey` unless this is the path of a record: collection, id, collection, id …"""
    collection, _, id_ = path.rpartition("/")  # new records of one collection differ only in their ids
    if not (_is_collection(collection) and valid_id(id_)):
        raise BadKey(f"{printable(path)} is not the path of a record.")


def check_collection(path: str) -> None:
    """Raise `BadKey` unless this is the path of a collection."""
    if not _is_collection(path):
        raise BadKey(f"{printable(path)} is not the path of a collection.")


@lru_cache(MEMOISED)
def _is_collection(path: str) -> bool:
    ids = path.split("/")
    return len(ids) % 2 == 1 and all(map(valid_id, ids))


def printable(name: object) -> str:
    """Return a name in ASCII, cut to 60 characters, for a problem's detail."""
    return ascii(name) if len(ascii(name)) <= 60 else ascii(name)[:60] + "…"
