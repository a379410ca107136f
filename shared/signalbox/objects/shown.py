"""The answers about objects and their calls."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.surface.field_rules import Described, Range
from signalbox.core.surface.shown import ABSENT
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.shown import ObjectAddressShown, OutcomeProblemShown, outcome_members
from signalbox.objects.limits import LIMITS
from signalbox.objects.model import ObjectStatus
from signalbox.payloads.model import shown


@dataclass(frozen=True, slots=True)
class ObjectsShown:
    """One page; without `next_page_token` it is the last."""

    objects: Annotated[tuple[ObjectAddressShown, ...], Described({"maxItems": LIMITS.objects_listed_max})]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class ObjectShown(ObjectAddressShown):
    """The status of an object. One that was never called does not exist and has the revision 0."""

    exists: bool

    revision: Annotated[int, Range(0)]
    """Grows with each of its turns."""

    waiting: Annotated[int, Range(0)]
    """The number of messages that wait, including those for later."""

    @classmethod
    def of_status(cls, status: ObjectStatus) -> Self:
        address = status.address
        return cls(address.name, address.key, status.state is not None, status.revision, status.waiting)


@dataclass(frozen=True, slots=True)
class ObjectWithStateShown(ObjectShown):
    """The status of an object with its state."""

    state: Mapping[str, Any] | None
    """The version of its class and its fields; null if the object does not exist.

    A large one is `{"$payload": {"bytes", "sha256"}}`.
    """

    @classmethod
    def of_status(cls, status: ObjectStatus) -> Self:
        address, state = status.address, None if status.state is None else shown(json.loads(status.state))
        return cls(address.name, address.key, status.state is not None, status.revision, status.waiting, state)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDoneShown:
    """The outcome, which is one of `result`, `object` and `error`. A read-only method has no `call`."""

    call: str = ""

    ready: Literal[True] | None = None

    result: Any = ABSENT
    """Any JSON. A large one is `{"$payload": {"bytes", "sha256"}}`."""

    object: ObjectAddressShown | None = None

    error: OutcomeProblemShown | None = None
    """The problem that the method raised."""

    @classmethod
    def of(cls, outcome: CallOutcome, call: str = "") -> Self:
        """Return the outcome of a call by its id, or of a read-only method."""
        own = replace(outcome, result=shown(outcome.result))
        return cls(call=call, ready=True if call else None, **outcome_members(own))


@dataclass(frozen=True, slots=True)
class CallWaitsShown:
    """The call waits for its turn."""

    call: str
    ready: Literal[False]
