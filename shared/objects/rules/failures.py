"""A call that was given up, as it stands among the failures: the task that calls its method, to be run again."""

from collections.abc import Mapping
from typing import Any

from shared.core.rules.calls import CALL_OBJECT, Call
from shared.core.rules.effects import name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import GaveUp
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.messages import Message
from shared.tasks.rules.errors import ErrorText
from shared.tasks.rules.failures import Failure


def failure_of(function: str, address: ObjectAddress, id_: str, message: Message, error: Mapping[str, Any]) -> Failure:
    """Return the failure of a call of a method that `function` has."""
    call = Call(function, CALL_OBJECT, call_payload(address, message.body["method"], message.body["arguments"]))
    failure_id = name_of("call given up", address.base, id_)
    text = ErrorText("the call ended its process, or a transient error, each time")
    return Failure(failure_id, call, {}, error["type"], error["detail"], text, LIMITS.call_attempts_max, "")


def call_payload(address: ObjectAddress, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of the kit's task that calls a method."""
    place = {"class_name": address.class_name, "key": address.key}
    return {**place, "method": method, "arguments": dict(arguments)}


def is_call_given_up(failure: Mapping[str, Any]) -> bool:
    """Return whether the record of a failure is of a call that was given up."""
    return bool(failure["call"]["task"] == CALL_OBJECT and failure["problem"] == GaveUp.slug())
