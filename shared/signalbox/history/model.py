"""The records of a document's log, and the declarations of the catalogue, which select the documents that have one.

A log consists of its entries and the mark. Entries are stored as patches (`machine/json_patch.py`).

A declaration selects documents by key, by a prefix of the key, or by type. Declarations are global to a process, like
limits. The settings contain them. A test replaces them:

    with HISTORY.replaced([HistoryRule(prefix="contract-")]): ...
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal, Self

from signalbox.core import json_values
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import DECLARED
from signalbox.core.records.record_values import BYTES, raw_bytes
from signalbox.history.limits import LIMITS

Operation = dict[str, Any]
Patch = list[Operation]


Content = dict[str, Any]

Action = Literal["put", "delete", "restore", "found"]


COLLECTION = "histories"

ACTIONS = ("put", "delete", "restore", "found")


LAST = 10**18 - 1
"""More microseconds than the time of any version."""


def header_path(key: str) -> str:
    return f"{COLLECTION}/{key}"


def collection_of(key: str) -> str:
    return f"{COLLECTION}/{key}/versions"


def id_of(version: int) -> str:
    """Return the id of a version's entry. Later versions have smaller ids, so they are listed first."""
    return f"{LAST - version:018d}"


def version_of(entry_id: str) -> int:
    return LAST - int(entry_id)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the log that can be read alone: the version of its first entry, and the number of its entries."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A description of the log: the last version, the digest of its content, and the segments, at least one."""

    version: int
    digest: str
    segments: tuple[Segment, ...]

    @classmethod
    def from_record(cls, data: object) -> Self | None:
        """Parse the mark of a reserved map. Return None if it has none."""
        match data:
            case {"version": int(version), "digest": str(digest), "firsts": list(firsts), "counts": list(counts)}:
                return cls(version, digest, tuple(map(Segment, firsts, counts)))
        return None

    def in_header(self) -> "Mark":
        """Return the mark for the log's header, without the digest: the document's later content is not known."""
        return replace(self, digest="")

    def to_record(self) -> dict[str, Any]:
        firsts, counts = ([getattr(segment, name) for segment in self.segments] for name in ("first", "count"))
        return {"version": self.version, "digest": self.digest, "firsts": firsts, "counts": counts}


@dataclass(frozen=True, slots=True)
class Entry:
    """One version: its action, its author, and a patch against the version before, or the whole value if `whole`."""

    version: int
    action: Action
    author: str
    patch: Patch
    whole: bool

    @classmethod
    def from_record(cls, entry_id: str, data: Mapping[str, Any], parts: Sequence[Mapping[str, Any]] = ()) -> Self:
        """Parse a record and the records of its parts, if it has any (`part_paths`)."""
        return cls(version_of(entry_id), data["action"], data["author"], json.loads(_text(data, parts)), data["whole"])

    def to_records(self, path: str) -> Mapping[str, dict[str, Any]]:
        """Return the entry's record at `path`, and the records of its parts, by path.

        The patch is text, so that it can be any JSON. A long patch is compressed, and a very long one is stored in
        parts.
        """
        text = json_values.canonical(self.patch)
        record = {"action": self.action, "author": self.author, "whole": self.whole, "patch": text}
        if len(text) <= LIMITS.history_text_letters_max:
            return {path: record}
        packed, size = zlib.compress(text.encode()), LIMITS.history_part_bytes_max
        if len(packed) <= size:
            return {path: {**record, "patch": base64.b64encode(packed).decode(), "packed": True}}
        parts = [packed[first : first + size] for first in range(0, len(packed), size)]
        first = {**record, "patch": "", "parts": len(parts)}
        paths = part_paths(path, first)
        return {path: first} | {
            at: {"data": {BYTES: base64.b64encode(part).decode()}} for at, part in zip(paths, parts, strict=True)
        }


def digest(content: Content) -> str:
    """Return a hash of a content; different contents have different hashes."""
    return hashlib.sha256(json_values.canonical(content).encode()).hexdigest()[:32]


def mark_after(mark: Mark, version: int) -> Mark:
    """Return the mark after one more entry in the last segment."""
    *closed, last = mark.segments
    return Mark(version, "", (*closed, Segment(last.first, last.count + 1)))


def part_paths(path: str, data: Mapping[str, Any]) -> list[str]:
    """Return the paths of the parts of an entry.

    Their collection has the same name as the collection of entries, so that the same settings of indexes apply to it.
    """
    return [f"{path}/versions/{number:03}" for number in range(data.get("parts", 0))]


def _text(data: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> str:
    patch: str = data["patch"]
    if parts:
        return zlib.decompress(b"".join(raw_bytes(part["data"][BYTES]) for part in parts)).decode()
    return zlib.decompress(base64.b64decode(patch)).decode() if data.get("packed") else patch


# --- declarations ---


TYPE = "type"
"""The field of a document with its type."""


@dataclass(frozen=True, slots=True)
class HistoryRule:
    """One declaration.

    It has exactly one of ``keys``, ``prefix`` and ``type``, the number of versions to keep, and their age.
    """

    keys: frozenset[str] = frozenset()
    prefix: str = ""
    type: str = ""
    versions_max: int = 100
    days_max: float = 365

    def __post_init__(self) -> None:
        if sum(map(bool, (self.keys, self.prefix, self.type))) != 1:
            raise ValueError("a history must have exactly one of keys, prefix and type")
        if not 1 <= self.versions_max <= LIMITS.history_versions_max:
            raise ValueError(f"versions_max must lie between 1 and {LIMITS.history_versions_max:,}")
        if not 0 < self.days_max <= LIMITS.history_days_max:
            raise ValueError(f"days_max must be more than 0 and at most {LIMITS.history_days_max:,}")

    @classmethod
    def from_json(cls, declared: Mapping[str, Any]) -> "HistoryRule":
        """Parse an entry of the catalogue. Raises `ValueError`."""
        return cls(**{**declared, "keys": frozenset(declared.get("keys", ()))})

    def to_json(self) -> dict[str, Any]:
        chosen = {"keys": sorted(self.keys), "prefix": self.prefix, "type": self.type}
        bounds = {"versions_max": self.versions_max, "days_max": self.days_max}
        return {**{name: value for name, value in chosen.items() if value}, **bounds}

    @property
    def age_max(self) -> timedelta:
        return timedelta(days=self.days_max)

    def names(self, key: str) -> bool:
        """Return whether the rule selects a key, whatever the content."""
        return key in self.keys or bool(self.prefix and key.startswith(self.prefix))


class History:
    """The declarations of this process in the catalogue's order. The first one that applies is used."""

    def __init__(self) -> None:
        self._replaced: tuple[HistoryRule, ...] | None = None

    @property
    def rules(self) -> tuple[HistoryRule, ...]:
        return _declared(DECLARED.get("history", "[]")) if self._replaced is None else self._replaced

    @contextmanager
    def replaced(self, rules: Sequence[HistoryRule]) -> Iterator[None]:
        """Use other declarations while the context is entered."""
        before, self._replaced = self._replaced, tuple(rules)
        try:
            yield
        finally:
            self._replaced = before

    def rule_of(self, key: str, *contents: Mapping[str, Any] | None) -> HistoryRule | None:
        """Return the rule for a document, given its contents before and after a write."""
        types = [content.get(TYPE) for content in contents if content]
        return next((rule for rule in self.rules if rule.names(key) or (rule.type and rule.type in types)), None)

    def may_apply(self, key: str) -> bool:
        """Return whether a document under this key may have versions, depending on its content."""
        return any(rule.names(key) or rule.type for rule in self.rules)


@lru_cache(maxsize=8)
def _declared(text: str) -> tuple[HistoryRule, ...]:
    """Parse the declarations of the catalogue. Raises `ValueError`."""
    return tuple(map(HistoryRule.from_json, json.loads(text)))


HISTORY = History()
