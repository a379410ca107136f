"""Names of yokes and standings, and the paths of their records.

    yokes/{user~item}                               the relation itself: anybody may write or delete it
    counted/{user~item}                             what the standings hold of it
    standings/{kind}/entries/{id}                   a standing
    standings/{kind}/entries/{id}/adjustments/{id}  changes of a busy standing that no fold run has added yet

An id is made of parts joined by ``~``; inside a part ``%``, ``~`` and ``/`` are percent-encoded.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from shared.core.rules.effects import name_of
from shared.core.rules.keys import valid_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadKey

YOKES = "yokes"
COUNTED = "counted"
DECLARED = "standing_declarations/current"

_ENCODED = {"%": "%25", "~": "%7E", "/": "%2F"}
_ENCODE = str.maketrans(_ENCODED)


def encode(part: str) -> str:
    """Return a part of an id: percent-encoded where it would be read as something else."""
    text = part.translate(_ENCODE)
    if text in {".", ".."}:
        return text.replace(".", "%2E")
    return f"%5F{text[1:]}" if text.startswith("__") else text


def decode(part: str) -> str:
    """Undo `encode`."""
    for plain, encoded in ((".", "%2E"), ("_", "%5F"), ("/", "%2F"), ("~", "%7E"), ("%", "%25")):
        part = part.replace(encoded, plain)
    return part


def fits(part: str) -> bool:
    """Return whether a part can be part of an id: valid, and short enough."""
    text = encode(part)
    return valid_key(text) and len(text.encode()) <= LIMITS.yoke_part_bytes_max


def join(parts: Iterable[str]) -> str:
    """Return the id of these parts."""
    return "~".join(map(encode, parts))


@dataclass(frozen=True, slots=True)
class YokeKey:
    """The name of a yoke: whose, and of what."""

    user: str
    item: str

    @classmethod
    def from_request(cls, user: str, item: str) -> Self:
        """Return the key of a yoke in a request. Raises `BadKey`."""
        for field, part in (("user", user), ("item", item)):
            if not fits(part):
                raise BadKey(f"A yoke's {field} is a key of at most {LIMITS.yoke_part_bytes_max} bytes.", field=field)
        return cls(user, item)

    @classmethod
    def from_id(cls, id_: str) -> Self | None:
        """Return the key of a record's id; None if another client has made it up."""
        user, tilde, item = id_.partition("~")
        if not (tilde and user and item) or "~" in item:
            return None
        key = cls(decode(user), decode(item))
        return key if key.id == id_ else None

    @property
    def id(self) -> str:
        return join((self.user, self.item))

    @property
    def path(self) -> str:
        return f"{YOKES}/{self.id}"

    @property
    def counted_path(self) -> str:
        return f"{COUNTED}/{self.id}"


@dataclass(frozen=True, slots=True, order=True)
class StandingKey:
    """The name of a standing: its kind, and its id among those of the kind."""

    kind: str
    id: str

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Undo `text`."""
        kind, _, id_ = text.partition("/")
        return cls(kind, id_)

    @property
    def text(self) -> str:
        return f"{self.kind}/{self.id}"

    @property
    def field(self) -> str:
        """Return the field under which counted records hold this standing: short, and a name that needs no quotes."""
        return f"s{name_of('standing', self.kind, self.id)[:24]}"

    @property
    def path(self) -> str:
        return f"{collection_of(self.kind)}/{self.id}"

    @property
    def adjustments(self) -> str:
        return f"{self.path}/adjustments"


def collection_of(kind: str) -> str:
    """Return the collection of a kind's standings."""
    return f"standings/{kind}/entries"
