"""The parts of answers that flows and objects share: the address of an object, and how a call or a step ended."""

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


def outcome_members(outcome: CallOutcome) -> dict[str, Any]:
    """Return the one of the members `result`, `object` and `error` that an answer with this outcome has."""
    if outcome.error is not None:
        return {"error": OutcomeProblemShown(**outcome.error)}
    return {"object": ObjectAddressShown.of(outcome.object)} if outcome.object else {"result": outcome.result}
