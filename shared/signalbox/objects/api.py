"""Durable objects, for users' functions.

    counter = objects("Counter", "a")
    placeholder = counter.add(amount=5)       # returns at once; applied at once if nothing waits and the class is here
    placeholder.result()

An object's calls run one at a time, in order, each taking effect exactly once. Inside a method there is only the state
and the kit's own calls with it: `objects(…).method()`, `send(task.call())`, `later(seconds).method()`.
"""

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from typing import Any, Concatenate, Generic, Never, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from signalbox.adapters import runtime
from signalbox.adapters.deployed_catalogue import catalogue_settings, check_deployed, deployed
from signalbox.adapters.settings import settings
from signalbox.core import flow_hooks
from signalbox.core.calls import Call, check_payload
from signalbox.core.codec.annotations import encode_unannotated
from signalbox.core.codec.json_forms import JSON, Codec, WrongValue, decode
from signalbox.core.dropped_calls import warn_if_dropped
from signalbox.core.effects import Json
from signalbox.core.idempotency_keys import content_of, id_of_call
from signalbox.core.kit_names import CALL_OBJECT
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import value_bytes_max
from signalbox.core.problems import BadArgument, Problem
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.objects import service
from signalbox.objects.machine.classes import ObjectClass, Reference, is_running, running_object, send_post, send_task
from signalbox.objects.machine.deadly_calls import call_payload
from signalbox.objects.model import (
    AT_ONCE,
    CALL_IDS,
    Applied,
    CallPlace,
    CallRecord,
    Message,
    Post,
    Timing,
    call_on_result,
    check_chosen_id,
    continuation_message,
    deletion,
    method_call,
    object_address,
)
from signalbox.objects.problems import BadObjectCall, NotReady
from signalbox.objects.service import Code
from signalbox.payloads.model import opened
from signalbox.payloads.service import opening_those_of
from signalbox.tasks.requests.signatures import Signature

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")

# --- classes ---

_NO_PORTS = BadObjectCall(
    "A method of an object has only its state and what it sends. Read and write in a task or a flow instead."
)


@dataclass(frozen=True, slots=True)
class LocalClasses:
    """The classes of a function by name: this process has their code."""

    function: str
    classes: Mapping[str, ObjectClass]

    @property
    def code(self) -> Code:
        """The code as the service runs it."""
        code = Code(self.function, self.apply, self.function_of, self._check)
        return replace(code, knows=self._knows) if settings().in_cloud else code

    def function_of(self, class_name: str) -> str:
        """Return the function that has a class. Raises `BadObjectCall` if none has."""
        if class_name in self.classes:
            return self.function
        functions = catalogue_settings(settings(), lambda known: class_name in known.object_classes).object_classes
        if class_name not in functions:
            names = ", ".join(sorted({*functions, *self.classes})) or "none"
            raise BadObjectCall(f"The catalogue has no class {class_name!r}. Known: {names}.", field="class")
        return functions[class_name]

    def read(self, address: ObjectAddress, message: Message) -> CallOutcome:
        """Return the outcome of a read-only call, computed from the last state. Raises `Unavailable`."""
        return service.read_only(runtime.ports(), self.code, address, message)

    def apply(self, address: ObjectAddress, state: str | None, message: Message, now: datetime) -> Applied:
        """Run a method with its state only: other reads and writes of the kit are refused."""
        with runtime.ports_refused(_NO_PORTS):
            applied = self.classes[address.name].apply(address, state, message, now)
        try:
            if applied.outcome.object:
                self.function_of(applied.outcome.object.name)
        except BadObjectCall as problem:
            return Applied(state, CallOutcome.from_problem(problem))
        return applied

    def _knows(self, address: ObjectAddress, message: Message) -> bool:
        """Return whether the class has the method of a call, and the method has the call's parameters."""
        try:
            method = self.classes[address.name].method(message.body["method"])
            method.signature.bind(message.body["arguments"], None)
        except Problem:
            return False
        return True

    def _check(self, address: ObjectAddress, state: str | None) -> None:
        self.classes[address.name].check_state(state)


NO_CLASSES = LocalClasses("", {})
local_classes: ContextVar[LocalClasses] = ContextVar("signalbox.local_classes", default=NO_CLASSES)
"""The classes of the function that handles the request. In tests, one process serves many functions."""


# --- calls ---


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of a call: its id, the tasks that follow it, and its timing."""

    id: str | None = None
    then: tuple[Call, ...] = ()
    timing: Timing = AT_ONCE


class Placeholder:
    """The result of a call, which may not exist yet."""

    def __init__(self, place: CallPlace, call: CallRecord) -> None:
        self._place = place
        self._call = call

    @property
    def id(self) -> str:
        """The call's id."""
        return self._place.id

    def ready(self) -> bool:
        """Return whether the call has an outcome, which is a result or an error."""
        return self._outcome() is not None

    def result(self) -> Any:
        """Return the result. Raises the call's `Problem`, or `NotReady`."""
        outcome = self._outcome()
        if outcome is None:
            raise NotReady(f"The call {self.id} has no result yet: wait for it, or continue with a task (`then`).")
        if problem := outcome.problem():
            raise problem
        if outcome.object:
            return Object(outcome.object)
        with opening_those_of(runtime.ports()):
            return opened(outcome.result)

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the outcome; return whether the call has one. It reads once a second."""
        if self._call.outcome is None:
            self._call = service.wait_for_call(runtime.ports(), self._place, seconds)
        return self._call.outcome is not None

    def then(self, call: Call) -> None:
        """Call a task with the `Outcome` as soon as the call has an outcome. Several tasks are called in their order.

        Raises `BadCall`.
        """
        check_deployed(then=call)
        address = self._place.address
        own = id_of_call(CALL_IDS, None, "then", address.base, self.id, content_of(call))
        id_ = own or runtime.ports().store.new_id()
        message = continuation_message(self.id, call)
        function_of = local_classes.get().function_of
        service.post_call(runtime.ports(), function_of, CallPlace(address, id_), message)

    @property
    def object(self) -> "Methods":
        """The object that is the call's result. Calls of its methods wait for the result, and keep their order."""
        return Methods(self._place.address, CallOptions(), on_result_of=self.id)

    def _outcome(self) -> CallOutcome | None:
        if self._call.outcome is None:
            self._call = service.get_call(runtime.ports(), self._place)
        return self._call.outcome


class TypedPlaceholder(Placeholder, Generic[T]):
    """The result of a call whose method is known, so the result has the method's type."""

    def __init__(self, place: CallPlace, call: CallRecord, codec: Codec) -> None:
        super().__init__(place, call)
        self._codec = codec

    def result(self) -> T:
        """Return the result. Raises the call's `Problem`, or `NotReady`."""
        result = super().result()
        if isinstance(result, Object):
            return cast("T", result)
        try:
            typed: T = decode(self._codec, result, "the result", stored=True)
        except WrongValue as error:
            raise BadArgument(f"{error}.") from error
        return typed

    def __await__(self) -> Generator[Any, Any, T]:
        """Raise `BadObjectCall`: only the code of a flow can await a call, which is a command there."""
        raise BadObjectCall("Only the code of a flow can await a call. Elsewhere, use `wait` and `result`.")


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an object. It takes keyword arguments, which are sent as JSON by their own types.

    `result` is the codec of the method's result, or None if only its name is known.
    """

    address: ObjectAddress
    name: str
    options: CallOptions
    on_result_of: str | None = None
    result: Codec | None = None

    def __call__(self, *unnamed: Never, **arguments: Any) -> Any:
        """Call the method; return a `Placeholder`.

        Inside a method the call is sent with the running call, and None is returned. In a flow's code, return the
        command, to be awaited. Raises `BadObjectCall` for a class that no function has, and `OtherBody` for an id that
        is in use with another call. Raises `TypeError` for an argument without a name.
        """
        self._check_named(unnamed)
        return self.made(arguments)

    def made(self, values: Mapping[str, Any]) -> Any:
        """Make the call with these arguments: see `__call__`."""
        arguments = _written(values)
        if is_running():
            return self._send(arguments)
        if command := flow_hooks.object_command(self.address, self.name, arguments, self.result or JSON):
            return self._in_flow(command)
        runtime.check_permitted()  # a thread that does not know its request does not know its classes
        local = local_classes.get()
        local.function_of(self.address.name)
        is_local = self.address.name in local.classes and self.on_result_of is None and self.options.timing == AT_ONCE
        if is_local and (code := local.classes[self.address.name].methods.get(self.name)) and code.reads:
            message = self._message(arguments)
            place = CallPlace(self.address, self.options.id or runtime.ports().store.new_id())
            return self._placeholder(place, CallRecord(message, local.read(self.address, message)))
        place = CallPlace(self.address, self._id(arguments))
        if is_local:
            call = service.call_at_once(runtime.ports(), local.code, place, self._message(arguments))
            return self._placeholder(place, call)
        posted = service.post_call(
            runtime.ports(), local.function_of, place, self._message(arguments), self.options.timing
        )
        return self._placeholder(place, posted)

    def call(self, *unnamed: Never, **arguments: Any) -> Call:
        """Return the call as a task: a continuation of a semaphore, a batch or another call."""
        self._check_named(unnamed)
        payload = call_payload(self.address, self.name, _written(arguments))
        function = local_classes.get().function_of(self.address.name)
        warn_if_dropped(f"{self.name}.call", "call the method itself, or pass this to a wait or a batch")
        return Call(function, CALL_OBJECT, payload).checked(self.name, value_bytes_max(CORE_LIMITS.task_bytes_max))

    def _placeholder(self, place: CallPlace, call: CallRecord) -> Placeholder:
        return Placeholder(place, call) if self.result is None else TypedPlaceholder(place, call, self.result)

    def _check_named(self, unnamed: tuple[object, ...]) -> None:
        if unnamed:
            known = local_classes.get().classes.get(self.address.name)
            code = known.methods.get(self.name) if known else None
            first = next(iter(code.signature.arguments), "argument") if code else "argument"
            detail = f"arguments are passed by name: write `{self.name}({first}={unnamed[0]!r:.100})`"
            raise TypeError(f"The method {self.name!r} of {self.address.name}: {detail}.")

    def _message(self, arguments: Mapping[str, Json], *, receipt: bool = True) -> Message:
        check_payload(arguments, "arguments", value_bytes_max(CORE_LIMITS.task_bytes_max))
        if self.on_result_of is not None:
            return call_on_result(self.on_result_of, self.name, arguments, then=self.options.then, receipt=receipt)
        return method_call(self.name, arguments, then=self.options.then, receipt=receipt)

    def _send(self, arguments: Mapping[str, Json]) -> None:
        if self.options.id or self.options.timing.not_after_seconds is not None or self.on_result_of is not None:
            raise BadObjectCall("A call from inside a method has no id of its own, no time limit and no placeholder.")
        local_classes.get().function_of(self.address.name)
        delay = self.options.timing.delay_seconds
        send_post(Post(self.address, self._message(arguments, receipt=False), delay))

    def _in_flow(self, command: Any) -> Any:
        if self.options != CallOptions() or self.on_result_of is not None:
            raise BadObjectCall(
                "A flow awaits the plain call of a method, without options: it receives the result, not a placeholder."
            )
        return command

    def _id(self, arguments: Mapping[str, Json]) -> str:
        then = [content_of(call) for call in self.options.then]
        content = ("call", self.address.base, self.name, self.on_result_of, arguments, then)
        return id_of_call(CALL_IDS, self.options.id, *content) or runtime.ports().store.new_id()


def _written(arguments: Mapping[str, Any]) -> dict[str, Json]:
    try:
        return {name: encode_unannotated(value, name) for name, value in arguments.items()}
    except WrongValue as error:
        raise BadObjectCall(f"An argument cannot be sent: {error}.", field="arguments") from error


class Methods:
    """The methods of an object as attributes."""

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
        id: str | None = None,
        then: Call | None = None,
        delay_seconds: float = 0,
        not_after_seconds: float | None = None,
    ) -> Methods:
        """Return the object's methods, to be called with these options.

        `id` identifies a repeated call, and `then` is a task that receives the `Outcome`. The call runs after
        `delay_seconds`. If it cannot run within `not_after_seconds` from now, its outcome is an error.
        """
        limit = None if not_after_seconds is None else _checked_seconds("not_after_seconds", not_after_seconds)
        timing = Timing(_checked_seconds("delay_seconds", delay_seconds), limit)
        follow = () if then is None else (deployed(then, "then"),)
        return Methods(self._address, CallOptions(id and check_chosen_id(id), follow, timing))

    def delete(self) -> None:
        """Delete the object after its earlier calls were applied."""
        local = local_classes.get()
        if is_running():
            local.function_of(self._address.name)
            send_post(Post(self._address, deletion(receipt=False)))
            return
        id_ = id_of_call(CALL_IDS, None, "delete", self._address.base)
        service.delete(runtime.ports(), local.function_of, self._address, id_)


class Options(TypedDict, total=False):
    """The options of `Object.with_`."""

    id: str | None
    then: Call | None
    delay_seconds: float
    not_after_seconds: float | None


class ObjectOf(Generic[C]):
    """An object whose class the caller has: a type checker checks the calls of its methods, and types their results."""

    def __init__(self, kind: type[C], methods: Methods) -> None:
        self._kind = kind
        self._methods = methods

    def __call__(
        self, method: Callable[Concatenate[C, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> TypedPlaceholder[T]:
        """Call a method of the class: ``objects(Counter, "a")(Counter.add, amount=5)``. It is called as by its name.

        Raises `TypeError` for a method of another class, and for arguments that do not fit the method.
        """
        return cast("TypedPlaceholder[T]", self._method(method).made(_named(method, args, kwargs)))

    def call(self, method: Callable[Concatenate[C, P], Any], /, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Return the call of a method as a task: a continuation of a semaphore, a batch or another call."""
        return self._method(method).call(**_named(method, args, kwargs))

    def with_(self, **options: Unpack[Options]) -> "ObjectOf[C]":
        """Return the same object, whose methods are called with options: those of `Object.with_`."""
        return ObjectOf(self._kind, self._object.with_(**options))

    def delete(self) -> None:
        """Delete the object after its earlier calls were applied."""
        self._object.delete()

    @property
    def _object(self) -> Object:
        return Object(self._methods._address)

    def _method(self, code: Callable[..., Any]) -> Method:
        name = str(getattr(code, "__name__", code))
        if getattr(self._kind, name, None) is not code:
            raise TypeError(f"{name} is not a method of {self._kind.__name__}: write `{self._kind.__name__}.METHOD`")
        method: Method = getattr(self._methods, name)
        return replace(method, result=_result_of(code))


@cache
def _result_of(code: Callable[..., Any]) -> Codec:
    return Signature.from_method(code, (Reference,)).result


def _named(code: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a method by their names."""
    bound = inspect.signature(code).bind(None, *args, **kwargs).arguments
    return dict([*bound.items()][1:])


@overload
def objects(class_name: str, key: str) -> Object: ...


@overload
def objects(class_name: type[C], key: str) -> ObjectOf[C]: ...


def objects(class_name: Any, key: str) -> Any:
    """Return an object by its class, or the name of its class, and its key. Raises `BadObjectCall` or `BadKey`.

    By its class, a type checker knows the methods and their results: ``objects(Counter, "a")(Counter.add, amount=5)``.
    """
    if isinstance(class_name, str):
        return Object(object_address(class_name, key))
    return ObjectOf(class_name, Object(object_address(class_name.__name__, key)))


def later(seconds: float) -> Methods:
    """Return the methods of the object whose method is running, to be called after `seconds`.

    Raises `BadObjectCall` outside a method or for seconds beyond the limit.
    """
    timing = Timing(delay_seconds=_checked_seconds("seconds", seconds))
    return Methods(running_object("later"), CallOptions(timing=timing))


def send(call: Call) -> None:
    """Send a task from inside a method: it runs if and only if the method's call takes effect."""
    send_task(deployed(call, "send", may_be_large=True))


def _checked_seconds(name: str, seconds: float) -> float:
    if not 0 <= seconds <= MAILBOXES_LIMITS.call_later_seconds_max:
        raise BadObjectCall(f"`{name}` must be 0 to {MAILBOXES_LIMITS.call_later_seconds_max:,}.", field=name)
    return seconds


def call_object(class_name: str, key: str, method: str, arguments: dict[str, Any]) -> None:
    """Call a method of an object. This is the code of the task that does so in a continuation."""
    Method(object_address(class_name, key), method, CallOptions())(**arguments)
