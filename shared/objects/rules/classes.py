"""A user's class of objects: annotated fields with defaults are its state, its methods are the calls.

    class Counter:
        total: int = 0

        def add(self, amount: int) -> int: ...

        @read_only
        def show(self) -> int: ...

State, arguments and results are JSON. A class whose state changes its shape has a higher `version`, and a static method
``upgrade(state, version)`` that returns the fields of an older state. An instance that finds a newer state than its own
leaves it alone: code that is older would drop what it does not know.
"""

import copy
import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self, TypeVar

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import (
    BadArgument,
    BadObjectCall,
    MethodFailed,
    NoSuchMethod,
    Problem,
    TooLarge,
    Unavailable,
)
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.messages import Message
from shared.objects.rules.methods import Applied, Sent
from shared.objects.rules.outcomes import CallOutcome
from shared.objects.rules.sending import Reference, running
from shared.tasks.rules.signatures import Signature, is_json_type, type_errors

Method = TypeVar("Method", bound=Callable[..., Any])
READ_ONLY = "_signalbox_read_only"
RESERVED = {"key", "now", "version", "upgrade"}


def read_only(method: Method) -> Method:
    """Mark a method that changes nothing: it is answered from the last state, beside the mailbox."""
    setattr(method, READ_ONLY, True)
    return method


@dataclass(frozen=True, slots=True)
class MethodCode:
    """A method of a class: its code, the signature without `self`, and whether it only reads."""

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
        """Read a user's class. Raises `TypeError` for a field or a parameter that is no JSON."""
        name, hints = code.__name__, typing.get_type_hints(code)
        types = {each: hint for each, hint in hints.items() if each not in RESERVED and not each.startswith("_")}
        for each, hint in types.items():
            _check_field(code, each, hint)
        fields = {each: getattr(code, each) for each in types}
        return cls(name, code, int(getattr(code, "version", 1)), fields, types, dict(_methods(code)))

    def method(self, name: str) -> MethodCode:
        """Return a method. Raises `NoSuchMethod` naming those there are."""
        if name not in self.methods:
            known = ", ".join(sorted(self.methods)) or "none"
            raise NoSuchMethod(f"{self.name} has no method {name!r}. It has: {known}.", field="method")
        return self.methods[name]

    def apply(self, address: ObjectAddress, state: str | None, message: Message, now: datetime) -> Applied:
        """Run a method on a state's text. An error is the outcome, and leaves the state and sends nothing.

        Raises `Unavailable` for a state of a newer version.
        """
        instance = self._instance(address, state, now)
        with running(address) as sent:
            try:
                method = self.method(message.body["method"])
                result = method.code(instance, **method.signature.bind(message.body["arguments"], None))
                if method.reads:
                    return Applied(state, _outcome(_sent_nothing(result, sent)))
                return Applied(self._text(instance), _outcome(result), sent)
            except Problem as problem:
                return Applied(state, CallOutcome.from_problem(problem))
            except Unavailable:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the call's outcome and blocks no other call
                return Applied(state, _failed(error))

    def check_state(self, state: str | None) -> None:
        """Raise `Unavailable` for a state of a newer version."""
        if state is not None:
            self._check_version(json.loads(state)["version"])

    def _check_version(self, version: int) -> None:
        if version > self.version:
            raise Unavailable(f"the state of {self.name} is of a newer version")

    def _instance(self, address: ObjectAddress, state: str | None, now: datetime) -> Any:
        instance: Any = object.__new__(self.code)
        fields = {**copy.deepcopy(dict(self.fields)), **({} if state is None else self._fields(json.loads(state)))}
        instance.__dict__.update(fields, key=address.key, now=now)
        return instance

    def _fields(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        self._check_version(stored["version"])
        if stored["version"] < self.version:
            upgrade: Callable[..., dict[str, Any]] = getattr(self.code, "upgrade", lambda fields, _: fields)
            return upgrade(stored["fields"], stored["version"])
        return dict(stored["fields"])

    def _text(self, instance: Any) -> str:
        fields = {name: getattr(instance, name) for name in self.fields}
        for name, value in fields.items():
            if error := next(type_errors(value, self.types[name], f"{self.name}.{name}"), None):
                raise BadArgument(f"The method left a state that cannot be stored: {error}.")
        text = json.dumps({"version": self.version, "fields": fields})
        if len(text) > LIMITS.object_state_bytes_max:
            raise TooLarge(f"A state has at most {LIMITS.object_state_bytes_max:,} bytes; this has {len(text):,}.")
        return text


def _methods(code: type) -> list[tuple[str, MethodCode]]:
    found = inspect.getmembers(code, inspect.isfunction)
    return [
        (name, MethodCode(each, Signature.from_method(each), hasattr(each, READ_ONLY)))
        for name, each in found
        if not name.startswith("_") and name not in RESERVED
    ]


def _check_field(code: type, name: str, annotation: Any) -> None:
    if not is_json_type(annotation):
        raise TypeError(f"{code.__name__}.{name} is a {annotation}: annotate it with a JSON type")
    if not hasattr(code, name):
        raise TypeError(f"{code.__name__}.{name} needs a default: an object exists from its first call on")


def _sent_nothing(result: Any, sent: Sent) -> Any:
    if sent.posts or sent.tasks:
        raise BadObjectCall("A read-only method sends nothing: whether it takes effect is not recorded.")
    return result


def _outcome(result: Any) -> CallOutcome:
    if isinstance(result, Reference):
        return CallOutcome(object=result._address)
    if error := next(type_errors(result, Any, "the result"), None):
        raise BadArgument(f"The method's result cannot be stored: {error}.")
    outcome = CallOutcome(result)
    if len(outcome.to_text()) > LIMITS.result_bytes_max:
        raise TooLarge(f"A result has at most {LIMITS.result_bytes_max:,} bytes.")
    return outcome


def _failed(error: Exception) -> CallOutcome:
    return CallOutcome.from_problem(MethodFailed(f"{type(error).__name__}: {error}"[: LIMITS.error_letters_max]))
