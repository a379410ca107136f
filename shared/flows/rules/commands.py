"""What a flow's code asks for. A command is a value; it takes effect when it is yielded.

    paid = yield flow.step(charge.call(order=7), attempts_max=5)
    packed, label = yield [pack.call(order=7), labels.call(order=7)]
    which, who = yield flow.any(flow.event("approved"), flow.sleep(86_400))

Two commands are the same to a replay if their signatures are: kind and name, not arguments.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadFlow
from shared.objects.rules.addresses import ObjectAddress
from shared.tasks.rules.signatures import type_errors


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Command:
    """Something that a flow waits for. `name` says what of its kind."""

    kind: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """Return what is asked for, as logs and errors name it."""
        return ""

    @property
    def signature(self) -> str:
        """Return what a replay compares."""
        return f"{self.kind} {self.name}".rstrip()


@dataclass(frozen=True, slots=True, eq=False)
class Step(Command):
    """Run a task. One that ends with a `Problem` is asked for again, `attempts_max` times in all, after a pause."""

    kind = "step"
    call: Call
    attempts_max: int = 1
    pause_seconds: float = 0

    def __post_init__(self) -> None:
        _check_count("attempts_max", self.attempts_max, LIMITS.flow_step_attempts_max)
        check_seconds("pause_seconds", self.pause_seconds, LIMITS.delay_seconds_max)

    @property
    def name(self) -> str:
        return f"{self.call.function}.{self.call.task}"


@dataclass(frozen=True, slots=True, eq=False)
class Sleep(Command):
    """Wait so long."""

    kind = "sleep"
    seconds: float

    def __post_init__(self) -> None:
        check_seconds("seconds", self.seconds, LIMITS.call_later_seconds_max)


@dataclass(frozen=True, slots=True, eq=False)
class Event(Command):
    """Wait for an event of this name; its value is the result."""

    kind = "event"
    event: str

    def __post_init__(self) -> None:
        check_event_name(self.event)

    @property
    def name(self) -> str:
        return self.event


@dataclass(frozen=True, slots=True, eq=False)
class Lock(Command):
    """Wait for permits of a semaphore; the result is a `HeldLock`."""

    kind = "lock"
    semaphore: str
    permits: int = 1
    lease_seconds: float | None = None

    def __post_init__(self) -> None:
        _check_count("permits", self.permits, LIMITS.permits_max)
        if self.lease_seconds is not None:
            check_seconds("lease_seconds", self.lease_seconds, LIMITS.lease_seconds_max)

    @property
    def name(self) -> str:
        return self.semaphore


@dataclass(frozen=True, slots=True, eq=False)
class ObjectCall(Command):
    """Call a method of an object, whose class `function` has."""

    kind = "object"
    function: str
    address: ObjectAddress
    method: str
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check_arguments(self.arguments)

    @property
    def name(self) -> str:
        return f"{self.address.class_name}.{self.method}"


@dataclass(frozen=True, slots=True, eq=False)
class SubFlow(Command):
    """Run another flow, whose code `function` has."""

    kind = "flow"
    function: str
    flow: str
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check_arguments(self.arguments)

    @property
    def name(self) -> str:
        return self.flow


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Command):
    """Run a task for each of many payloads; the result says how many succeeded and failed."""

    kind = "batch"
    calls: tuple[Call, ...]
    failures_max: int | None = None

    @property
    def name(self) -> str:
        return f"{self.calls[0].function}.{self.calls[0].task}" if self.calls else ""


def command_of(value: Any) -> Command | None:
    """Return a yielded value as a command: a task's call is a step with one attempt. None: it is no command."""
    if isinstance(value, Call):
        return Step(value)
    return value if isinstance(value, Command) else None


def batch_of(calls: Iterable[Call], failures_max: int | None) -> Batch:
    """Return a batch of calls, all of one task. Raises `BadFlow`."""
    known = tuple(calls)
    if len({(call.function, call.task, call.queue) for call in known}) > 1:
        raise BadFlow("A batch of a flow has calls of one task.", field="calls")
    return Batch(known, failures_max)


def check_event_name(name: Any) -> str:
    """Return an event's name. Raises `BadFlow`."""
    size_bytes = len(name.encode("utf-8", "surrogatepass")) if isinstance(name, str) else 0
    if not 0 < size_bytes <= LIMITS.flow_event_name_bytes_max:
        raise BadFlow(f"An event's name has 1 to {LIMITS.flow_event_name_bytes_max} bytes.", field="name")
    return str(name)


def _check_count(name: str, value: Any, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise BadFlow(f"`{name}` is a whole number from 1 to {most:,}.", field=name)


def check_seconds(name: str, value: Any, most: float) -> None:
    """Raise `BadFlow` for what is no number of seconds, or too many."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        raise BadFlow(f"`{name}` is a number of seconds, 0 to {most:,}.", field=name)


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise `BadFlow` for arguments that are no JSON or too large, where the code makes the command."""
    if error := next(type_errors(dict(arguments), Any, "arguments"), None):
        raise BadFlow(f"Arguments travel as JSON: {error}.", field="arguments")
    if len(json.dumps(dict(arguments))) > LIMITS.task_bytes_max:
        raise BadFlow(f"Arguments have at most {LIMITS.task_bytes_max:,} bytes.", field="arguments")
