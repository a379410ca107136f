"""The header of a flow's mailbox: what the flow is, the end of its log, what it waits for, how it ended."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from shared.core.rules.calls import Call
from shared.core.rules.effects import name_of
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.ends import End, end_from_json, end_to_json
from shared.flows.rules.entries import Entry, from_text, to_text
from shared.flows.rules.messages import Place

STATES = ("running", "stuck", "completed", "failed", "cancelled")
ENDED_STATES = STATES[2:]


@dataclass(frozen=True, slots=True)
class Pending:
    """What a flow waits for, as its last commit left it. `asked_at` is the time of the turn that asked for it."""

    signature: str
    attempt: int = 1
    asked_at: str = ""

    def to_json(self) -> list[Any]:
        """Return it as the header holds it."""
        return [self.signature, self.attempt, self.asked_at]


@dataclass(frozen=True, slots=True)
class ParentFlow:
    """The flow that waits for this one, and where; `depth` counts the flows around this one."""

    base: str
    function: str
    place: Place
    depth: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return it as the header holds it."""
        return {"base": self.base, "function": self.function, "place": self.place.to_json(), "depth": self.depth}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Undo `to_json`."""
        return cls(value["base"], value["function"], Place.from_json(value["place"]), value["depth"])


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where the log lies: its last entries in the header, those before in chunks, of which the first `held` count."""

    tail: tuple[Entry, ...] = ()
    chunks: int = 0
    held: int = 0
    held_bytes: int = 0

    @property
    def told(self) -> int:
        """Return how many entries the log has."""
        return self.held + len(self.tail)


@dataclass(frozen=True, slots=True)
class FlowHeader:
    """A flow as its last turn left it. `begun`: its code has been started in this generation.

    `digest` is of what it was started with: a repeat of the start is known by it. `leases` are held, by the paths of
    their locks. `written_by` is the revision of the code that brought it here. `stuck` says why it cannot go on.
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
    log: LogPlace = LogPlace()
    pending: Mapping[str, Pending] = field(default_factory=dict)
    leases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    patches: Mapping[str, int] = field(default_factory=dict)
    written_by: int = 0
    progress: Any = None
    stuck: Mapping[str, str] | None = None
    end: End | None = None

    @property
    def life(self) -> str:
        """Return the incarnation and the generation: what everything that the flow asks for carries."""
        return f"{self.incarnation}-{self.generation}"

    @property
    def state(self) -> str:
        """Return one of `STATES`."""
        return self.end.state if self.end else "stuck" if self.stuck else "running"

    @property
    def known(self) -> int:
        """Return how many positions the commits until now hold."""
        return 1 + self.log.told if self.begun else 0

    @property
    def depth(self) -> int:
        """Return how many flows are around this one."""
        return self.parent.depth if self.parent else 0

    def ended(self, end: End) -> Self:
        """Return the flow with its end."""
        return replace(self, end=end, pending={}, leases={}, stuck=None)

    def to_record(self) -> dict[str, Any]:
        """Return the fields of the header's record, besides the mailbox's own; what the user gave is text."""
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
            "tail": to_text(self.log.tail),
            "chunks": self.log.chunks,
            "held": self.log.held,
            "held_bytes": self.log.held_bytes,
            "pending": json.dumps({path: each.to_json() for path, each in self.pending.items()}),
            "leases": json.dumps(self.leases),
            "patches": json.dumps(self.patches),
            "written_by": self.written_by,
            "progress": json.dumps(self.progress),
            "stuck": json.dumps(self.stuck),
            "end": json.dumps(end_to_json(self.end)),
        }

    @classmethod
    def from_record(cls, address: FlowAddress, data: Mapping[str, Any]) -> Self:
        """Undo `to_record`."""
        parent = data["parent"]
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
            log=LogPlace(from_text(data["tail"]), data["chunks"], data["held"], data["held_bytes"]),
            pending={path: Pending(*each) for path, each in json.loads(data["pending"]).items()},
            leases=json.loads(data["leases"]),
            patches=json.loads(data["patches"]),
            written_by=data["written_by"],
            progress=json.loads(data["progress"]),
            stuck=json.loads(data["stuck"]),
            end=end_from_json(json.loads(data["end"])),
        )


def new_header(
    address: FlowAddress,
    function: str,
    arguments: Mapping[str, Any],
    incarnation: str,
    on_complete: Call | None = None,
    parent: ParentFlow | None = None,
) -> FlowHeader:
    """Return the header of a flow that nobody has begun."""
    asked = json.dumps([arguments, on_complete.to_record() if on_complete else None], sort_keys=True)
    return FlowHeader(address, function, arguments, name_of(asked), incarnation, on_complete, parent)
