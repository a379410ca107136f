"""Durable objects, for a user's own functions.

    counter = objects("Counter", "a")
    placeholder = counter.add(amount=5)       # returns at once; applied at once if nobody waits and the class is here
    placeholder.result()

An object's calls run one at a time, in order, each taking effect exactly once. Inside a method there is only the state
and what the kit sends with the call: `objects(…).method()`, `send(task.call())`, `later(seconds).method()`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import check_deployed, deployed
from shared.core.rules.calls import CALL_OBJECT, Call
from shared.core.rules.effects import Json
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadObjectCall, NotReady
from shared.kit import flow_hooks
from shared.kit.idempotency import idempotency_key
from shared.kit.object_classes import local_classes
from shared.objects.operations import calls
from shared.objects.operations import objects as operations
from shared.objects.operations.calls import Placeholder as CallPlace
from shared.objects.operations.calls import Timing
from shared.objects.rules.addresses import ObjectAddress, check_call_id
from shared.objects.rules.failures import call_payload
from shared.objects.rules.messages import (
    CallRecord,
    Message,
    call_on_result,
    continuation_message,
    deletion,
    method_call,
)
from shared.objects.rules.methods import Post
from shared.objects.rules.outcomes import CallOutcome
from shared.objects.rules.sending import Reference, is_running, running_object, send_post, send_task


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How a call is made: its id, what follows on it, and when it may run."""

    id: str | None = None
    then: tuple[Call, ...] = ()
    timing: Timing = calls.NOW


class Placeholder:
    """The result of a call, which may not be there yet."""

    def __init__(self, place: CallPlace, call: CallRecord) -> None:
        self._place = place
        self._call = call

    @property
    def id(self) -> str:
        """Return the call's id."""
        return self._place.id

    def ready(self) -> bool:
        """Return whether the outcome is there: a result or an error."""
        return self._outcome() is not None

    def result(self) -> Any:
        """Return the result. Raises the call's `Problem`, or `NotReady`."""
        outcome = self._outcome()
        if outcome is None:
            raise NotReady(f"The call {self.id} has no result yet.")
        if problem := outcome.problem():
            raise problem
        return Object(outcome.object) if outcome.object else outcome.result

    def wait(self, seconds: float) -> bool:
        """Wait for the outcome, for so many seconds at most; return whether it is there. It reads once a second."""
        if self._call.outcome is None:
            self._call = calls.wait_for_call(runtime.ports(), self._place, seconds)
        return self._call.outcome is not None

    def then(self, call: Call) -> None:
        """Run a task with the `Outcome`: now if it is there, else as soon as it is; several in the order set."""
        check_deployed(then=call)
        address = self._place.address
        id_ = idempotency_key("then", address.base, self.id, call.function, call.task) or runtime.ports().store.new_id()
        message = continuation_message(self.id, call)
        function_of = local_classes.get().function_of
        calls.post_call(runtime.ports(), function_of, CallPlace(address, id_), message)

    @property
    def object(self) -> "Methods":
        """Return the object that the result is: calls of its methods wait until it is there, and keep their order."""
        return Methods(self._place.address, CallOptions(), on_result_of=self.id)

    def _outcome(self) -> CallOutcome | None:
        if self._call.outcome is None:
            self._call = calls.get_call(runtime.ports(), self._place)
        return self._call.outcome


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an object, to be called with named arguments, which travel as JSON."""

    address: ObjectAddress
    name: str
    options: CallOptions
    on_result_of: str | None = None

    def __call__(self, **arguments: Json) -> Any:
        """Call the method. Returns a `Placeholder`; None inside a method, where the call is sent with that one; in a
        flow's code the command, to be yielded.

        Raises `BadObjectCall` for a class that no function has, `OtherBody` for an id in use with another call.
        """
        if is_running():
            return self._send(arguments)
        if command := flow_hooks.object_command(self.address, self.name, arguments):
            return self._in_flow(command)
        local = local_classes.get()
        local.function_of(self.address.class_name)
        place = CallPlace(self.address, self._id(arguments))
        if self.address.class_name in local.classes and self.on_result_of is None and self.options.timing == calls.NOW:
            if (code := local.classes[self.address.class_name].methods.get(self.name)) and code.reads:
                message = self._message(arguments)
                return Placeholder(place, CallRecord(message, local.read(self.address, message)))
            return Placeholder(place, calls.call_at_once(runtime.ports(), local.code, place, self._message(arguments)))
        posted = calls.post_call(
            runtime.ports(), local.function_of, place, self._message(arguments), self.options.timing
        )
        return Placeholder(place, posted)

    def call(self, **arguments: Json) -> Call:
        """Return the call as a task: a continuation of a semaphore, a batch or another call."""
        payload = call_payload(self.address, self.name, arguments)
        function = local_classes.get().function_of(self.address.class_name)
        return Call(function, CALL_OBJECT, payload).checked(self.name)

    def _message(self, arguments: Mapping[str, Json], *, receipt: bool = True) -> Message:
        if self.on_result_of is not None:
            return call_on_result(self.on_result_of, self.name, arguments, then=self.options.then, receipt=receipt)
        return method_call(self.name, arguments, then=self.options.then, receipt=receipt)

    def _send(self, arguments: Mapping[str, Json]) -> None:
        if self.options.id or self.options.timing.not_after_seconds is not None or self.on_result_of is not None:
            raise BadObjectCall("A call from inside a method has no id of its own, no time limit and no placeholder.")
        local_classes.get().function_of(self.address.class_name)
        delay = self.options.timing.delay_seconds
        send_post(Post(self.address, self._message(arguments, receipt=False), delay))

    def _in_flow(self, command: Any) -> Any:
        if self.options != CallOptions() or self.on_result_of is not None:
            raise BadObjectCall("A flow yields the plain call of a method: it has its result, and no placeholder.")
        return command

    def _id(self, arguments: Mapping[str, Json]) -> str:
        key = idempotency_key("call", self.address.base, self.name, self.on_result_of, sorted(arguments.items()))
        return self.options.id or key or runtime.ports().store.new_id()


class Methods:
    """Something whose attributes are methods to call."""

    def __init__(self, address: ObjectAddress, options: CallOptions, on_result_of: str | None = None) -> None:
        self._address = address
        self._options = options
        self._on_result_of = on_result_of

    def __getattr__(self, name: str) -> Method:
        if name.startswith("_"):
            raise AttributeError(name)
        return Method(self._address, name, self._options, self._on_result_of)


class Object(Reference, Methods):
    """An object, which exists once it has been called. Its methods are called by their names."""

    def __init__(self, address: ObjectAddress, options: CallOptions | None = None) -> None:
        Methods.__init__(self, address, options or CallOptions())

    def with_(
        self,
        *,
        id: str | None = None,  # noqa: A002  the word of the HTTP API
        then: Call | None = None,
        delay_seconds: float = 0,
        not_after_seconds: float | None = None,
    ) -> Methods:
        """Return the object's methods, to be called in another way.

        `id` makes a repeat recognisable; `then` is a task that gets the `Outcome`; the call runs after `delay_seconds`,
        and has an error as its outcome if its turn comes later than `not_after_seconds` from now.
        """
        limit = None if not_after_seconds is None else _checked_seconds("not_after_seconds", not_after_seconds)
        timing = Timing(_checked_seconds("delay_seconds", delay_seconds), limit)
        follow = () if then is None else (deployed(then, "then"),)
        return Methods(self._address, CallOptions(id and check_call_id(id), follow, timing))

    def delete(self) -> None:
        """Delete the object, in its turn: what was called before is applied before."""
        local = local_classes.get()
        if is_running():
            local.function_of(self._address.class_name)
            send_post(Post(self._address, deletion(receipt=False)))
            return
        id_ = idempotency_key("delete", self._address.base)
        operations.delete(runtime.ports(), local.function_of, self._address, id_)


def objects(class_name: str, key: str) -> Object:
    """Return an object by its class and its key. Raises `BadObjectCall` or `BadKey`."""
    return Object(ObjectAddress.checked(class_name, key))


def later(seconds: float) -> Methods:
    """Return the own methods of the object whose method runs: what is called on them runs so many seconds later."""
    timing = Timing(delay_seconds=_checked_seconds("seconds", seconds))
    return Methods(running_object("later"), CallOptions(timing=timing))


def send(call: Call) -> None:
    """Send a task from inside a method: it runs if and only if the method's call takes effect."""
    send_task(deployed(call, "send"))


def _checked_seconds(name: str, seconds: float) -> float:
    if not 0 <= seconds <= LIMITS.call_later_seconds_max:
        raise BadObjectCall(f"`{name}` is 0 to {LIMITS.call_later_seconds_max:,}.", field=name)
    return seconds


def call_object(class_name: str, key: str, method: str, arguments: dict[str, Any]) -> None:
    """Call a method of an object: the task that stands for it in a continuation."""
    Method(ObjectAddress.checked(class_name, key), method, CallOptions())(**arguments)
