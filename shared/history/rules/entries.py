"""The records of a document's log: its entries, and the mark that a document and the log's header keep of it."""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from shared.core.rules import values
from shared.core.rules.limits import LIMITS
from shared.history.rules.json_patch import Patch

Content = dict[str, Any]
Action = Literal["put", "delete", "restore", "found"]

COLLECTION = "histories"
ACTIONS = ("put", "delete", "restore", "found")

LAST = 10**18 - 1
"""More microseconds than any time has."""


def header_path(key: str) -> str:
    """Return the path of a log's header."""
    return f"{COLLECTION}/{key}"


def collection_of(key: str) -> str:
    """Return the collection of a document's versions."""
    return f"{COLLECTION}/{key}/versions"


def id_of(version: int) -> str:
    """Return the id of a version's entry: the later, the smaller."""
    return f"{LAST - version:018d}"


def version_of(entry_id: str) -> int:
    """Undo `id_of`."""
    return LAST - int(entry_id)


@dataclass(frozen=True, slots=True)
class Segment:
    """Entries that are read without others: the version of the first, and how many there are."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What the log knows of its document: the last version, its digest, and the segments of this life, at least one."""

    version: int
    digest: str
    segments: tuple[Segment, ...]

    @classmethod
    def from_record(cls, data: object) -> Self | None:
        """Return the mark in a reserved map, or None if there is none."""
        match data:
            case {"version": int(version), "digest": str(digest), "firsts": list(firsts), "counts": list(counts)}:
                return cls(version, digest, tuple(map(Segment, firsts, counts)))
        return None

    def in_header(self) -> "Mark":
        """Return the mark as the header of a log keeps it: what the document holds by then is not known."""
        return replace(self, digest="")

    def to_record(self) -> dict[str, Any]:
        """Return what `from_record` reads."""
        firsts, counts = ([getattr(each, name) for each in self.segments] for name in ("first", "count"))
        return {"version": self.version, "digest": self.digest, "firsts": firsts, "counts": counts}


@dataclass(frozen=True, slots=True)
class Entry:
    """One version: what made it, who, and a patch against the version before, or against nothing if it is `whole`."""

    version: int
    action: Action
    author: str
    patch: Patch
    whole: bool

    @classmethod
    def from_record(cls, entry_id: str, data: Mapping[str, Any]) -> Self:
        """Return the entry of a record."""
        text = _unpacked(data["patch"]) if data.get("packed") else data["patch"]
        return cls(version_of(entry_id), data["action"], data["author"], json.loads(text), data["whole"])

    def to_record(self) -> dict[str, Any]:
        """Return the record: the patch as text, so that it may hold any JSON; a long one is compressed."""
        text = values.canonical(self.patch)
        record = {"action": self.action, "author": self.author, "whole": self.whole, "patch": text}
        if len(text) <= LIMITS.history_text_letters_max:
            return record
        return {**record, "patch": _packed(text), "packed": True}


def digest(content: Content) -> str:
    """Return a hash that equal contents, and only they, share."""
    return hashlib.sha256(values.canonical(content).encode()).hexdigest()[:32]


def mark_after(mark: Mark, version: int) -> Mark:
    """Return the mark after a deletion that begins no segment."""
    *closed, last = mark.segments
    return Mark(version, "", (*closed, Segment(last.first, last.count + 1)))


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode())).decode()


def _unpacked(text: str) -> str:
    return zlib.decompress(base64.b64decode(text)).decode()
