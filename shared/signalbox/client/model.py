"""Documents, the report of a load, calls of tasks and events. `answer_types.py` has the types of answers."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, NotRequired, TypedDict

from signalbox.core.lazy_dataclasses import dataclass

Json = Any
"""A value that JSON has."""


@dataclass(frozen=True, slots=True, eq=False)
class Document(Mapping[str, Json]):
    """A document with its copies: a mapping of its fields, equal to any other with the same fields.

    ``etag`` is for `if_match`; None in a query's results.
    """

    content: Mapping[str, Json]
    etag: str | None = None

    @property
    def key(self) -> str:
        """The key under which the document is stored."""
        return str(self.content["key"])

    def __getitem__(self, name: str) -> Json:
        return self.content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)


@dataclass(slots=True)
class LoadReport:
    """What `load` did: the number of stored documents, and the problem of each refused one, by its key."""

    stored: int = 0
    refused: list[tuple[str | None, Mapping[str, Json]]] = field(default_factory=list)


class TaskCall(TypedDict):
    """A call of a task; `signalbox.client.call` makes one."""

    function: str
    task: str
    payload: NotRequired[Mapping[str, Json]]
    queue: NotRequired[str]
    delay_seconds: NotRequired[float]


class Event(TypedDict):
    """A server-sent event: its name, its id, and its data."""

    event: str
    id: str
    data: Json
