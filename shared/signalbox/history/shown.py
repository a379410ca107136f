"""The answers about the versions of a document."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Described, Range
from signalbox.history.model import Action, Patch

VersionNumber = Annotated[
    int,
    Range(0, 10**17 - 1),
    Described(
        {"description": "Microseconds of the server's time. Each is larger than the ones before."}, "VersionNumber"
    ),
]


@dataclass(frozen=True, slots=True)
class VersionShown:
    """A version: when it became valid, its author, and the action that made it."""

    version: VersionNumber

    at: datetime
    """The time from which the document had this content."""

    author: str
    """The author: `user:ID` for a signed-in user, `account:ADDRESS` for a caller whom Cloud Run has verified in front
    of a private function, otherwise `function:NAME`; empty for another client of the database."""

    action: Action
    """The action. Any write of users is a `put`. `found` is content that another client wrote, or that existed before
    the document had a history."""


@dataclass(frozen=True, slots=True)
class VersionsShown:
    """One page, the last if it has no `next_page_token`. It is empty for a document without a history."""

    versions: list[VersionShown]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class VersionContentShown(VersionShown):
    """A version with the document as users wrote it."""

    document: Annotated[
        Mapping[str, Any] | None,
        Described(
            {
                "required": ["key"],
                "properties": {"key": {"type": "string"}},
                "additionalProperties": True,
                "description": "The document with links as keys only; null if it did not exist.",
            }
        ),
    ]

    @classmethod
    def of(cls, key: str, version: VersionShown, content: Mapping[str, Any] | None) -> Self:
        document = None if content is None else {"key": key, **content}
        return cls(version.version, version.at, version.author, version.action, document)


@dataclass(frozen=True, slots=True)
class VersionChangesShown:
    """The JSON Patch (RFC 6902) from the first version to the second. A document that did not exist is null."""

    from_: VersionNumber
    to: VersionNumber
    patch: Annotated[
        Patch,
        Described(
            {
                "items": {
                    "type": "object",
                    "required": ["op", "path"],
                    "properties": {
                        "op": {"type": "string", "enum": ["add", "remove", "replace"]},
                        "path": {"type": "string", "description": "A JSON Pointer."},
                        "value": {},
                    },
                }
            }
        ),
    ]
