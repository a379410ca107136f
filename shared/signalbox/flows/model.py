"""The records of a flow, and the values in them: its address, its header, its log, and the messages in its mailbox.

    flows/{Flow}~{id}               the listing: state and times, for lists and for the sweeper
    flows/{Flow}~{id}/mailbox/!     the header: arguments, end of the log, pending waits, leases, outcome
    flows/{Flow}~{id}/mailbox/{id}  a message; a sleep is a message with a due time
    flows/{Flow}~{id}/log/{chunk}   earlier entries of the log, up to 900 KB in each chunk

A message becomes an entry of the log, with its time, in the commit that removes it from the mailbox. Everything that an
execution starts has its execution id, so that late messages for an earlier execution are recognised and dropped.
"""

import inspect
import json
import re
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import GeneratorType, coroutine
from typing import Any, ClassVar, Self

from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.keys import check_key
from signalbox.core.names import BUCKET, CLOUD_STORAGE
from signalbox.core.problems import BadKey, Unavailable
from signalbox.core.times import rfc3339
from signalbox.flows.limits import LIMITS
from signalbox.flows.problems import BadFlow
from signalbox.mailboxes.model.addresses import Address
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.tasks.requests.signatures import Signature

ON_COMPLETE = "on_complete"

LABEL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

FLOW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")

DAY_SECONDS = 24 * 3600

OUTSIDE_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]")

ARCHIVED_ID_LETTERS = 120
"""Letters of a run's id in the name of its archive: a name of a file has 255 bytes at most."""

RUNNING, SUSPENDED, STUCK = "running", "suspended", "stuck"
COMPLETED, FAILED, CANCELLED = "completed", "failed", "cancelled"
SUB_FLOW = "flow"
"""The kind of a command that runs another flow."""

RUNNING_STEPS = "running"
"""The field of the header with the claims of inline steps."""

STATES = (RUNNING, SUSPENDED, STUCK, COMPLETED, FAILED, CANCELLED)


# --- the flow: its address and its code ---


class FlowAddress(Address):
    """A run of a flow: the name of the flow, and the id of the run as its key."""

    __slots__ = ()
    COLLECTION = "flows"
    MEMBERS = ("flow", "id")

    @classmethod
    def checked(cls, flow: Any, id_: Any) -> Self:
        """Return an address from a caller's values. Raises `BadFlow` or `BadKey`."""
        if not isinstance(flow, str) or not FLOW_NAME.fullmatch(flow):
            raise BadFlow(f"The name of a flow must match {FLOW_NAME.pattern}.", field="flow")
        if len(check_key(id_).encode()) > LIMITS.flow_id_bytes_max:
            raise BadKey(f"The id of a flow must have at most {LIMITS.flow_id_bytes_max:,} bytes.", field="id")
        return cls(flow, id_)

    def chunk_path(self, generation: int, number: int) -> str:
        """Return the path of a chunk of the log."""
        return f"{self.base}/log/{generation:06}-{number:06}"


@dataclass(frozen=True, slots=True)
class Keeping:
    """The retention of an ended run, and the place of its archive, which is written before the run is removed.

    `days` is None for the default: as long as its start may be repeated. `archive` is ``gs://BUCKET/PREFIX`` or a
    folder, and empty if the run has no archive.
    """

    days: int | None = None
    archive: str = ""

    @classmethod
    def checked(cls, days: Any, archive: Any) -> Self:
        """Return what a flow's decorator says. Raises `TypeError` and `ValueError`."""
        least, most = LIMITS.flow_kept_seconds // DAY_SECONDS, LIMITS.flow_retention_days_max
        if not isinstance(days, int | None) or isinstance(days, bool):
            raise TypeError(f"retention_days must be a whole number of days, not {days!r}")
        if days is not None and not least <= days <= most:
            raise ValueError(
                f"retention_days must be {least} to {most:,}, not {days}: a start may be repeated for 31 days, and "
                "must find the run"
            )
        bytes_max = LIMITS.flow_archive_bytes_max
        if not isinstance(archive, str) or len(archive.encode()) > bytes_max:
            raise TypeError(f"archive must be a string of at most {bytes_max} bytes, not {archive!r}")
        is_bucket = bool(BUCKET.match(archive)) or not archive.startswith(CLOUD_STORAGE)
        if set(archive) & set("*?[]#\r\n") or not is_bucket or (archive and not archive.strip("/")):
            raise ValueError(f"archive must be gs://BUCKET/PREFIX or a folder, not {archive!r}")
        return cls(days, archive.rstrip("/"))

    @property
    def time(self) -> timedelta:
        """The time for which an ended run is kept."""
        return timedelta(days=self.days) if self.days else timedelta(seconds=LIMITS.flow_kept_seconds)


AS_LONG_AS_NEEDED = Keeping()


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """The code of a flow, a coroutine function or a generator function, and the signature of its arguments.

    `keeping` says what becomes of its runs after their ends.
    """

    name: str
    code: Callable[..., Coroutine[Any, Any, Any] | Generator[Any, Any, Any]]
    signature: Signature
    keeping: Keeping = AS_LONG_AS_NEEDED

    @classmethod
    def from_function(
        cls, code: Callable[..., Any], own: tuple[type, ...] = (), keeping: Keeping = AS_LONG_AS_NEEDED
    ) -> Self:
        """Return the definition of a user's function. Raises `TypeError` if it cannot be a flow.

        The kit takes results of the classes `own` for itself.
        """
        if not inspect.isroutine(code):
            raise TypeError(f"{code!r} is not a function: write the flow as `async def`")
        if inspect.isasyncgenfunction(code):
            raise TypeError(f"{code.__name__} has `yield` in `async def`: a flow awaits its commands")
        if not inspect.iscoroutinefunction(code) and not inspect.isgeneratorfunction(code):
            raise TypeError(f"{code.__name__} is not `async def`: a flow awaits its commands")
        signature = Signature.from_function(code, own)
        if signature.filled:
            raise TypeError(f"{code.__name__}: the parameters of a flow must be JSON, not a lease, a unit or a context")
        if ON_COMPLETE in inspect.signature(code).parameters:
            raise TypeError(f"{code.__name__}: rename the parameter `on_complete`, which is an option of start()")
        return cls(code.__name__, code, signature, keeping)

    async def begin(self, arguments: Mapping[str, Any]) -> Any:
        """Run the code. If the arguments do not fit, the error is raised when the coroutine is started."""
        code: Any = self.code(**self.signature.bind(arguments, None, stored=True))
        return await (_awaitable(code) if isinstance(code, GeneratorType) else code)


@coroutine
def _awaitable(code: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    return (yield from code)


@dataclass(frozen=True, slots=True)
class FlowContext:
    """What the code of a flow may know of its run: the flow's name, the run's `id`, and how it came about.

    `generation` counts the executions that ended with `flow.continue_as_new`, from 0. `parent` is the run whose
    sub-flow this one is, or None.
    """

    flow: str
    id: str
    generation: int = 0
    parent: FlowAddress | None = None


@dataclass(frozen=True, slots=True)
class Flows:
    """The flows whose code this process has. `revision` orders deployments."""

    function: str
    definitions: Mapping[str, FlowDefinition] = field(default_factory=dict)
    revision: int = 0

    @property
    def names(self) -> frozenset[str]:
        """The names of the flows."""
        return frozenset(self.definitions)

    def of(self, name: str) -> FlowDefinition:
        """Return the code of a flow. Raises `Unavailable` if a newer deployment may have it."""
        if name not in self.definitions:
            raise Unavailable(f"{self.function} does not have the flow {name!r}; a newer deployment may have it")
        return self.definitions[name]

    def kept(self, header: "FlowHeader") -> "FlowHeader":
        """Return a header with what this code says of the run's retention and archive, if it has the flow."""
        definition = self.definitions.get(header.address.name)
        return replace(header, keeping=definition.keeping) if definition else header

    def check_revision(self, written_by: int) -> None:
        """Raise `Unavailable` if newer code wrote the header: this code may not be able to replay its log."""
        if written_by > self.revision:
            raise Unavailable("the header was written by a newer deployment")


# --- waits and messages ---


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait of a flow's code: the command at `path` of an execution, on its current attempt.

    A path is the number of the `yield` in its branch, then the position in the yielded list, and so on. `signature` is
    the command's kind and name, and `scheduled_at` the time of the turn that scheduled it. Both are known where the
    command is known: in the header and, for the signature, in the log. Tasks and messages have the other three.
    `child` is the id that the code has given to a sub-flow, empty for a generated one, and `last_error` the error of
    the attempt before this one; the header has both, too.
    """

    execution_id: str
    path: str
    attempt: int = 1
    signature: str = ""
    scheduled_at: str = ""
    child: str = ""
    last_error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the members that identify the wait in messages and in payloads of tasks."""
        return {"life": self.execution_id, "path": self.path, "attempt": self.attempt}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(str(value["life"]), str(value["path"]), int(value["attempt"]))

    def shown_attempts(self) -> dict[str, Any]:
        """Return the number of the attempt and the error of the one before, if this is not the first."""
        return {"attempt": self.attempt, "last_error": self.last_error} if self.attempt > 1 else {}


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of one delivery to run the code of an inline step until a time, which it moves while the code runs.

    `starts` counts the starts of the current attempt, also those of deliveries that died. After an `error` other than a
    `Problem` the claim has no delivery, and the code is not started before `until`.
    """

    delivery: str
    starts: int
    until: datetime
    error: str = ""

    def to_json(self) -> list[Any]:
        return [self.delivery, self.starts, rfc3339(self.until), *([self.error] if self.error else [])]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        delivery, starts, until, *error = value
        return cls(delivery, starts, datetime.fromisoformat(until), *error)


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a command. `at` is the time of the turn that applied it, None in the mailbox.

    `delivery` is the one that has run the code of an inline step; empty for other commands.
    """

    kind: ClassVar[str] = "done"
    wait: Wait
    outcome: CallOutcome
    at: datetime | None = None
    delivery: str = ""

    @property
    def lease(self) -> dict[str, Any] | None:
        """The lease that was granted, if the command is a lock."""
        result = self.outcome.result
        return dict(result["granted"]) if isinstance(result, dict) and "granted" in result else None

    def body(self) -> dict[str, Any]:
        delivery = {"delivery": self.delivery} if self.delivery else {}
        return {**self.wait.to_json(), "outcome": self.outcome.to_json(), **delivery}

    def entry(self) -> list[Any]:
        return [self.wait.path, self.wait.signature, {**self.outcome.to_json(), **self.wait.shown_attempts()}]

    def shown(self) -> dict[str, Any]:
        shown = {"path": self.wait.path, "command": self.wait.signature, **self.outcome.to_json()}
        return {**shown, **self.wait.shown_attempts()}

    def id_for(self, address: FlowAddress) -> str:
        """Return the id of the message: one per execution, path, attempt, and lease or delivery of an inline step."""
        granted = self.lease["id"] if self.lease else self.delivery
        return name_of("done", address.base, self.wait.execution_id, self.wait.path, self.wait.attempt, granted)


@dataclass(frozen=True, slots=True)
class Event:
    """An event that a caller sent. A run of another `incarnation` drops it; empty: any run takes it."""

    kind: ClassVar[str] = "event"
    name: str
    value: Any
    at: datetime | None = None
    incarnation: str = ""

    def body(self) -> dict[str, Any]:
        return self.shown() | ({"incarnation": self.incarnation} if self.incarnation else {})

    def entry(self) -> list[Any]:
        return [self.name, self.value]

    def shown(self) -> dict[str, Any]:
        """Return the entry as a log shows it."""
        return {"name": self.name, "value": self.value}


@dataclass(frozen=True, slots=True)
class Cancel:
    """A request to cancel the flow. One that has a `parent` is of the flow that waited for it under that key."""

    kind: ClassVar[str] = "cancel"
    reason: str
    at: datetime | None = None
    parent: str = ""

    def body(self) -> dict[str, Any]:
        return self.shown() | ({"parent": self.parent} if self.parent else {})

    def entry(self) -> list[Any]:
        return [self.reason]

    def shown(self) -> dict[str, Any]:
        """Return the entry as a log shows it."""
        return {"reason": self.reason}


Message = Result | Event | Cancel
"""A message in the mailbox, and an entry of the log once it has its time."""


def message_to_record(message: Message) -> dict[str, Any]:
    """Return the fields of a message's record, without those of the mailbox."""
    return {"kind": message.kind, "body": json.dumps(message.body(), sort_keys=True)}


def message_from_record(data: Mapping[str, Any]) -> Message:
    body = json.loads(data["body"])
    match data["kind"]:
        case Event.kind:
            return Event(body["name"], body["value"], incarnation=body.get("incarnation", ""))
        case Cancel.kind:
            return Cancel(body["reason"], parent=body.get("parent", ""))
    return Result(Wait.from_json(body), CallOutcome.from_json(body["outcome"]), delivery=body.get("delivery", ""))


def timer_id(address: FlowAddress, wait: Wait) -> str:
    """Return the id of the message that ends a sleep."""
    return Result(wait, CallOutcome()).id_for(address)


def child_id(address: FlowAddress, wait: Wait) -> str:
    """Return the id of a command's record: a semaphore's waiter, a batch, a sub-flow, a message to an object.

    A refused wait is repeated under another id, since its first one may have ended.
    """
    again = [wait.attempt] if wait.attempt > 1 else []
    return name_of("of a flow", address.base, wait.execution_id, wait.path, *again)


def sub_flow_address(address: FlowAddress, wait: Wait) -> FlowAddress | None:
    """Return the address of the sub-flow that a flow waits for, or None if the wait is not for one."""
    kind, _, name = wait.signature.partition(" ")
    return FlowAddress(name, wait.child or child_id(address, wait)) if kind == SUB_FLOW else None


def parent_key(base: str, wait: Wait) -> str:
    """Return what identifies the wait of a flow for a sub-flow in the messages that it sends there."""
    return name_of("parent", base, wait.execution_id, wait.path)


# --- the log ---


def entries_to_text(entries: Sequence[Message]) -> str:
    """Return entries of the log as a record contains them."""
    stored = [[message.kind, *message.entry(), rfc3339(time_of(message))] for message in entries]
    return json.dumps(stored, separators=(",", ":"))


def joined(text: str, entries: Sequence[Message]) -> str:
    """Return the text of entries with further ones behind them."""
    added = entries_to_text(entries)
    return added if text == "[]" else text if added == "[]" else f"{text[:-1]},{added[1:]}"


def entries_from_text(text: str) -> tuple[Message, ...]:
    return tuple(map(_entry_from_json, json.loads(text)))


def _entry_from_json(stored: Sequence[Any]) -> Message:
    kind, *parts, at = stored
    time = datetime.fromisoformat(at)
    match kind:
        case Event.kind:
            name, value = parts
            return Event(name, value, time)
        case Cancel.kind:
            return Cancel(parts[0], time)
    path, signature, outcome = parts
    attempt, error = outcome.get("attempt", 1), outcome.get("last_error", "")
    return Result(Wait("", path, attempt, signature, last_error=error), CallOutcome.from_json(outcome), time)


def shown_entry(entry: Message) -> dict[str, Any]:
    """Return an entry of the log as people see it."""
    return {"at": rfc3339(time_of(entry)), "entry": entry.kind, **entry.shown()}


def time_of(entry: Message) -> datetime:
    assert entry.at is not None, "an entry of the log has its time"
    return entry.at


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The parts of the log: the last entries in the header, the earlier ones in chunks.

    Only the first `held` entries of the chunks count: a chunk may be newer than the header that was read with it.
    `text` is that of the tail, if it is known: most turns append to it.
    """

    tail: tuple[Message, ...] = ()
    chunks: int = 0
    held: int = 0
    held_bytes: int = 0
    text: str = field(default="", compare=False, repr=False)

    @property
    def tail_text(self) -> str:
        """The tail as the header's record contains it."""
        return self.text or entries_to_text(self.tail)

    @property
    def length(self) -> int:
        """The number of entries."""
        return self.held + len(self.tail)


# --- the header ---


@dataclass(frozen=True, slots=True)
class End:
    """The end of a flow: its final state, its outcome, and the time."""

    state: str
    outcome: CallOutcome
    at: datetime

    def to_json(self) -> list[Any]:
        return [self.state, self.outcome.to_json(), rfc3339(self.at)]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        state, outcome, at = value
        return cls(state, CallOutcome.from_json(outcome), datetime.fromisoformat(at))


@dataclass(frozen=True, slots=True)
class ParentFlow:
    """The flow that runs this one as a sub-flow, and its wait. `depth` is the number of flows above this one."""

    base: str
    function: str
    wait: Wait
    depth: int = 1

    def to_json(self) -> dict[str, Any]:
        return {"base": self.base, "function": self.function, "place": self.wait.to_json(), "depth": self.depth}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(value["base"], value["function"], Wait.from_json(value["place"]), value["depth"])


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the log of a fork begins: with the first `entries` of an execution of the run `id` of the same flow."""

    id: str
    execution_id: str
    entries: int

    def to_json(self) -> list[Any]:
        return [self.id, self.execution_id, self.entries]


def checked_labels(labels: Any) -> dict[str, str]:
    """Return the labels of a start. Raises `BadFlow`."""
    if not isinstance(labels, Mapping) or len(labels) > LIMITS.flow_labels_max:
        detail = f"`labels` must be an object with at most {LIMITS.flow_labels_max} members, whose values are strings."
        raise BadFlow(detail, field="labels")
    for name, value in labels.items():
        check_label(name, value)
    return dict(labels)


def check_label(name: Any, value: Any) -> None:
    """Raise `BadFlow` unless these can be a label's name and value."""
    if not isinstance(name, str) or not LABEL_NAME.fullmatch(name):
        raise BadFlow(f"The name of a label must match {LABEL_NAME.pattern}; {name!r:.80} does not.", field="labels")
    if not 0 < _label_bytes(value) <= LIMITS.flow_label_bytes_max:
        detail = f"The label {name!r} must be a string of 1 to {LIMITS.flow_label_bytes_max} bytes of UTF-8."
        raise BadFlow(detail, field="labels")


def _label_bytes(value: Any) -> int:
    """Return the size of a label's value, or 0 if it is not a string or has a lone surrogate, which UTF-8 lacks."""
    try:
        return len(value.encode()) if isinstance(value, str) else 0
    except UnicodeEncodeError:
        return 0


def checked_timeout(seconds: Any) -> float | None:
    """Return the time-out of a start, or None if it has none. Raises `BadFlow`."""
    most = LIMITS.flow_timeout_seconds_max
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= most:
        raise BadFlow(f"`timeout_seconds` must be a number above 0 and at most {most:,.0f}.", field="timeout_seconds")
    return seconds


def label_entry(name: str, value: str, state: str = "") -> str:
    """Return what a listing has of a label, which a query looks for: the label alone, or with the run's state."""
    return f"{state} {name}:{value}" if state else f"{name}:{value}"


@dataclass(frozen=True, slots=True)
class FlowHeader:
    """A flow as its last turn committed it.

    `digest` identifies the arguments of the start, so that a repeated start is recognised. `begun` says whether the
    code of this generation has been started. `pending` has the waits, `running` the claims of inline steps and `leases`
    the held leases of locks, all by path. `kept` counts the events that the code has not waited for, and `kept_names`
    has the first of their names. `cancel_waits`: a cancel is left in the mailbox while the code of inline steps runs.
    `labels` are those of the start, as the code has changed them since. At `deadline_at` the run is cancelled.
    `suspended` has the time and the reason of a suspension: no turn runs until it is resumed. `origins` are those of a
    fork's log, with the run that it was made from last. `keeping` is that of the code of its last turn.
    `written_by` is the revision of the code that wrote the header. `stuck` is the reason why replay fails, if it does,
    and `trace` the stack trace of the problem that ended the run.
    """

    address: FlowAddress
    function: str
    arguments: Mapping[str, Any]
    digest: str
    incarnation: str
    on_complete: Call | None = None
    parent: ParentFlow | None = None
    generation: int = 0
    begun: bool = False
    start_at: datetime | None = None
    log: StoredLog = StoredLog()
    pending: Mapping[str, Wait] = field(default_factory=dict)
    running: Mapping[str, Claim] = field(default_factory=dict)
    leases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    patches: Mapping[str, int] = field(default_factory=dict)
    cancel_waits: bool = False
    kept: int = 0
    kept_bytes: int = 0
    kept_names: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    deadline_at: datetime | None = None
    written_by: int = 0
    progress: Any = None
    stuck: Mapping[str, str] | None = None
    end: End | None = None
    trace: str = ""
    suspended: Mapping[str, str] | None = None
    origins: tuple[Origin, ...] = ()
    keeping: Keeping = AS_LONG_AS_NEEDED

    @property
    def kept_until(self) -> datetime:
        """The time at which the sweeper may remove the ended run, if its archive is written."""
        assert self.end is not None, "only a run that has ended is removed"
        return self.end.at + self.keeping.time

    @property
    def archive(self) -> str:
        """The file or the object of the ended run's archive, or an empty text. No other run has the same one."""
        if not self.keeping.archive or self.end is None:
            return ""
        place = f"{self.keeping.archive}/flow={self.address.name}/date={self.end.at:%Y-%m-%d}"
        return f"{place}/{_in_file_name(self.address.key)[:ARCHIVED_ID_LETTERS]}~{self.incarnation}.ndjson"

    @property
    def execution_id(self) -> str:
        """The id of the current execution: the incarnation, drawn at the start, and the generation."""
        return f"{self.incarnation}-{self.generation}"

    @property
    def state(self) -> str:
        """One of `STATES`."""
        if self.end:
            return self.end.state
        return SUSPENDED if self.suspended else STUCK if self.stuck else RUNNING

    @property
    def context(self) -> FlowContext:
        """What the code may know of its run."""
        parent = FlowAddress.of_base(self.parent.base) if self.parent else None
        return FlowContext(self.address.name, self.address.key, self.generation, parent)

    @property
    def label_entries(self) -> list[str]:
        """What the listing has of the labels: each alone, and each with the state."""
        return [label_entry(name, value, of) for of in ("", self.state) for name, value in sorted(self.labels.items())]

    @property
    def committed_positions(self) -> int:
        """The number of positions in the log that earlier turns have committed; the start is one."""
        return 1 + self.log.length if self.begun else 0

    @property
    def depth(self) -> int:
        """The number of flows above this one."""
        return self.parent.depth if self.parent else 0

    def ended(self, end: End) -> Self:
        """Return the header of the ended flow."""
        waits: dict[str, Any] = {"pending": {}, "running": {}, "cancel_waits": False, "leases": {}}
        return replace(self, end=end, stuck=None, suspended=None, **waits)

    def to_record(self) -> dict[str, Any]:
        """Return the fields of the header's record, without those of the mailbox. A user's JSON is stored as text."""
        return {
            "function": self.function,
            "arguments": json.dumps(self.arguments),
            "digest": self.digest,
            "incarnation": self.incarnation,
            "on_complete": self.on_complete.to_record() if self.on_complete else None,
            "parent": json.dumps(self.parent.to_json()) if self.parent else None,
            "generation": self.generation,
            "begun": self.begun,
            "start_at": self.start_at,
            "tail": self.log.tail_text,
            "chunks": self.log.chunks,
            "held": self.log.held,
            "held_bytes": self.log.held_bytes,
            "pending": json.dumps(
                {path: [wait.signature, wait.attempt, wait.scheduled_at] for path, wait in self.pending.items()}
            ),
            "leases": json.dumps(self.leases),
            "patches": json.dumps(self.patches),
            "kept": self.kept,
            "kept_bytes": self.kept_bytes,
            "kept_names": list(self.kept_names),
            "written_by": self.written_by,
            "progress": json.dumps(self.progress),
            "stuck": json.dumps(self.stuck),
            "end": json.dumps(self.end.to_json() if self.end else None),
            **({"children": json.dumps(children)} if (children := self._children()) else {}),
            **({"last_errors": json.dumps(errors)} if (errors := self._last_errors()) else {}),
            **self._claims_record(),
            **({"labels": json.dumps(self.labels)} if self.labels else {}),
            **({"deadline_at": self.deadline_at} if self.deadline_at else {}),
            **({"trace": self.trace} if self.trace else {}),
            **({"suspended": json.dumps(self.suspended)} if self.suspended else {}),
            **({"origins": json.dumps([origin.to_json() for origin in self.origins])} if self.origins else {}),
            **({"kept_days": self.keeping.days} if self.keeping.days else {}),
            **({"archive": self.keeping.archive} if self.keeping.archive else {}),
        }

    def _children(self) -> dict[str, str]:
        """Return the ids that the code has given to sub-flows, by the paths of their waits."""
        return {path: wait.child for path, wait in self.pending.items() if wait.child}

    def _last_errors(self) -> dict[str, str]:
        """Return the errors of the attempts before the current ones, by the paths of their waits."""
        return {path: wait.last_error for path, wait in self.pending.items() if wait.last_error}

    def _claims_record(self) -> dict[str, Any]:
        """Return the fields of inline steps, which most headers do not have."""
        claims = {path: claim.to_json() for path, claim in self.running.items()}
        waits = {"cancel_waits": True} if self.cancel_waits else {}
        return {RUNNING_STEPS: json.dumps(claims), **waits} if claims else waits

    @classmethod
    def from_record(cls, address: FlowAddress, data: Mapping[str, Any]) -> Self:
        parent, end = data["parent"], json.loads(data["end"])
        header = cls(
            address=address,
            function=data["function"],
            arguments=json.loads(data["arguments"]),
            digest=data["digest"],
            incarnation=data["incarnation"],
            on_complete=Call.from_record(data["on_complete"]) if data["on_complete"] else None,
            parent=ParentFlow.from_json(json.loads(parent)) if parent else None,
            generation=data["generation"],
            begun=data["begun"],
            start_at=data["start_at"],
            log=StoredLog(
                entries_from_text(data["tail"]), data["chunks"], data["held"], data["held_bytes"], data["tail"]
            ),
            running=_claims(_stored(data, RUNNING_STEPS, {})),
            cancel_waits=data.get("cancel_waits", False),
            leases=json.loads(data["leases"]),
            patches=json.loads(data["patches"]),
            kept=data.get("kept", 0),  # headers of older code have none of the three
            kept_bytes=data.get("kept_bytes", 0),
            kept_names=tuple(data.get("kept_names", ())),
            labels=_stored(data, "labels", {}),
            deadline_at=data.get("deadline_at"),
            trace=data.get("trace", ""),
            suspended=_stored(data, "suspended", None),
            origins=tuple(Origin(*origin) for origin in _stored(data, "origins", [])),
            keeping=Keeping(data.get("kept_days"), data.get("archive", "")),
            written_by=data["written_by"],
            progress=json.loads(data["progress"]),
            stuck=json.loads(data["stuck"]),
            end=End.from_json(end) if end else None,
        )
        waits = json.loads(data["pending"]), _stored(data, "children", {}), _stored(data, "last_errors", {})
        return replace(header, pending=_pending(header.execution_id, *waits))


def _stored(data: Mapping[str, Any], field: str, default: Any) -> Any:
    """Return the JSON of a field that most headers do not have."""
    return json.loads(data[field]) if field in data else default


def _in_file_name(id_: str) -> str:
    """Return an id with all characters percent-encoded that a name of a file may not have everywhere."""
    return OUTSIDE_FILE_NAMES.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), id_)


def _claims(stored: Mapping[str, Sequence[Any]]) -> dict[str, Claim]:
    return {path: Claim.from_json(claim) for path, claim in stored.items()}


def _pending(
    execution_id: str, stored: Mapping[str, Sequence[Any]], children: Mapping[str, str], errors: Mapping[str, str]
) -> dict[str, Wait]:
    return {
        path: Wait(execution_id, path, attempt, signature, scheduled_at, children.get(path, ""), errors.get(path, ""))
        for path, (signature, attempt, scheduled_at) in stored.items()
    }


NO_LABELS: Mapping[str, str] = {}


def new_header(
    address: FlowAddress,
    function: str,
    arguments: Mapping[str, Any],
    incarnation: str,
    on_complete: Call | None = None,
    parent: ParentFlow | None = None,
    labels: Mapping[str, str] = NO_LABELS,
    timeout_seconds: float | None = None,
) -> FlowHeader:
    """Return the header of a flow whose code has not been started."""
    what: list[Any] = [arguments, on_complete.to_record() if on_complete else None]
    what += [*([dict(labels)] if labels else []), *([] if timeout_seconds is None else [timeout_seconds])]
    digest = name_of(json.dumps(what, sort_keys=True))
    return FlowHeader(address, function, arguments, digest, incarnation, on_complete, parent, labels=labels)


def deadline_message(header: FlowHeader, timeout_seconds: float) -> tuple[str, Message]:
    """Return the message that cancels a run at its deadline, and its id."""
    reason = f"The run's time-out of {timeout_seconds:,g} seconds is over."
    return name_of("deadline", header.address.base, header.incarnation), Cancel(reason)
