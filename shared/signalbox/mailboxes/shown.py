"""The parts of answers that flows and objects share: the address of an object, and how a call or a step ended."""

from collections.abc import Mapping
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome


@dataclass(frozen=True, slots=True)
class ObjectAddressShown:
    """An object: its class and its key."""

    class_: str
    key: str

    @classmethod
    def of(cls, address: ObjectAddress) -> Self:
        return cls(address.name, address.key)


@dataclass(frozen=True, slots=True)
class OutcomeProblemShown:
    """A problem as an outcome has it; its `type` is the last part of a problem's."""

    type: str
    title: str
    status: int
    detail: str

    field: str | None = None
    """The part of the call that is wrong."""

    fields: Mapping[str, Any] | None = None
    """The attributes of a user's class of problems, as JSON."""

    @classmethod
    def of(cls, error: Mapping[str, Any]) -> Self:
        members = ("type", "title", "status", "detail", "field", "fields")
        return cls(**{name: error[name] for name in members if name in error})


def outcome_members(outcome: CallOutcome) -> dict[str, Any]:
    """Return the one of the members `result`, `object` and `error` that an answer with this outcome has."""
    if outcome.error is not None:
        return {"error": OutcomeProblemShown.of(outcome.error)}
    return {"object": ObjectAddressShown.of(outcome.object)} if outcome.object else {"result": outcome.result}
