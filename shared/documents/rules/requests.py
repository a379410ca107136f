"""Requests about one document, checked: HTTP and the kit build the same."""

from dataclasses import dataclass
from typing import Any, Self

from shared.core.rules import keys
from shared.core.rules.problems import BadKey, KeyRequired, NotAnObject
from shared.documents.rules.documents import Content, check_body
from shared.documents.rules.patches import Null
from shared.documents.rules.preconditions import UNCONDITIONAL, Precondition


@dataclass(frozen=True, slots=True)
class PutRequest:
    """Store `content` under `key`, replacing what is there."""

    key: str
    content: Content
    precondition: Precondition = UNCONDITIONAL

    @classmethod
    def from_request(cls, key: str, body: Any, precondition: Precondition = UNCONDITIONAL) -> Self:
        """Check a key and a document. Raises a `Problem` for what cannot be stored."""
        return cls(key, check_body(keys.check_key(key), body), precondition)

    @classmethod
    def from_body(cls, body: Any, new_key: str, precondition: Precondition = UNCONDITIONAL) -> Self:
        """Check a document that contains its own key, or none: then it gets `new_key`.

        Raises a `Problem` for what cannot be stored.
        """
        key = new_key if isinstance(body, dict) and "key" not in body else own_key(body)
        return cls.from_request(key, body, precondition)


@dataclass(frozen=True, slots=True)
class PatchRequest:
    """Merge `patch` into the document `key`, or create it. With `write_back`, edits of copies go to their sources."""

    key: str
    patch: Content
    null: Null = Null.IS_A_VALUE
    precondition: Precondition = UNCONDITIONAL
    write_back: bool = False

    @classmethod
    def from_request(
        cls,
        key: str,
        body: Any,
        null: Null = Null.IS_A_VALUE,
        precondition: Precondition = UNCONDITIONAL,
        *,
        write_back: bool = False,
    ) -> Self:
        """Check a key and a patch. Raises a `Problem` for what cannot be merged."""
        return cls(key, check_body(keys.check_key(key), body), null, precondition, write_back)


def own_key(body: Any) -> str:
    """Return the key that a document contains. Raises `NotAnObject`, `KeyRequired` or `BadKey`."""
    if not isinstance(body, dict):
        raise NotAnObject("A document is a JSON object.")
    key = body.get("key")
    if key is None or key == "":
        raise KeyRequired("`key` must be a non-empty string. One document alone may leave it out.", field="key")
    if not isinstance(key, str):
        raise BadKey("`key` must be a string.", field="key")
    return keys.check_key(key)
