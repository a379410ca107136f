"""The types of the answers."""

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


class Lease(TypedDict):
    """A granted permit. ``token`` grows with each grant (a fencing token); ``ends_at`` is RFC 3339."""

    id: str
    token: int
    ends_at: str


class Waited(TypedDict):
    """The answer to a wait: acquired, waiting, or (of a repeated id) ended."""

    acquired: bool
    lease: NotRequired[Lease]
    waiting: NotRequired[bool]
    ended: NotRequired[bool]
    paused: NotRequired[bool]


class BatchShown(TypedDict):
    """The state and the counts of a batch."""

    id: str
    state: str
    size: int
    succeeded: int
    failed: int
    remaining: int
    pages: NotRequired[int | None]
    reason: NotRequired[str]
    missing: NotRequired[list[Json]]
    then: NotRequired[str]
    task: NotRequired[dict[str, str]]
    last_error: NotRequired[dict[str, Json]]


class UnitShown(TypedDict):
    """A unit that has ended."""

    index: int
    state: str
    attempt: int
    result: NotRequired[Json]
    error: NotRequired[str]


class FailureShown(TypedDict):
    """A task that was given up, or that is being retried."""

    id: str
    state: str
    function: str
    task: str
    payload: NotRequired[dict[str, Json]]
    error: str
    traceback: str
    attempts: int
    trace: str
    failed_at: str
    queue: NotRequired[str]
    semaphore: NotRequired[str]
    batch: NotRequired[str]
    problem: NotRequired[str]
    detail: NotRequired[str]
    next_at: NotRequired[str]


class RunShown(TypedDict):
    """How far a run of a flow is."""

    flow: str
    id: str
    state: str
    log_length: int
    waiting_for: NotRequired[list[dict[str, Json]]]
    unawaited: NotRequired[dict[str, Json]]
    deadline_at: NotRequired[str]
    labels: NotRequired[dict[str, str]]
    progress: NotRequired[Json]
    result: NotRequired[Json]
    error: NotRequired[dict[str, Json]]
    problem: NotRequired[dict[str, Json]]
    trace: NotRequired[str]


class Event(TypedDict):
    """A server-sent event: its name, its id, and its data."""

    event: str
    id: str
    data: Json


class StandingShown(TypedDict):
    """The numbers of a standing."""

    kind: str
    id: str
    count: int
    sum: float
    average: float | None
    min: float | None
    max: float | None
    pending: NotRequired[int]
