"""Patterns of documents' paths, as Eventarc's triggers have them: ``orders/{id}``, ``orders/{id}/{path=**}``.

``{name}`` matches one segment of a path. ``{name=**}``, at the end, matches one segment or more. A handler's filter
(`DocumentFilter`) selects by the key and by the data.
"""

import re
from collections.abc import Mapping
from functools import cache
from keyword import iskeyword
from typing import Any, Final, Literal, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.records.record_values import same

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


EACH: Final = "each"
InOrder = bool | Literal["each"]
"""Whether a handler receives the events of a document in order; with `EACH`, none is left out."""


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """The events that a handler receives: of documents with a prefix or a type, and those that change a field.

    An event without its data passes the conditions on the data, since its handler reads the document.
    """

    prefix: str = ""
    type: str = ""
    changed: tuple[str, ...] = ()

    @property
    def needs_data(self) -> bool:
        return bool(self.type or self.changed)

    def selects(self, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> bool:
        """Return whether an event with these sides is selected."""
        newest = after if after is not None else before
        if newest is None:
            return True
        if self.type and newest.get("type") != self.type:
            return False
        return not self.changed or any(not same(_at(before, path), _at(after, path)) for path in self.changed)

    @classmethod
    def of(cls, prefix: Any = None, type_: Any = None, changed: Any = None) -> Self:
        """Return the filter with these options of `on_document`. Raises `ValueError` for one that is not possible."""
        for name, value in (("prefix", prefix), ("type", type_)):
            if value is not None and not (isinstance(value, str) and value):
                raise ValueError(f"{name} is {value!r}; write a text, or leave it out to select all")
        if prefix and "/" in prefix:
            raise ValueError(f"prefix is {prefix!r}, and no key contains a slash: write the collection in the pattern")
        given = (changed,) if isinstance(changed, str) else changed
        if given is None:
            return cls(prefix or "", type_ or "")
        if not isinstance(given, list | tuple | set | frozenset) or not given:
            raise ValueError(f"changed is {changed!r}; write the fields, or leave it out to select all")
        if wrong := [path for path in given if not (isinstance(path, str) and all(path.split(".")))]:
            raise ValueError(f'changed has {wrong[0]!r}, which is not a field: write one such as "address.city"')
        return cls(prefix or "", type_ or "", tuple(given))


EVERYTHING = DocumentFilter()


def _at(data: Any, path: str) -> Any:
    """Return the value at a path (``address.city``), or `...` if there is none."""
    for name in path.split("."):
        if not isinstance(data, Mapping) or name not in data:
            return ...
        data = data[name]
    return data
