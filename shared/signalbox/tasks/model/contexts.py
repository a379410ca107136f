"""The context of a task: its unit, lease or other subject, parsed once from the JSON that travels with its payload.

    member                 parsed        a task receives
    ---------------------  ------------  ---------------
    group                  OfGroup       Unit
    step                   OfStep        -
    unit                   OfUnit        Unit
    lease, with a unit     OfUnit        Unit
    lease                  OfLease       Lease
    section                OfSection     SectionRun
    batch                  OfCompletion  Completion
    outcome                OfOutcome     Outcome
    scheduled              Plain         -
    reason, event, none    Plain         -

The first of these members that a context has decides. No other code reads a context by its members' names, except for a
flow, which parses its step.
"""

import json
from collections.abc import Mapping
from dataclasses import field, fields
from datetime import datetime
from typing import Any, TypeVar

from signalbox.batches.model.groups import Group
from signalbox.batches.model.units import Completion, PlacedUnit, Unit
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.kit_names import BACKFILL, SCHEDULED
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import BadTaskEnvelope
from signalbox.critical_sections import model as critical_sections
from signalbox.critical_sections.model import Grant, SectionRun
from signalbox.mailboxes.model.outcomes import Outcome
from signalbox.payloads.model import NAMED
from signalbox.semaphores.model import leases
from signalbox.semaphores.model.leases import Granted, Lease

TaskSubject = Lease | SectionRun | Unit | Completion | Outcome
"""The subject that a task receives if it has a parameter of that type."""

SUBJECTS: tuple[type[TaskSubject], ...] = (Unit, Lease, SectionRun, Completion, Outcome)

Kind = TypeVar("Kind", Lease, SectionRun, Unit, Completion, Outcome)


@dataclass(frozen=True, slots=True)
class OfLease:
    """The task is the continuation of a wait, and runs under its lease."""

    members: Members
    granted: Granted


@dataclass(frozen=True, slots=True)
class OfSection:
    """The task is a run of a critical section."""

    members: Members
    grant: Grant


@dataclass(frozen=True, slots=True)
class OfUnit:
    """The task is a unit of a batch."""

    members: Members
    unit: PlacedUnit
    granted: Granted | None = None
    """The lease under which the unit runs, if its batch names a semaphore."""

    semaphore: str = ""
    """The semaphore for whose permit the unit waits."""

    rate: str = ""
    """The rate for whose permits the unit waits. The unit takes `weight` permits."""

    weight: Any = 1
    has_permits: bool = False
    """Whether the rate has granted the unit's permits."""

    wait_ended: str = ""
    """How the unit's wait ended without a grant: ``cancelled`` or ``deleted``."""

    record: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The JSON that was parsed, for the unit's wait, whose grant runs it."""

    @property
    def subject(self) -> Unit:
        """The unit as its task receives it."""
        return Unit(self.unit.batch, self.unit.index, self.unit.attempt)

    @property
    def limiter(self) -> str:
        """The unit's rate or semaphore, as messages name it."""
        return f"the rate {self.rate!r}" if self.rate else f"the semaphore {self.semaphore!r}"


@dataclass(frozen=True, slots=True)
class OfGroup:
    """The task is a group of units. `payloads` are the units' payloads, or None if only the page has them."""

    members: Members
    group: Group
    payloads: list[Any] | None = None

    rate: str = ""
    """The rate for whose permits the group waits. The group takes the `weight` of all its units, at most the burst."""

    weight: Any = 1
    has_permits: bool = False
    """Whether the rate has granted the group's permits."""

    wait_ended: str = ""
    """How the group's wait ended without a grant: ``cancelled``."""


@dataclass(frozen=True, slots=True)
class OfStep:
    """The task is a step of a flow, which parses `step`."""

    members: Members
    step: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OfCompletion:
    """The task follows a batch that has ended. `completion` is the JSON of its subject."""

    members: Members
    completion: Mapping[str, Any]

    @property
    def subject(self) -> Completion:
        """The batch that has ended. Raises `BadTaskEnvelope`."""
        return _parse(Completion, self.completion, "batch")


@dataclass(frozen=True, slots=True)
class OfOutcome:
    """The task follows a call of an object, or a flow, that has ended. `outcome` is the JSON of its subject."""

    members: Members
    outcome: Mapping[str, Any]

    @property
    def subject(self) -> Outcome:
        """The call that has ended. Raises `BadTaskEnvelope`."""
        return _parse(Outcome, self.outcome, "outcome")


@dataclass(frozen=True, slots=True)
class Plain:
    """The task runs for no lease, section, unit, group, step, batch or call.

    `reason` is the reason why the wait of an `on_timeout` task ended. `is_event`: the task is an event, which only
    Firestore delivers. `scheduled_at` is the planned time of the schedule that has enqueued the task. `is_backfill`: a
    caller has enqueued it in place of the schedule, so it is not left out.
    """

    members: Members = field(default_factory=dict)
    reason: str = ""
    is_event: bool = False
    scheduled_at: datetime | None = None
    is_backfill: bool = False


Context = OfLease | OfSection | OfUnit | OfGroup | OfStep | OfCompletion | OfOutcome | Plain


def context_of(members: Members) -> Context:
    """Parse a task's context. Raises `BadTaskEnvelope` for a lease, a unit or a run that lacks a part."""
    match members:
        case {"group": group}:
            return _of_group(members, group)
        case {"step": step}:
            return OfStep(members, step)
        case {"lease": {"unit": str(text)} as lease} if text:
            return _of_unit(members, json.loads(text), Granted.from_context(lease))
        case {"unit": unit, "lease": lease}:
            return _of_unit(members, unit, Granted.from_context(lease))
        case {"unit": unit}:
            return _of_unit(members, unit)
        case {"lease": lease}:
            _parse(Lease, lease, "lease")
            return OfLease(members, Granted.from_context(lease))
        case {"section": section}:
            _parse(SectionRun, section, "section")
            return OfSection(members, Grant.from_context(section))
        case {"batch": completion}:
            return OfCompletion(members, completion)
        case {"outcome": outcome}:
            return OfOutcome(members, outcome)
    planned = _planned(members.get(SCHEDULED)), bool(members.get(BACKFILL))
    return Plain(members, str(members.get("reason", "")), "event" in members, *planned)


def _of_group(members: Members, group: Mapping[str, Any]) -> OfGroup:
    return OfGroup(
        members,
        Group.from_record(group),
        group.get("payloads"),
        rate=group.get("rate", ""),
        weight=group.get("weight", 1),
        has_permits=group.get("granted", False),
        wait_ended=group.get("wait_ended", ""),
    )


def _planned(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def _of_unit(members: Members, unit: Mapping[str, Any], granted: Granted | None = None) -> OfUnit:
    _parse(Unit, unit, "unit")
    return OfUnit(
        members,
        PlacedUnit.from_record(unit),
        granted,
        semaphore=unit.get("semaphore", ""),
        rate=unit.get("rate", ""),
        weight=unit.get("weight", 1),
        has_permits=unit.get("granted", False),
        wait_ended=unit.get("wait_ended", ""),
        record=unit,
    )


def _parse(kind: type[Kind], value: Any, name: str) -> Kind:
    known = {part.name for part in fields(kind)}
    try:
        return kind(**{part: _part(part, item) for part, item in value.items() if part in known})
    except (AttributeError, TypeError, ValueError) as error:
        raise BadTaskEnvelope(f"A task's {name} has {', '.join(sorted(known))}.", field=name) from error


def _part(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if name == "ends_at" else value


def parsed(delivered: Delivered[Members]) -> Delivered[Context]:
    """Return a delivery with its context parsed. Raises as `context_of`.

    A delivery that continues another task has that task's operation. The earlier tasks count as deliveries.
    """
    context = context_of(delivered.context)
    if isinstance(context, OfSection) and context.grant.resumes:
        return _continued(delivered, context.grant.resumes, 1).within(context)
    granted = context.granted if isinstance(context, OfLease | OfUnit) else None
    if granted is None:
        return delivered.within(context)
    return _continued(delivered, granted.resumes or delivered.operation, granted.resumed).within(context)


def _continued(delivered: Delivered[Members], operation: str, earlier: int) -> Delivered[Members]:
    """Return the delivery as one of `operation`, which has had earlier tasks."""
    executions, retries = delivered.executions + earlier, delivered.retries + earlier
    return replace(delivered, operation=operation, executions=executions, retries=retries)


def stable_names(subject: object) -> Mapping[Any, str]:
    """Return the values that identify a subject's lease, each mapped to a name that is the same in every delivery.

    Subjects without a lease have none.
    """
    match subject:
        case Lease():
            return leases.stable_names(subject)
        case SectionRun():
            return critical_sections.stable_names(subject)
    return {}


def of_unit(unit: PlacedUnit, group: OfGroup) -> OfUnit:
    """Return the context of one unit of a group."""
    record = unit.to_record() | named_members(group)
    return OfUnit({"unit": record}, unit, record=record)


def is_named(context: Context) -> bool:
    """Return whether the arguments of a task are as records contain them: large ones are names of payloads."""
    match context:
        case OfStep():
            return True
        case OfUnit(record=record):
            return NAMED in record
        case OfGroup(members={"group": group}):
            return NAMED in group
    return NAMED in context.members


def named_members(context: Context) -> dict[str, bool]:
    """Return the members of a unit or a group in a record or a task by which its arguments are named (`is_named`)."""
    return {NAMED: True} if is_named(context) else {}


def is_of_completion(members: Members) -> bool:
    """Return whether a task follows a batch that has ended, without parsing the batch."""
    return "batch" in members
