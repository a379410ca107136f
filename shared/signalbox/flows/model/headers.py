"""The header of a run: its state, as the last turn committed it.

It has the end of the log, the waits that are pending, the leases that are held, and the outcome once the run has ended.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Self

from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.given import given
from signalbox.core.idempotency_keys import call_without_leases, sorted_json, without_leases
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.times import rfc3339
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.labels import NO_LABELS, label_entry
from signalbox.flows.model.log import NO_ENTRIES, StoredLog, entries_from_text
from signalbox.flows.model.messages import Blank, Message, Result
from signalbox.flows.model.retention import AS_LONG_AS_NEEDED, Keeping
from signalbox.flows.model.waits import Claim, Wait
from signalbox.mailboxes.model.outcomes import CallOutcome

OUTSIDE_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]")

ARCHIVED_ID_LETTERS = 120
"""Letters of a run's id in the name of its archive: a file name has at most 255 bytes."""

RUNNING, SUSPENDED, STUCK = "running", "suspended", "stuck"
COMPLETED, FAILED, CANCELLED = "completed", "failed", "cancelled"

RETRY_REASON_LETTERS = 200
"""Letters of a retry's reason that the header keeps."""

RUNNING_STEPS = "running"
"""The field of the header with the claims of inline steps."""

STATES = (RUNNING, SUSPENDED, STUCK, COMPLETED, FAILED, CANCELLED)


TIME_OUT = "The run's time-out of"
"""The beginning of the reason of a cancel by the deadline."""


@dataclass(frozen=True, slots=True)
class FlowContext:
    """The facts about its run that a flow's code can read: the flow's name, the run's `id`, and its origin.

    `generation` counts the executions that ended with `flow.continue_as_new`, from 0. `parent` is the run whose
    sub-flow this one is, or None.
    """

    flow: str
    id: str
    generation: int = 0
    parent: FlowAddress | None = None


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
    """The parent flow, which runs this flow as a sub-flow, and the parent's wait for it.

    `depth` is the number of flows above this one.
    """

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
    """The beginning of a fork's log: the first `entries` of an execution of the run `id` of the same flow."""

    id: str
    execution_id: str
    entries: int

    def to_json(self) -> list[Any]:
        return [self.id, self.execution_id, self.entries]


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry of the run that was carried out: the key of the request, the rewind that it made, its time and reason.

    `asks` is a digest of the request without its reason.
    """

    key: str
    rewind: int
    at: datetime
    reason: str = ""
    asks: str = ""

    def to_json(self) -> list[Any]:
        return [self.key, self.rewind, rfc3339(self.at), self.reason, self.asks]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        key, rewind, at, reason, asks = value
        return cls(key, rewind, datetime.fromisoformat(at), reason, asks)


@dataclass(frozen=True, slots=True)
class Rewound:
    """A rewind whose opening turn has not cut the log yet. The other members are those of the run before.

    - `keep` is the number of entries that stay, and `blanks` has the numbers of those that become blank, from 1 on.
    - `execution_id` is the execution that has written the log.
    - `end` is None if the run was stuck.
    """

    keep: int
    blanks: tuple[int, ...]
    execution_id: str
    end: End | None = None
    patches: Mapping[str, int] = field(default_factory=dict)
    origins: tuple[Origin, ...] = ()

    def kept(self, log: Sequence[Message]) -> tuple[Message, ...]:
        """Return the entries of a log that stay, with the blanks among them."""
        entries = enumerate(log[: self.keep], 1)
        return tuple(Blank.of(e) if n in self.blanks and isinstance(e, Result) else e for n, e in entries)

    def to_json(self) -> list[Any]:
        end, origins = self.end.to_json() if self.end else None, [origin.to_json() for origin in self.origins]
        return [self.keep, list(self.blanks), self.execution_id, end, dict(self.patches), origins]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        keep, blanks, execution_id, end, patches, origins = value
        before = tuple(Origin(*origin) for origin in origins)
        return cls(keep, tuple(blanks), execution_id, End.from_json(end) if end else None, patches, before)


@dataclass(frozen=True, slots=True)
class FlowHeader:
    """A flow as its last turn committed it.

    - `digest` identifies the arguments of the start, so that a repeated start is recognised.
    - `begun` is whether the code of this generation has been started.
    - `pending` has the waits, `running` the claims of inline steps and `leases` the held leases of locks, all by path.
    - `kept` counts the events that the code has not waited for, and `kept_names` has the first of their names.
    - `cancel_waits` is whether a cancel is left in the mailbox while the code of inline steps runs.
    - `unanswered` has the names of the updates that turns have applied and the code has not answered, by their ids. If
      the run has ended, they stay without an answer, unless a retry continues it.
    - `labels` are those of the start, with the changes that the code has made since.
    - `deadline_at` is the time at which the run is cancelled.
    - `suspended` has the time and the reason of a suspension: no turn runs until the run is resumed.
    - `origins` are the origins of a fork's log; the last origin is the run that was forked.
    - `keeping` is the retention that the code of the last turn specified.
    - `written_by` is the revision of the code that wrote the header.
    - `stuck` is the reason why replay fails, if it does, and `granted` has the leases in messages that the run has not
      applied since.
    - `trace` is the stack trace of the problem that ended the run; a rewound run has it until its opening turn.
    - `deadline_rewind` is the rewind that has set the deadline, or 0 if the start has.
    - `rewinds` counts the retries in place, and `retries` has the last of them.
    - `rewound` is the last retry until its opening turn. Then the log still has all entries.
    - `collects` is whether events that the end left unread may have to be applied before the mailbox.
    - `adopted` has the ids of sub-flows of earlier executions that a retry adopts, by the paths of their waits.
    - `removing` is whether a removal of several commits has begun.
    - `has_payloads` is whether the run's records have named payloads.
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
    log: StoredLog = NO_ENTRIES
    pending: Mapping[str, Wait] = field(default_factory=dict)
    running: Mapping[str, Claim] = field(default_factory=dict)
    leases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    patches: Mapping[str, int] = field(default_factory=dict)
    cancel_waits: bool = False
    kept: int = 0
    kept_bytes: int = 0
    kept_names: tuple[str, ...] = ()
    unanswered: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    deadline_at: datetime | None = None
    written_by: int = 0
    progress: Any = None
    stuck: Mapping[str, str] | None = None
    granted: tuple[Mapping[str, Any], ...] = ()
    end: End | None = None
    trace: str = ""
    suspended: Mapping[str, str] | None = None
    origins: tuple[Origin, ...] = ()
    keeping: Keeping = AS_LONG_AS_NEEDED
    deadline_rewind: int = 0
    rewinds: int = 0
    retries: tuple[Retry, ...] = ()
    rewound: Rewound | None = None
    collects: bool = False
    adopted: Mapping[str, str] = field(default_factory=dict)
    removing: bool = False
    has_payloads: bool = False

    @property
    def kept_until(self) -> datetime:
        """The time at which the sweeper may remove the ended run, if its archive is written."""
        assert self.end is not None, "only a run that has ended is removed"
        return self.end.at + self.keeping.time

    @property
    def archive(self) -> str:
        """The name of the file or object of the ended run's archive, or an empty text. Each end has another name."""
        if not self.keeping.archive or self.end is None:
            return ""
        place = f"{self.keeping.archive}/flow={self.address.name}/date={self.end.at:%Y-%m-%d}"
        return f"{place}/{_in_file_name(self.address.key)[:ARCHIVED_ID_LETTERS]}~{self.ended_as}.ndjson"

    @property
    def execution_id(self) -> str:
        """The id of the current execution: the incarnation, drawn at the start, the generation, and the rewinds."""
        return execution_id_of(self.incarnation, self.generation, self.rewinds)

    @property
    def ended_as(self) -> str:
        """The name of the run's end: the incarnation and the rewinds."""
        return f"{self.incarnation}{self.rewind_suffix}"

    @property
    def is_timed_out(self) -> bool:
        """Whether the deadline has ended the run."""
        error = self.end.outcome.error if self.end and self.end.state == CANCELLED else None
        return self.deadline_at is not None and str((error or {}).get("detail")).startswith(TIME_OUT)

    @property
    def rewind_suffix(self) -> str:
        """The part of names that distinguishes the executions of one generation."""
        return rewind_suffix_of(self.rewinds)

    @property
    def rewind_parts(self) -> tuple[int, ...]:
        """The same for names that are hashes of their parts."""
        return (self.rewinds,) if self.rewinds else ()

    @property
    def state(self) -> str:
        """One of `STATES`."""
        if self.end:
            return self.end.state
        return SUSPENDED if self.suspended else STUCK if self.stuck else RUNNING

    @property
    def held_leases(self) -> list[Mapping[str, Any]]:
        """The leases of the locks that a stuck run holds."""
        return [lease for _, lease in sorted(self.leases.items())] + list(self.granted)

    @property
    def context(self) -> FlowContext:
        """The facts about the run that its code can read."""
        parent = FlowAddress.of_base(self.parent.base) if self.parent else None
        return FlowContext(self.address.name, self.address.key, self.generation, parent)

    @property
    def label_entries(self) -> list[str]:
        """The labels in the listing: each label once alone, and once with the run's state."""
        return [label_entry(name, value, of) for of in ("", self.state) for name, value in sorted(self.labels.items())]

    @property
    def committed_positions(self) -> int:
        """The number of positions in the log that earlier turns have committed; the start is one."""
        return 1 + self.log_length if self.begun else 0

    @property
    def log_length(self) -> int:
        """The number of entries of the log."""
        return self.rewound.keep if self.rewound else self.log.length

    @property
    def depth(self) -> int:
        """The number of flows above this one."""
        return self.parent.depth if self.parent else 0

    def awaited(self, wait: Wait) -> Wait | None:
        """Return the pending wait at the path of `wait`, or None if there is none or `wait` is of another execution."""
        is_pending = wait.execution_id == self.execution_id and wait.path in self.pending
        return self.pending[wait.path] if is_pending else None

    def ended(self, end: End) -> Self:
        """Return the header of the ended flow."""
        waits: dict[str, Any] = {"pending": {}, "running": {}, "cancel_waits": False, "leases": {}}
        return replace(self._not_rewound(), end=end, stuck=None, suspended=None, trace="", **waits)

    def _not_rewound(self) -> Self:
        """Return the header with its whole log again, if its opening turn has not cut the log."""
        if self.rewound is None:
            return self
        before = self.rewound
        drawn = Origin(self.address.key, before.execution_id, self.log.length)
        return replace(self, rewound=None, patches=before.patches, origins=(*before.origins, drawn))

    def to_record(self) -> dict[str, Any]:
        """Return the fields of the header's record, except for the mailbox's fields.

        A user's JSON is stored as text.
        """
        errors = {path: wait.last_error for path, wait in self.pending.items() if wait.last_error}
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
            **given(children=_json_if_any(self.children_record()), last_errors=_json_if_any(errors)),
            **self._claims_record(),
            **given(
                granted=_json_if_any(list(self.granted) if self.stuck else []),
                unanswered=_json_if_any(self.unanswered),
                labels=_json_if_any(self.labels),
                deadline_at=self.deadline_at,
                trace=self.trace or None,
                suspended=_json_if_any(self.suspended),
                origins=_json_if_any([origin.to_json() for origin in self.origins]),
                kept_days=self.keeping.days or None,
                archive=self.keeping.archive or None,
            ),
            **self._rewinds_record(),
        }

    def children_record(self) -> dict[str, str]:
        """Return the ids that the code has given to sub-flows, by the paths of their waits."""
        return {path: wait.child for path, wait in self.pending.items() if wait.child}

    def _rewinds_record(self) -> dict[str, Any]:
        """Return the fields of retries and payloads, which most runs do not have."""
        return given(
            payloads=self.has_payloads or None,
            rewinds=self.rewinds or None,
            deadline_rewind=self.deadline_rewind or None,
            retries=_json_if_any([retry.to_json() for retry in self.retries]),
            rewound=_json_if_any(self.rewound.to_json() if self.rewound else None),
            collects=self.collects or None,
            adopted=_json_if_any(self.adopted),
            removing=self.removing or None,
        )

    def _claims_record(self) -> dict[str, Any]:
        """Return the fields of inline steps, which most headers do not have."""
        claims = {path: claim.to_json() for path, claim in self.running.items()}
        waits = {"cancel_waits": True} if self.cancel_waits else {}
        return {RUNNING_STEPS: json.dumps(claims), **waits} if claims else waits

    @classmethod
    def from_record(cls, address: FlowAddress, data: Mapping[str, Any]) -> Self:
        parent, end = data["parent"], json.loads(data["end"])
        execution_id = execution_id_of(data["incarnation"], data["generation"], data.get("rewinds", 0))
        waits = json.loads(data["pending"]), _stored(data, "children", {}), _stored(data, "last_errors", {})
        return cls(
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
            pending=_pending(execution_id, *waits),
            running={path: Claim.from_json(claim) for path, claim in _stored(data, RUNNING_STEPS, {}).items()},
            cancel_waits=data.get("cancel_waits", False),
            leases=json.loads(data["leases"]),
            patches=json.loads(data["patches"]),
            kept=data["kept"],
            kept_bytes=data["kept_bytes"],
            kept_names=tuple(data["kept_names"]),
            unanswered=_stored(data, "unanswered", {}),
            labels=_stored(data, "labels", {}),
            deadline_at=data.get("deadline_at"),
            trace=data.get("trace", ""),
            suspended=_stored(data, "suspended", None),
            origins=tuple(Origin(*origin) for origin in _stored(data, "origins", [])),
            keeping=Keeping(data.get("kept_days"), data.get("archive", "")),
            written_by=data["written_by"],
            progress=json.loads(data["progress"]),
            stuck=json.loads(data["stuck"]),
            granted=tuple(_stored(data, "granted", [])),
            end=End.from_json(end) if end else None,
            rewinds=data.get("rewinds", 0),
            deadline_rewind=data.get("deadline_rewind", 0),
            retries=tuple(map(Retry.from_json, _stored(data, "retries", []))),
            rewound=Rewound.from_json(json.loads(data["rewound"])) if "rewound" in data else None,
            collects=data.get("collects", False),
            adopted=_stored(data, "adopted", {}),
            removing=data.get("removing", False),
            has_payloads=data.get("payloads", False),
        )


def execution_id_of(incarnation: str, generation: int, rewinds: int) -> str:
    return f"{incarnation}-{generation}{rewind_suffix_of(rewinds)}"


def rewind_suffix_of(rewinds: int) -> str:
    return f".{rewinds}" if rewinds else ""


def _json_if_any(value: object) -> str | None:
    """Return the JSON of a field that most headers do not have, or None if it is empty."""
    return json.dumps(value) if value else None


def _stored(data: Mapping[str, Any], field: str, default: Any) -> Any:
    """Return the JSON of a field that most headers do not have."""
    return json.loads(data[field]) if field in data else default


def _in_file_name(id_: str) -> str:
    """Return an id with percent-encoding for all characters that some systems do not allow in file names."""
    return OUTSIDE_FILE_NAMES.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), id_)


def _pending(
    execution_id: str, stored: Mapping[str, Sequence[Any]], children: Mapping[str, str], errors: Mapping[str, str]
) -> dict[str, Wait]:
    return {
        path: Wait(execution_id, path, attempt, signature, scheduled_at, children.get(path, ""), errors.get(path, ""))
        for path, (signature, attempt, scheduled_at) in stored.items()
    }


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
    what: list[Any] = [arguments, call_without_leases(on_complete).to_record() if on_complete else None]
    what += [*([dict(labels)] if labels else []), *([] if timeout_seconds is None else [timeout_seconds])]
    digest = name_of(sorted_json(without_leases(what)))
    return FlowHeader(address, function, arguments, digest, incarnation, on_complete, parent, labels=labels)
