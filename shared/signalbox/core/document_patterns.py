"""Patterns of documents' paths, as Eventarc's triggers have them: ``orders/{id}``, ``orders/{id}/{path=**}``.

``{name}`` matches one segment of a path. ``{name=**}``, at the end, matches one segment or more.
"""

import re
from functools import cache
from keyword import iskeyword
from typing import Final, Literal, Self

from signalbox.core.lazy_dataclasses import dataclass

CREATED: Final = "created"
UPDATED: Final = "updated"
DELETED: Final = "deleted"
WRITTEN: Final = "written"
KINDS = (WRITTEN, CREATED, UPDATED, DELETED)
"""The kinds of events that a trigger selects; `WRITTEN` selects all."""

Kind = Literal["written", "created", "updated", "deleted"]

OF_EACH_EVENT = frozenset({"outbox", "outbox_refused", "receipts", "attempts", "failures", "document_events"})
"""Collections that the kit itself writes while it handles an event. A trigger on one of them would never end."""

_NAMED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(=\*\*)?\}")
_PLAIN = re.compile(r"[^{}*/]+")


@dataclass(frozen=True, slots=True)
class DocumentPattern:
    """A checked pattern. `names` are the names of its parts, in order."""

    text: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Check a pattern. Raises `ValueError` with the form to write instead."""
        segments = text.split("/")
        first, *others = segments
        if not _PLAIN.fullmatch(first):
            raise ValueError(f"{text!r} must begin with a collection's name, without a slash: orders/{{id}}")
        if first in OF_EACH_EVENT:
            raise ValueError(f"{text!r}: the kit writes {first} for each event, so the events would never end")
        found = [_NAMED.fullmatch(segment) for segment in others]
        for segment, named in zip(others, found, strict=True):
            if named is None and not _PLAIN.fullmatch(segment):
                raise ValueError(f"{text!r}: {segment!r} is neither a name nor {{part}} nor {{part=**}}")
        rest = [bool(named and named[2]) for named in found]
        if any(rest[:-1]):
            raise ValueError(f"{text!r}: {{part=**}} matches the rest of the path, so it must be the last part")
        if not any(rest) and len(segments) % 2:
            raise ValueError(f"{text!r} is the path of a collection; a document's is COLLECTION/{{id}}, in pairs")
        names = tuple(named[1] for named in found if named)
        if len(set(names)) < len(names):
            raise ValueError(f"{text!r} has two parts of one name: rename one")
        for name in names:
            if iskeyword(name) or name == "event":
                raise ValueError(f"{text!r}: {name} cannot be the name of a handler's parameter: rename the part")
        return cls(text, names)

    def match(self, path: str) -> dict[str, str] | None:
        """Return the values that a document's path has for the pattern's parts, or None if the path does not match."""
        found = _expression_of(self.text).fullmatch(path)
        return None if found is None else found.groupdict()


def matches(pattern: str, path: str) -> bool:
    """Return whether a path matches a trigger's pattern, which has been checked before."""
    return _expression_of(pattern).fullmatch(path) is not None


@cache
def _expression_of(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of the paths that match a checked pattern, with a group for each named part."""
    return re.compile("/".join(map(_expression_of_segment, pattern.split("/"))))


def _expression_of_segment(segment: str) -> str:
    named = _NAMED.fullmatch(segment)
    if named is None:
        return re.escape(segment)
    return f"(?P<{named[1]}>[^/]+{'(?:/[^/]+)*' if named[2] else ''})"
