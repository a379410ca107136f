"""A user's class of objects: annotated fields with defaults are its state, its methods are the calls.

    class Counter:
        total: int = 0

        def add(self, amount: int) -> int: ...

        @read_only
        def show(self) -> int: ...

State, arguments and results are stored as JSON, by their annotations (docs/tasks.md). A class whose state changes its
shape gets a higher `version`, and a static method ``upgrade(state, version)`` that returns the fields of an older
state, as JSON. An instance whose code is older than a state does not touch the state: it would drop fields that it does
not have.

A method changes its state, calls objects and sends tasks, which are sent if its call takes effect. A turn may lose its
race and be applied again, so other calls of the kit (documents, semaphores, batches) are refused inside a method.
"""

import copy
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeVar

from signalbox.core import user_code
from signalbox.core.calls import Call
from signalbox.core.codec.annotations import codec_of, hints_of
from signalbox.core.codec.json_forms import Codec, WrongValue, decode, encode, is_plain
from signalbox.core.json_values import json_text
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import larger_values, value_bytes_max
from signalbox.core.problems import BadArgument, Problem, TooLarge, Unavailable
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.problems import MethodFailed
from signalbox.objects.limits import LIMITS
from signalbox.objects.model import Applied, Message, Post, Sent
from signalbox.objects.problems import BadObjectCall, NoSuchMethod
from signalbox.payloads.model import opened, opened_members
from signalbox.tasks.requests.signatures import Signature

Method = TypeVar("Method", bound=Callable[..., Any])
READ_ONLY = "_signalbox_read_only"
RESERVED = {"key", "now", "version", "upgrade"}
OF_EVERY_OBJECT = {"with_", "delete"}
"""The names that `objects(…)` itself has: a call of a user's method of the same name would not reach the method."""


# --- the messages and tasks of a running method ---

_running: ContextVar[tuple[ObjectAddress, Sent] | None] = ContextVar("signalbox.running_method", default=None)


class Reference:
    """An object by its address, which a method returns as its result."""

    def __init__(self, address: ObjectAddress) -> None:
        self._address = address


@contextmanager
def running(address: ObjectAddress) -> Iterator[Sent]:
    """Collect the messages and tasks that a method of the object at `address` sends."""
    sent = Sent()
    token = _running.set((address, sent))
    try:
        yield sent
    finally:
        _running.reset(token)


def is_running() -> bool:
    """Return whether a method of an object is running."""
    return _running.get() is not None


def running_object(what: str) -> ObjectAddress:
    """Return the object whose method is running.

    Outside a method, raise `BadObjectCall`. `what` is the name of the call for the message.
    """
    return _method(what)[0]


def send_task(call: Call) -> None:
    """Send a task if the call takes effect. Raises `BadObjectCall` outside a method."""
    _method("send")[1].tasks.append(call)


def send_post(post: Post) -> None:
    """Send a message to an object if the call takes effect. Raises `BadObjectCall` outside a method."""
    _method("A message")[1].posts.append(post)


def _method(what: str) -> tuple[ObjectAddress, Sent]:
    method = _running.get()
    if method is None:
        raise BadObjectCall(f"`{what}` belongs inside a method of an object.")
    return method


# --- classes ---


def read_only(method: Method) -> Method:
    """Mark a method that changes nothing: calls of it are answered from the last state and bypass the mailbox."""
    setattr(method, READ_ONLY, True)
    return method


@dataclass(frozen=True, slots=True)
class MethodCode:
    """A method of a class: its code, its signature without `self`, and whether it only reads."""

    code: Callable[..., Any]
    signature: Signature
    reads: bool


@dataclass(frozen=True, slots=True)
class ObjectClass:
    """A class as the kit runs it. `fields` are the defaults of the state by name, `types` their annotations."""

    name: str
    code: type
    version: int
    fields: Mapping[str, Any]
    types: Mapping[str, Any]
    methods: Mapping[str, MethodCode] = field(default_factory=dict)

    @classmethod
    def from_class(cls, code: type) -> Self:
        """Inspect a user's class. Raises `TypeError` for a field, a parameter or a result of a type without a codec."""
        hints = hints_of(code, code.__name__)
        types = {name: hint for name, hint in hints.items() if name not in RESERVED and not name.startswith("_")}
        for name, hint in types.items():
            _check_field(code, name, hint)
        fields = {name: getattr(code, name) for name in types}
        return cls(code.__name__, code, int(getattr(code, "version", 1)), fields, types, dict(_methods(code)))

    def method(self, name: str) -> MethodCode:
        """Return a method. Raises `NoSuchMethod`, whose message names the methods that exist."""
        if name not in self.methods:
            known = ", ".join(sorted(self.methods)) or "none"
            raise NoSuchMethod(f"{self.name} has no method {name!r}. It has: {known}.", field="method")
        return self.methods[name]

    def apply(self, address: ObjectAddress, state: str | None, message: Message, now: datetime) -> Applied:
        """Run a method on a state's text, with the arguments in a message's record.

        If the method raises, the error is the outcome, the state is unchanged, and nothing is sent. Raises
        `Unavailable` for a state of a newer version, and `PayloadUnread`.
        """
        instance = self._instance(address, state, now)
        called = message.with_arguments(opened_members(message.arguments))
        with running(address) as sent:
            try:
                return user_code.run(partial(self._applied, instance, state, called, sent), user_code.kit_context())
            except Problem as problem:
                return Applied(state, CallOutcome.from_problem(problem))
            except Unavailable:
                raise
            except Exception as error:  # noqa: BLE001 - any error is the call's outcome, and must not block other calls
                return Applied(state, _failed(error))

    def _applied(self, instance: Any, state: str | None, message: Message, sent: Sent) -> Applied:
        method = self.method(message.body["method"])
        result = method.code(instance, **method.signature.bind(message.body["arguments"], None))
        codec = method.signature.result
        if method.reads:
            return Applied(state, _outcome(_sent_nothing(result, sent), codec))
        return Applied(self._text(instance), _outcome(result, codec), sent)

    def check_state(self, state: str | None) -> None:
        """Raise `Unavailable` for a state of a newer version, and for one that this code cannot read."""
        if state is not None:
            self._read(self._fields(opened(json.loads(state))))

    def check_version(self, version: int) -> None:
        """Raise `Unavailable` if newer code wrote the state."""
        if version > self.version:
            raise Unavailable(f"the state of {self.name} was written by a newer version of the class")

    def _instance(self, address: ObjectAddress, state: str | None, now: datetime) -> Any:
        instance: Any = object.__new__(self.code)
        stored = {} if state is None else self._read(self._fields(opened(json.loads(state))))
        fields = {**copy.deepcopy(dict(self.fields)), **stored}
        instance.__dict__.update(fields, key=address.key, now=now)
        return instance

    def _fields(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        self.check_version(stored["version"])
        if stored["version"] < self.version:
            upgrade: Callable[..., dict[str, Any]] = getattr(self.code, "upgrade", lambda fields, _: fields)
            try:
                upgraded = user_code.run(partial(upgrade, stored["fields"], stored["version"]), user_code.kit_context())
                return self._checked(upgraded)
            except Exception as error:
                detail = f"{self.name}.upgrade raised {user_code.described(error)}. The calls wait for fixed code"
                raise Unavailable(detail) from error
        return dict(stored["fields"])

    def _checked(self, fields: Any) -> dict[str, Any]:
        """Return the fields that `upgrade` has returned. Raises `TypeError` if they are not the fields of a state."""
        if not isinstance(fields, dict):
            raise TypeError(f"it returned {type(fields).__name__}, not the fields")
        for name in self.fields.keys() & fields.keys():
            decode(self._codec(name), fields[name], name)
        return fields

    def _read(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a stored state for the code.

        Raises `Unavailable` for a field whose value is of another type.
        """
        try:
            return {name: self._value(name, value) for name, value in fields.items() if name in self.types}
        except WrongValue as error:
            advice = "Raise the class's `version` and write `upgrade`. Its calls wait for fixed code"
            raise Unavailable(f"the state of {self.name} is not of its type: {error}. {advice}") from error

    def _value(self, name: str, stored: Any) -> Any:
        """Return the value of a field. The JSON was parsed for this call alone, so plain values are not copied."""
        codec = self._codec(name)
        return encode(codec, stored, name) if is_plain(codec) else decode(codec, stored, name, stored=True)

    def _codec(self, name: str) -> Codec:
        return codec_of(self.types[name], f"{self.name}.{name}")

    def _text(self, instance: Any) -> str:
        try:
            fields = {
                name: encode(self._codec(name), getattr(instance, name), f"{self.name}.{name}") for name in self.fields
            }
        except WrongValue as error:
            raise BadArgument(f"The method left a state that cannot be stored: {error}.") from error
        text = json_text({"version": self.version, "fields": fields})
        if len(text) > (bytes_max := value_bytes_max(LIMITS.object_state_bytes_max)):
            raise TooLarge(f"A state has at most {bytes_max:,} bytes; this has {len(text):,}.{larger_values()}")
        return text


def _methods(code: type) -> list[tuple[str, MethodCode]]:
    for name in sorted(OF_EVERY_OBJECT):
        if hasattr(code, name):
            raise TypeError(f"{code.__name__}.{name}: every object has `{name}` already. Choose another name")
    return [
        (name, MethodCode(function, Signature.from_method(function, (Reference,)), hasattr(function, READ_ONLY)))
        for name, function in inspect.getmembers(code, inspect.isfunction)
        if not name.startswith("_") and name not in RESERVED
    ]


def _check_field(code: type, name: str, annotation: Any) -> None:
    codec_of(annotation, f"{code.__name__}.{name}")
    if not hasattr(code, name):
        raise TypeError(f"{code.__name__}.{name} needs a default: an object exists from its first call on")


def _sent_nothing(result: Any, sent: Sent) -> Any:
    if sent.posts or sent.tasks:
        raise BadObjectCall("A read-only method must send nothing, since its call is not recorded.")
    return result


def _outcome(result: Any, codec: Codec) -> CallOutcome:
    if isinstance(result, Reference):
        return CallOutcome(object=result._address)
    try:
        outcome = CallOutcome(encode(codec, result, "the result"))
    except WrongValue as error:
        raise BadArgument(f"The method's result cannot be stored: {error}.") from error
    if len(json_text(outcome.result)) > (bytes_max := value_bytes_max(CORE_LIMITS.result_bytes_max)):
        raise TooLarge(f"A result has at most {bytes_max:,} bytes.{larger_values()}")
    return outcome


def _failed(error: Exception) -> CallOutcome:
    return CallOutcome.from_problem(MethodFailed(user_code.described(error)[: CORE_LIMITS.error_letters_max]))
