"""The bodies of requests on flows, checked when they are made. A wrong one raises `BadFlow` with the field."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from signalbox.core.calls import Call
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Checked, Described, RequestBody, check_fields, parsed
from signalbox.core.surface.request_fields import RequestFields
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.deadlines import checked_timeout
from signalbox.flows.model.addresses import FLOW_NAME
from signalbox.flows.model.headers import STATES
from signalbox.flows.model.labels import LABEL, LABELS, checked_labels
from signalbox.flows.problems import BadFlow

FlowName = Annotated[str, Described({"pattern": f"^{FLOW_NAME.pattern}$", "examples": ["checkout"]})]

RunId = Annotated[
    str,
    Described(
        {
            "minLength": 1,
            "maxLength": LIMITS.flow_id_bytes_max,
            "description": f"Names the run among those of its flow; a key of 1 to {LIMITS.flow_id_bytes_max} bytes.",
        }
    ),
]

SAME, REPLACE_ENDED, REPLACE, REFUSE = "same", "replace_ended", "replace", "refuse"
IfExists = Literal["same", "replace_ended", "replace", "refuse"]
IF_EXISTS = (SAME, REPLACE_ENDED, REPLACE, REFUSE)
"""What a message with a start does if there is a run under the id."""

QueryName = Annotated[str, Described({"pattern": f"^{FLOW_NAME.pattern}$"})]
UpdateId = Annotated[str, Described({"minLength": 1, "maxLength": LIMITS.flow_update_id_bytes_max})]
EventName = Annotated[str, Described({"minLength": 1, "maxLength": LIMITS.flow_event_name_bytes_max})]


def _checked_arguments(arguments: Any) -> Mapping[str, Any]:
    if not isinstance(arguments, dict):
        raise BadFlow("`arguments` must be an object.", field="arguments")
    return arguments


def _text(name: str, **schema: Any) -> Checked:
    """Return the rule of a string with keywords of its schema."""
    return Checked(lambda value: RequestFields({name: value}, BadFlow).text(name), schema)


ARGUMENTS = Checked(_checked_arguments, {"type": "object"})

TIMEOUT = Checked(checked_timeout, {"exclusiveMinimum": 0, "maximum": LIMITS.flow_timeout_seconds_max})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(RequestBody):
    """The arguments and the options of a new run."""

    problem = BadFlow

    arguments: Annotated[Mapping[str, Any] | None, ARGUMENTS] = None
    """The flow's arguments, by name. A fork without them has those of its run."""

    on_complete: Call | None = None
    """A task that gets the `Outcome`, whatever it is, once the new run has ended."""

    labels: Annotated[Mapping[str, str] | None, Checked(checked_labels, LABELS)] = None
    """Labels of the new run, by which lists and counts find it. A fork without them has those of its run."""

    timeout_seconds: Annotated[float | None, TIMEOUT] = None
    """After this time a run that has not ended is cancelled. `continue_as_new` does not extend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStartRequest(RunOptions):
    """The arguments and the options of a run. Without a body there are no arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest(RunOptions):
    """A new run from the first entries of another run's log."""

    id: str
    """The id of the new run."""

    from_entry: Annotated[int, Described({"minimum": 0})]
    """The number of entries that it takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRetryRequest(RequestBody):
    """A retry in place. Without a body, the failed commands of the last `await` run again, and all else stays."""

    problem = BadFlow

    from_entry: Annotated[int | None, Described({"minimum": 0})] = None
    """The number of entries of the log that stay. 0 begins the generation again."""

    family: bool = False
    """Of a sub-flow whose parent has received the failure: retry the highest run that has failed because of it."""

    timeout_seconds: Annotated[float | None, TIMEOUT] = None
    """A new time-out, counted from the retry. A run whose deadline is over needs one."""

    reason: str = ""
    """The status shows the first 200 letters."""

    dry_run: bool = False
    """Only answer what would be dropped and run again, or why not."""


@dataclass(frozen=True, slots=True)
class FlowsActionRequest(RequestBody):
    """An action on all runs that `state`, `label` and `prefix` choose; at least one of them is required."""

    problem = BadFlow

    action: Annotated[str, _text("action", enum=["cancel", "resume", "retry", "terminate", "delete"])]

    state: Annotated[str | None, _text("state", enum=list(STATES))] = None

    label: Annotated[str | None, _text("label", pattern=LABEL.pattern)] = None
    """One label of the runs, as NAME:VALUE. Unlike a list, an action accepts neither several labels nor times."""

    prefix: str | None = None
    """The beginning of the ids of the runs."""

    reason: str = ""
    """The reason of a cancel, a retry or a termination. A long one is cut."""

    dry_run: bool = False
    """Return only the number of the runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartIfAbsent(FlowStartRequest):
    """The run that is started if no run has the id."""

    @classmethod
    def from_request(cls, body: Any, field: str = "start", **absent: Any) -> Self:
        """Parse the member of a body. Raises `BadFlow`."""
        if not isinstance(body, dict):
            raise BadFlow(f"`{field}` must be an object.", field=field)
        return parsed(cls, body, cls.problem, absent)


def checked_if_exists(value: Any) -> str:
    """Return the choice of a message's sender. Raises `BadFlow`."""
    if value not in IF_EXISTS:
        raise BadFlow(f"`if_exists` must be one of {', '.join(IF_EXISTS)}.", field="if_exists")
    return str(value)


def check_choice(start: object, if_exists: str) -> None:
    """Raise `BadFlow` for a choice of a message that starts no run: it would have no effect."""
    if start is None and if_exists != SAME:
        detail = "`if_exists` is a choice of a message with `start`: add `start`, or leave out `if_exists`."
        raise BadFlow(detail, field="if_exists")


@dataclass(frozen=True, slots=True)
class FlowEventRequest(RequestBody):
    """An event. Without a body its value is null."""

    problem = BadFlow

    value: Any = None
    """Any JSON."""

    start: StartIfAbsent | None = None
    """Start a run with these arguments and options if there is none, in the commit of the message."""

    if_exists: Annotated[str, Checked(checked_if_exists, {"enum": [*IF_EXISTS]})] = SAME
    """What happens if there is a run, with `start`. `same`: it receives the message. `replace_ended`: the same, but an
    ended run is removed, and another one is started. `replace`: it is ended at once, removed, and another one is
    started. `refuse`: 409. Without `start`, any other choice than `same` is refused."""

    def __post_init__(self) -> None:
        """Raise `BadFlow` for a wrong field, or a choice without `start`."""
        check_fields(self, self.problem)
        check_choice(self.start, self.if_exists)


@dataclass(frozen=True, slots=True)
class FlowUpdateRequest(FlowEventRequest):
    """An update. Without a body its value is null."""


@dataclass(frozen=True, slots=True)
class ReasonRequest(RequestBody):
    """The reason of an action on a run. Without a body there is none."""

    problem = BadFlow

    reason: str = ""
    """A long one is cut."""


@dataclass(frozen=True, slots=True)
class EmptyForm:
    """The form of a page with a button only. It has no fields."""
