"""The entries of a catalogue, except for those of functions. They are values that refuse settings that cannot work.

Each entry checks itself; `signalbox.catalogue.reading` checks that they are consistent with each other.
The names and limits are those of Cloud Tasks, Eventarc and Cloud Scheduler.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import field, fields
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from signalbox.catalogue.catalogue_errors import CatalogueError, check_between, refuse
from signalbox.catalogue.cron import UTC_NAME, cron_error
from signalbox.catalogue.function_entries import ENQUEUING
from signalbox.core.calls import Call
from signalbox.core.document_patterns import DocumentPattern
from signalbox.core.given import given
from signalbox.core.kit_names import DOCUMENT_EVENTS_PATH, queue_of
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import Problem
from signalbox.core.records import composite_indexes
from signalbox.core.surface.field_rules import Described
from signalbox.history.model import HistoryRule
from signalbox.rates.model import RateSettings
from signalbox.rates.requests import RATE_NAME
from signalbox.semaphores.limits import LEASE_SECONDS_DEFAULT
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import SEMAPHORE_NAME

EVENTS = tuple(f"google.cloud.firestore.document.v1.{kind}" for kind in ("written", "created", "updated", "deleted"))
DISPATCHES_PER_SECOND_MAX = 500  # Cloud Tasks' limits of a queue, like the next two
CONCURRENT_MAX = 5_000
DOUBLINGS_MAX = 16
SHARDS_MAX = 20  # 10,000 dispatches a second; a project may have 1,000 queues in a region

QUEUE_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue: as many queues of Cloud Tasks as it has `shards`, each with these rates.

    With ``attempts_max`` -1 it retries without a limit.
    """

    name: str
    dispatches_per_second: float
    concurrent_max: int
    attempts_max: int
    backoff_min_seconds: float
    backoff_max_seconds: float
    doublings_max: int
    shards: int = 1

    def __post_init__(self) -> None:
        refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        refuse(
            queue_of(self.name) != self.name,
            f"the name ends as that of a shard: for more queues of this kind, give {queue_of(self.name)} shards",
        )
        check_between("shards", self.shards, 1, SHARDS_MAX)
        check_between("dispatches_per_second", self.dispatches_per_second, 0.001, DISPATCHES_PER_SECOND_MAX)
        check_between("concurrent_max", self.concurrent_max, 1, CONCURRENT_MAX)
        check_between("doublings_max", self.doublings_max, 0, DOUBLINGS_MAX)
        refuse(self.attempts_max < 1 and self.attempts_max != -1, "attempts_max must be -1 (no limit) or at least 1")
        refuse(self.backoff_min_seconds < 0, "backoff_min_seconds must not be negative")
        refuse(self.backoff_max_seconds < self.backoff_min_seconds, "backoff_max_seconds is below backoff_min_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Firestore's `event` of documents under the pattern `document` (``documents/{key}``) invokes `function`.

    With a `handler`, the function enqueues the task of this name for the event. It may have several triggers with
    handlers.
    """

    name: str
    function: str
    event: str
    document: str
    handler: str = ""

    def __post_init__(self) -> None:
        refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        refuse(self.event not in EVENTS, f"event is {self.event!r}; choose from {', '.join(EVENTS)}")
        if self.handler:
            self._pattern_is_known()
        segments = self.document.split("/")
        paths_a_document = self.document.endswith("=**}") or len(segments) % 2 == 0
        refuse(
            not (paths_a_document and all(segments)),
            f"document is {self.document!r}; write COLLECTION/{{ID}}, in pairs, no slash at an end",
        )

    def _pattern_is_known(self) -> None:
        try:
            DocumentPattern.parse(self.document)
        except ValueError as error:
            raise CatalogueError(f"document {error}") from error

    @property
    def path(self) -> str:
        """The path at which the function receives its events, below its address.

        An empty path is the address itself.
        """
        return f"{DOCUMENT_EVENTS_PATH}/{self.handler}" if self.handler else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A call of `function` at the times of `cron` in `time_zone`, and locally every `local_every_seconds`, if not 0.

    With a `task`, the function `ENQUEUING` is called instead, and enqueues that task of `function` with `arguments`,
    once for each scheduled time.
    """

    name: str
    function: str
    cron: str
    local_every_seconds: float = 0
    time_zone: str = UTC_NAME
    task: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        refuse(bool(error := cron_error(self.cron)), f"cron is {self.cron!r}; {error}")
        refuse(
            not _is_time_zone(self.time_zone), f"time_zone is {self.time_zone!r}; write a name such as Europe/Berlin"
        )
        refuse(self.local_every_seconds < 0, "local_every_seconds must be more than 0, or 0 for the times of cron")
        refuse(bool(self.arguments) and not self.task, "arguments are those of a task: name the task, too")
        if self.task:
            self._call_can_be_made()

    def _call_can_be_made(self) -> None:
        try:
            json.dumps(self.arguments, allow_nan=False)
            Call(self.function, self.task, self.arguments).checked("")
        except (TypeError, ValueError) as error:
            raise CatalogueError(f"arguments must be JSON: {error}; quote dates and times") from error
        except Problem as problem:
            raise CatalogueError(problem.detail) from problem

    @property
    def called(self) -> str:
        """The function that the scheduler calls."""
        return ENQUEUING if self.task else self.function

    @property
    def body(self) -> bytes:
        """The body of the scheduler's call: the call of the task to enqueue, as JSON, or nothing."""
        call = {"function": self.function, "task": self.task, "payload": self.arguments}
        return json.dumps(call).encode() if self.task else b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A composite index. Fields: ``name`` ascending, ``-name`` descending, ``name[]`` the members of a list."""

    name: str
    collection: str
    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        refuse(not self.collection or "/" in self.collection, "collection is the last name of a collection's path")
        try:
            composite_indexes.parse(self.collection, self.fields)
        except ValueError as error:
            raise CatalogueError(str(error)) from error

    @property
    def parsed(self) -> composite_indexes.Index:
        return composite_indexes.parse(self.collection, self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Documents whose versions are kept: those with these `keys`, or a `prefix` of their keys, or a `type`."""

    name: str
    keys: tuple[str, ...] = ()
    prefix: str = ""
    type: str = ""
    versions_max: int = 100
    days_max: float = 365

    def __post_init__(self) -> None:
        refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        self._can_be_kept()

    def _can_be_kept(self) -> None:
        try:
            _ = self.rule
        except ValueError as error:
            raise CatalogueError(str(error)) from error

    @property
    def rule(self) -> HistoryRule:
        """The same declaration as functions use it."""
        return HistoryRule(frozenset(self.keys), self.prefix, self.type, self.versions_max, self.days_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Semaphore(SemaphoreSettings):
    """A semaphore that a deployment and the local stack create, or whose settings they set."""

    name: Annotated[str, SEMAPHORE_NAME]
    lease_seconds: Annotated[float, Described({})] = LEASE_SECONDS_DEFAULT

    def __post_init__(self) -> None:
        _check_settings(self, SemaphoreSettings)

    @property
    def settings(self) -> SemaphoreSettings:
        """The settings to set."""
        return SemaphoreSettings(**_settings(self, SemaphoreSettings))

    @property
    def body(self) -> dict[str, Any]:
        """Return the body of the request that creates it."""
        return _body(self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate(RateSettings):
    """A rate that a deployment and the local stack create, or whose limits they set."""

    name: Annotated[str, RATE_NAME]

    def __post_init__(self) -> None:
        _check_settings(self, RateSettings)

    @property
    def settings(self) -> RateSettings:
        """The limits to set."""
        return RateSettings(**_settings(self, RateSettings))

    @property
    def body(self) -> dict[str, Any]:
        """Return the body of the request that creates it."""
        return _body(self.settings)


def _check_settings(entry: Semaphore | Rate, kind: type) -> None:
    """Check the name of an entry, and its settings by their class. Raises `CatalogueError`."""
    try:
        kind(**_settings(entry, kind))
        (SEMAPHORE_NAME if isinstance(entry, Semaphore) else RATE_NAME).check(entry.name)
    except Problem as problem:
        raise CatalogueError(problem.detail) from problem


def _settings(entry: Semaphore | Rate, kind: Any) -> dict[str, Any]:
    return {each.name: getattr(entry, each.name) for each in fields(kind)}


def _body(settings: Any) -> dict[str, Any]:
    """Return the settings as a request has them, without those that are empty."""
    return given(**{name: value or None for name, value in _settings(settings, settings).items()})


@dataclass(frozen=True, slots=True)
class Declared:
    """A semaphore or rate to create with a `PUT` of `body` to `function`, or to set its limits."""

    function: str
    name: str
    body: Mapping[str, Any]


def _is_time_zone(name: str) -> bool:
    try:
        return name == UTC_NAME or ZoneInfo(name) is not None
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder's name, a path
        return False
