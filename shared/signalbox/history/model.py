"""The records of a document's log, and the declarations of the catalogue, which say what documents have one.

The log is its entries, the mark, and the JSON Patch (RFC 6902) in which entries are stored. A patch uses three
operations: add, remove, replace. The path ``""`` is the whole value: it is added if there was none, and removed if
there is none after. In a list, the common beginning and end are kept, and the items between them are compared one by
one.

A declaration selects documents by key, by a prefix of the key, or by type. Declarations are global to a process, like
limits. The settings set them; a test replaces them:

    with HISTORY.replaced([HistoryRule(prefix="contract-")]): ...
"""

import base64
import copy
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal, Self

from signalbox.core import json_values
from signalbox.core.json_values import same
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import DECLARED
from signalbox.core.record_values import BYTES, raw_bytes
from signalbox.history.limits import LIMITS

Operation = dict[str, Any]
Patch = list[Operation]

WHOLE_VALUE = ""
"""The pointer to the whole value."""


def diff(before: Any, after: Any) -> Patch:
    """Return the patch from `before` to `after`, empty if they are the same. 1 and 1.0 differ."""
    return list(_diff(before, after, WHOLE_VALUE))


def patch_from_nothing(value: Any) -> Patch:
    """Return the patch that sets the whole value."""
    return [{"op": "add", "path": WHOLE_VALUE, "value": value}]


def patch_to_nothing() -> Patch:
    """Return the patch that removes the whole value."""
    return [{"op": "remove", "path": WHOLE_VALUE}]


def patched(value: Any, patch: Patch) -> Any:
    """Return a value after a patch; None means that the value does not exist. Raises `LookupError` if a path does not
    exist.
    """
    value = copy.deepcopy(value)
    for operation in patch:
        value = _applied(value, operation)
    return value


def _diff(before: Any, after: Any, at: str) -> Iterator[Operation]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _diff_members(before, after, at)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _diff_items(before, after, at)
    elif not same(before, after):
        yield {"op": "replace", "path": at, "value": after}


def _diff_members(before: dict[str, Any], after: dict[str, Any], at: str) -> Iterator[Operation]:
    for name, value in before.items():
        if name in after:
            yield from _diff(value, after[name], _pointer(at, name))
        else:
            yield {"op": "remove", "path": _pointer(at, name)}
    for name, value in after.items():
        if name not in before:
            yield {"op": "add", "path": _pointer(at, name), "value": value}


def _diff_items(before: list[Any], after: list[Any], at: str) -> Iterator[Operation]:
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    both = min(len(old), len(new))
    for index in range(both):
        yield from _diff(old[index], new[index], _pointer(at, first + index))
    for index in reversed(range(both, len(old))):
        yield {"op": "remove", "path": _pointer(at, first + index)}
    for index in range(both, len(new)):
        yield {"op": "add", "path": _pointer(at, first + index), "value": new[index]}


def _common(before: list[Any], after: list[Any]) -> int:
    """Return how many items two lists have in common at their beginning."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((index for index, (one, other) in pairs if not same(one, other)), min(len(before), len(after)))


def _pointer(at: str, step: str | int) -> str:
    return f"{at}/{str(step).replace('~', '~0').replace('/', '~1')}"


def _applied(value: Any, operation: Operation) -> Any:
    *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")]
    if not steps:
        return operation.get("value")
    holder = value
    for step in steps[1:]:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    place: Any = int(last) if isinstance(holder, list) else last
    if operation["op"] == "remove":
        del holder[place]
    elif operation["op"] == "add" and isinstance(holder, list):
        holder.insert(place, copy.deepcopy(operation["value"]))
    else:
        holder[place] = copy.deepcopy(operation["value"])
    return value


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
    """A part of the log that is read by itself: the version of its first entry, and the number of entries."""

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
        """Parse the mark of a reserved map; None if it has none."""
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
        """Return the entry's record at `path`, and those of its parts, by path.

        The patch is text, so that it can be any JSON. A long one is compressed, and a very long one is stored in parts.
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

    Their collection has the name of that of entries, so that the same settings of indexes apply to it.
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
    """One declaration: exactly one of ``keys``, ``prefix`` and ``type``, and how many versions are kept how long."""

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
