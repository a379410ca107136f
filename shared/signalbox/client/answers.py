"""Read an answer: its status and its JSON. An answer that cannot be read raises `ApiError`."""

import json
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, TypeVar, cast

from signalbox.client.model import Json
from signalbox.client.problems import ApiError
from signalbox.core.lazy_dataclasses import dataclass

Shape = TypeVar("Shape", bound=Mapping[str, Any])


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer, or a part of it: the request's method and path, the status, and the JSON.

    The methods raise `ApiError` if the answer does not have what the client reads of it.
    """

    asked: str
    status: int
    content: Json
    headers: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def read(asked: str, status: int, content: bytes, headers: Mapping[str, str]) -> "Answer":
        """Return an answer by its body; an empty one has the content None."""
        return Answer(asked, status, json_of(asked, status, content) if content else None, headers)

    def shaped(self, shape: type[Shape]) -> Shape:
        """Return the answer's object, with all members that `shape` requires: a `TypedDict`, or `dict` for any."""
        if not isinstance(self.content, dict):
            raise self.unreadable("is not an object")
        if missing := sorted(getattr(shape, "__required_keys__", frozenset()) - self.content.keys()):
            raise self.unreadable(f"has no {missing[0]!r}")
        return cast("Shape", self.content)

    def member(self, name: str, kind: type[Value]) -> Value:
        """Return a member of the answer's object that must be there, and of a type of JSON."""
        kinds: Any = (int, float) if kind is float else kind
        found = self.part(name).content
        if not isinstance(found, kinds):
            raise self.unreadable(f"has another {name!r} than expected")
        return cast("Value", found)

    def part(self, name: str) -> "Answer":
        """Return a member of the answer's object, to read members of it."""
        content = self.shaped(dict)
        if name not in content:
            raise self.unreadable(f"has no {name!r}")
        return replace(self, content=content[name])

    def items(self, name: str) -> list["Answer"]:
        """Return the items of a list in the answer's object, to read members of each."""
        return [replace(self, content=item) for item in self.member(name, list)]

    def unreadable(self, why: str) -> ApiError:
        """Return the error of an answer that is not as expected."""
        return unreadable(self.asked, self.status, why, json.dumps(self.content, ensure_ascii=False))


def json_of(asked: str, status: int, text: bytes | str) -> Json:
    """Return the JSON of an answer's text. Raises `ApiError` for what is not the API's."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if isinstance(text, str) else text.decode(errors="replace")
        raise unreadable(asked, status, "is not JSON", shown) from error


def unreadable(asked: str, status: int, why: str, text: str) -> ApiError:
    """Return the error of a successful answer that this client cannot read, with the beginning of its text."""
    return ApiError(status, {"title": "Unreadable answer", "detail": f"the answer to {asked} {why}: {text[:300]}"})
