"""The commands that a flow's code awaits. A command is a value; it is scheduled when the code awaits it.

    paid = await flow.step(charge.call(order=7), attempts_max=5)
    packed, label = await flow.all(pack.call(order=7), labels.call(order=7))
    which, who = await flow.first(approved=flow.event("approved", str), late=flow.sleep(86_400))

Replay compares the signatures of commands: their kind and name, not their arguments.

A command that the code creates and neither awaits, sends nor keeps has no effect; most often an `await` was forgotten.
The driver notices it at the next `await`, because no reference to it is left. A command that the code keeps may still
be awaited later, for instance in a clean-up.
"""

import json
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from types import CoroutineType, GeneratorType, TracebackType
from typing import Any, ClassVar, Generic, Protocol, Self, TypedDict, TypeVar

from signalbox.batches.problems import BadBatch
from signalbox.core.calls import Awaited, Call
from signalbox.core.codec import JSON, Codec, WrongValue, codec_of, decode
from signalbox.core.json_types import type_errors
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import BadArgument, GaveUp, LeaseEnded, Problem, UnknownTask
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.messages import SUB_FLOW
from signalbox.flows.problems import BadFlow, CannotQuery
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.objects.problems import NoSuchMethod
from signalbox.rates.limits import LIMITS as RATE_LIMITS
from signalbox.rates.problems import BadRate, NoRate
from signalbox.semaphores.limits import LIMITS as SEMAPHORE_LIMITS
from signalbox.semaphores.model import Priority
from signalbox.semaphores.problems import BadSemaphore, NoSemaphore
from signalbox.semaphores.requests import check_lane_key, check_priority
from signalbox.tasks.model import TaskContext

Created = TypeVar("Created")
T = TypeVar("T")


# --- the running flow ---


class RunningFlow(Protocol):
    """The driver, as commands see it. `created` are the commands that the code has created since its last wait.

    `answering` is the name of the query whose function runs, empty otherwise: that function must not act.
    """

    created: list[tuple["weakref.ref[Any]", str]]
    answering: str

    @property
    def branch(self) -> str:
        """The path of the branch whose code runs."""
        ...

    @property
    def replayed(self) -> bool:
        """Whether the code runs at a position that an earlier turn has passed, and no call was refused before it."""
        ...

    def refused(self) -> None:
        """Note that the kit has refused a call of the code."""
        ...


_current: ContextVar[RunningFlow | None] = ContextVar("running_flow", default=None)


@contextmanager
def running(flow: RunningFlow) -> Iterator[None]:
    """Make `flow` the flow whose code runs."""
    token = _current.set(flow)
    try:
        yield
    finally:
        _current.reset(token)


def is_running() -> bool:
    """Return whether the code of a flow runs."""
    return _current.get() is not None


def is_replayed() -> bool:
    """Return whether the code of a flow runs at a position that an earlier turn has passed."""
    flow = _current.get()
    return flow is not None and flow.replayed


def note_refused() -> None:
    """Note that the kit has refused a call of the code, if a flow runs."""
    if (flow := _current.get()) is not None:
        flow.refused()


READS = frozenset({"flow.context", "flow.now"})
"""The functions of `flow` that a query may call."""


def running_flow(name: str) -> Any:
    """Return the driver of the flow whose code runs. Raises `BadFlow` if none does; `name` is the called function.

    Raises `CannotQuery` in a query, unless the function only reads.
    """
    if (flow := _current.get()) is None:
        raise BadFlow(f"`{name}` works only inside the code of a flow.")
    if name not in READS and (refusal := refusal_of_query(f"calls `{name}()`")):
        raise refusal
    return flow


def refusal_of_query(does: str) -> CannotQuery | None:
    """Return the error of a query whose function acts, or None if no query is answered. `does` says what it does."""
    flow = _current.get()
    if flow is None or not flow.answering:
        return None
    advice = "A query only reads the variables of the code. Send the run an event, and let its code do that"
    return CannotQuery(f"The query {flow.answering!r} {does}. {advice}.")


def created(command: Created, name: str, frames: int = 2, instead_of: object = None) -> Created:
    """Record that a flow's code has created a command, `frames` frames above; do nothing if no flow runs.

    `instead_of` is the command that it is made from. Raises `CannotQuery` in a query.
    """
    if refusal := refusal_of_query(f"creates the command {name}"):
        raise refusal
    if (flow := _current.get()) is not None:
        if instead_of is not None:
            flow.created[:] = [(other, place) for other, place in flow.created if other() is not instead_of]
        flow.created.append((weakref.ref(command), f"{name} at {called_at(frames + 1)}"))
    return command


def called_at(frames: int) -> str:
    """Return the place in the code `frames` frames above."""
    caller = sys._getframe(frames)
    return f"{caller.f_code.co_filename.rpartition('/')[2]}:{caller.f_lineno} in {caller.f_code.co_name}"


def _branch() -> str:
    """Return the path of the branch whose code runs."""
    flow = _current.get()
    return flow.branch if flow else ""


# --- commands ---


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Command(Awaited[T]):
    """An operation that a flow can wait for."""

    kind: ClassVar[str] = ""

    refusals: ClassVar[tuple[type[Problem], ...]] = ()
    """The problems with which the kit refuses such a command because of its arguments."""

    @property
    def codec(self) -> Codec:
        """The codec of the result."""
        return JSON

    def is_refusal(self, slug: str) -> bool:
        """Return whether a problem with this slug is one of `refusals`."""
        return slug in [problem.slug() for problem in self.refusals]

    @property
    def name(self) -> str:
        """The target of the command, as logs and errors name it."""
        return ""

    @property
    def signature(self) -> str:
        """The text that replay compares."""
        return f"{self.kind} {self.name}".rstrip()


class Retried:
    """A step that runs again after a `Problem`: `attempts_max` times in all, except after one of `no_retry`.

    The pause before the second attempt is `pause_seconds`. Each further one is `pause_factor` times as long, and none
    is longer than `pause_max_seconds`.
    """

    __slots__ = ()

    attempts_max: int
    pause_seconds: float
    pause_factor: float
    pause_max_seconds: float
    no_retry: tuple[type[Problem], ...]

    def _check_retries(self) -> None:
        """Raise `BadFlow` for values out of range."""
        _check_count("attempts_max", self.attempts_max, LIMITS.flow_step_attempts_max)
        _check_seconds("pause_seconds", self.pause_seconds, CORE_LIMITS.delay_seconds_max)
        _check_seconds("pause_max_seconds", self.pause_max_seconds, CORE_LIMITS.delay_seconds_max)
        factor, most = self.pause_factor, LIMITS.flow_pause_factor_max
        if not isinstance(factor, int | float) or isinstance(factor, bool) or not 1 <= factor <= most:
            raise BadFlow(f"`pause_factor` must be a number from 1 to {most:,}.", field="pause_factor")
        if self.pause_max_seconds < self.pause_seconds:
            raise BadFlow("`pause_max_seconds` must be at least `pause_seconds`.", field="pause_max_seconds")
        if not isinstance(self.no_retry, tuple) or not all(map(_is_problem_class, self.no_retry)):
            raise BadFlow("`no_retry` must be a tuple of subclasses of `Problem`.", field="no_retry")

    def pause_before(self, attempt: int) -> float:
        """Return the seconds of the pause before an attempt. The first one has none."""
        if attempt == 1:
            return 0
        try:
            return min(self.pause_max_seconds, self.pause_seconds * float(self.pause_factor) ** (attempt - 2))
        except OverflowError:
            return self.pause_max_seconds if self.pause_seconds else 0

    def is_retried(self, attempt: int, outcome: CallOutcome) -> bool:
        """Return whether the step runs again after this attempt had a failed outcome."""
        slug = (outcome.error or {}).get("type")
        is_final = slug == GaveUp.slug() or slug in [kind.slug() for kind in self.no_retry]
        return attempt < self.attempts_max and not is_final and not isinstance(outcome.exception(), self.no_retry)


@dataclass(frozen=True, slots=True, eq=False)
class Step(Retried, Command[T]):
    """Run a task."""

    kind = "step"
    refusals = (UnknownTask,)
    call: Call
    attempts_max: int = 1
    pause_seconds: float = 0
    pause_factor: float = 1
    pause_max_seconds: float = CORE_LIMITS.delay_seconds_max
    no_retry: tuple[type[Problem], ...] = ()

    def __post_init__(self) -> None:
        self._check_retries()

    @property
    def name(self) -> str:
        return f"{self.call.function}.{self.call.task}"

    @property
    def codec(self) -> Codec:
        known: Codec = getattr(self.call, "result", JSON)
        return known


@dataclass(frozen=True, slots=True, eq=False)
class Inline(Retried, Command[T]):
    """Run a function of this process as a step. The outcome must come within `timeout_seconds`."""

    kind = "run"
    function: str
    code: Callable[[TaskContext], T]
    attempts_max: int = 1
    pause_seconds: float = 0
    timeout_seconds: float = LIMITS.inline_timeout_seconds
    result: Codec = JSON
    pause_factor: float = 1
    pause_max_seconds: float = CORE_LIMITS.delay_seconds_max
    no_retry: tuple[type[Problem], ...] = ()

    def __post_init__(self) -> None:
        self._check_retries()
        _check_seconds("timeout_seconds", self.timeout_seconds, LIMITS.inline_timeout_seconds_max)

    @property
    def name(self) -> str:
        return self.function

    @property
    def codec(self) -> Codec:
        return self.result


@dataclass(frozen=True, slots=True, eq=False)
class Sleep(Command[None]):
    """Wait for `seconds`."""

    kind = "sleep"
    seconds: float

    def __post_init__(self) -> None:
        _check_seconds("seconds", self.seconds, MAILBOXES_LIMITS.call_later_seconds_max)


@dataclass(frozen=True, slots=True, eq=False)
class NextEvent(Command[T]):
    """Wait for the next event of a name. The result is the event's value, or an error if it is not of the `type`."""

    kind = "event"
    event: str
    type: Any = Any

    def __post_init__(self) -> None:
        check_event_name(self.event)

    @property
    def name(self) -> str:
        return self.event

    def outcome_of(self, value: Any) -> CallOutcome:
        """Return the outcome of an event's value."""
        try:
            return CallOutcome(decode(codec_of(self.type, self.event), value, f"the event {self.event}", stored=True))
        except WrongValue as error:
            return CallOutcome(raised=BadArgument(f"{error}.", field="value"))


@dataclass(frozen=True, slots=True, eq=False)
class Lock(Command["HeldLock"]):
    """Wait for permits of a semaphore. The result is a `HeldLock`; ``async with`` releases it at its end."""

    kind = "lock"
    refusals = (NoSemaphore, BadSemaphore)
    semaphore: str
    permits: int = 1
    lease_seconds: float | None = None
    key: str = ""
    priority: Priority = "normal"
    _entered: list[tuple[str, "HeldLock"]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        _check_count("permits", self.permits, SEMAPHORE_LIMITS.permits_max)
        _check_lease_seconds(self.lease_seconds)
        if self.key:
            check_lane_key(self.key)
        check_priority(self.priority)

    @property
    def name(self) -> str:
        return self.semaphore

    async def __aenter__(self) -> "HeldLock":
        held = await self
        self._entered.append((_branch(), held))
        return held

    async def __aexit__(self, *_: object) -> None:
        """Release the lock that this branch has entered last: other branches may have entered the same command."""
        own = [number for number, (branch, _) in enumerate(self._entered) if branch == _branch()]
        self._entered.pop(own[-1] if own else -1)[1].release()


@dataclass(frozen=True, slots=True, eq=False)
class RatePermits(Command[None]):
    """Wait for permits of a rate, which come back by time."""

    kind = "rate"
    refusals = (NoRate, BadRate)
    rate: str
    weight: int = 1

    def __post_init__(self) -> None:
        _check_count("weight", self.weight, RATE_LIMITS.burst_max)

    @property
    def name(self) -> str:
        return self.rate


@dataclass(frozen=True, slots=True, eq=False)
class Renew(Command["HeldLock"]):
    """Extend the lease of the lock at `path`. The result is the `HeldLock` with its new end."""

    kind = "renew"
    semaphore: str
    path: str
    granted: Mapping[str, Any]
    lease_seconds: float | None = None

    def __post_init__(self) -> None:
        _check_lease_seconds(self.lease_seconds)

    @property
    def name(self) -> str:
        return self.semaphore


@dataclass(frozen=True, slots=True, eq=False)
class ObjectCall(Command[Any]):
    """Call a method of an object. `function` has the code of its class."""

    kind = "object"
    refusals = (NoSuchMethod,)
    function: str
    address: ObjectAddress
    method: str
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check_arguments(self.arguments)

    @property
    def name(self) -> str:
        return f"{self.address.name}.{self.method}"


@dataclass(frozen=True, slots=True, eq=False)
class SubFlow(Command[T]):
    """Run another flow. `function` has its code. `id` is that of the run; one is made if it is empty."""

    kind = SUB_FLOW
    function: str
    flow: str
    arguments: Mapping[str, Any]
    result: Codec = JSON
    id: str = ""

    def __post_init__(self) -> None:
        _check_arguments(self.arguments)

    @property
    def name(self) -> str:
        return self.flow

    @property
    def codec(self) -> Codec:
        return self.result


class BatchResult(TypedDict):
    """A batch that has ended, with the numbers of its units: all, those that succeeded, and those that failed.

    `state` is completed or cancelled.
    """

    id: str
    state: str
    size: int
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Command[BatchResult]):
    """Run a task for each of many payloads. The result is a `BatchResult`."""

    kind = "batch"
    refusals = (BadBatch,)
    calls: tuple[Call, ...]
    failures_max: int | None = None
    semaphore: str = ""
    rate: str = ""
    weight: int | str = 1

    @property
    def name(self) -> str:
        return f"{self.calls[0].function}.{self.calls[0].task}" if self.calls else ""


def command_of(value: Any) -> Command[Any] | None:
    """Return an awaited value as a command, or None if it is not one. The call of a task is a step with one attempt."""
    if isinstance(value, Call):
        return Step(value)
    return value if isinstance(value, Command) else None


def batch_of(
    calls: Iterable[Call], failures_max: int | None, semaphore: str, rate: str = "", weight: int | str = 1
) -> Batch:
    """Return a batch of calls. Raises `BadFlow` if they are not all of one task."""
    known = tuple(calls)
    if len({(call.function, call.task, call.queue) for call in known}) > 1:
        raise BadFlow("All calls of a flow's batch must be of one task.", field="calls")
    return Batch(known, failures_max, semaphore, rate, weight) if known else Batch(known, failures_max)


# --- groups of commands ---


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class AllOf(Awaited[T]):
    """All of several commands and coroutines. The first error is raised once the others have been cancelled."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class AnyOf(Awaited[T]):
    """The first of several commands. The others are abandoned. `keys` are what the result calls them."""

    items: tuple[Any, ...]
    keys: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FirstSuccessOf(AnyOf[T]):
    """The first of several commands that succeeds. The others are abandoned."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class SettledOf(Awaited[T]):
    """All of several commands, each as a `Settled`. No error is raised."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Shield(Awaited[T]):
    """A command or a coroutine that no cancel interrupts."""

    item: Any


@dataclass(frozen=True, slots=True)
class Settled(Generic[T]):
    """The outcome of one of several commands: its result or its error."""

    result: T | None = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        """Whether the command has succeeded."""
        return self.error is None


class First(tuple[int | str, Any]):
    """The result of a `first`: the name or the position of the command, and its result. The code unpacks it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            raise TypeError("The result of flow.first() has two values: write `which, result = await flow.first(…)`.")
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


CONTINUE_AS_NEW = "flow.continue_as_new()"


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class ContinueAsNew:
    """The value that a flow returns to start a new execution with an empty log and other arguments."""

    arguments: Mapping[str, Any]


def first_of(
    items: Sequence[Any], named: Mapping[str, Any], kind: type[AnyOf[Any]] = AnyOf, name: str = "flow.first()"
) -> AnyOf[Any]:
    """Return the first of commands, by position or by name. Raises `TypeError` for both at once, and for a branch."""
    if bool(items) == bool(named):
        raise TypeError(f"{name} needs at least one command: all of them by position, or all by name.")
    known = (*items, *named.values())
    check_commands(known, name)
    return kind(known, tuple(named) or tuple(range(len(known))))


def check_commands(items: Iterable[Any], name: str) -> None:
    """Raise `TypeError` if there are coroutines in what is given to the function of this name."""
    if any(map(branches_in, items)):
        raise TypeError(f"{name} takes commands, not coroutines: a coroutine could be abandoned half done.")


def branches_in(item: Any) -> list[Any]:
    """Return the coroutines and generators in what the code waits for."""
    match item:
        case GeneratorType() | CoroutineType():
            return [item]
        case AllOf() | AnyOf() | SettledOf():
            inner = item.items
        case Shield():
            inner = (item.item,)
        case list() | tuple():
            inner = tuple(item)
        case _:
            inner = ()
    return [branch for each in inner for branch in branches_in(each)]


# --- locks ---


class LeaseHolder(Protocol):
    """The driver, as locks see it: the held leases by the paths of their locks."""

    held: dict[str, dict[str, Any]]

    def release(self, path: str) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class HeldLock:
    """A lease of `semaphore` until `ends_at`, released at the end of a ``with`` block or of the flow at the latest.

    `token` is a fencing token: what the lock protects can refuse a caller whose token is smaller than one it has seen.
    """

    semaphore: str
    id: str
    token: int
    ends_at: datetime
    _path: str
    _holder: LeaseHolder

    @classmethod
    def of(cls, holder: LeaseHolder, path: str) -> Self:
        """Return the lock whose lease is held under a path."""
        lease = holder.held[path]
        ends_at = datetime.fromisoformat(lease["ends_at"])
        return cls(lease["semaphore"], lease["id"], lease["token"], ends_at, path, holder)

    def is_below(self, path: str) -> bool:
        """Return whether the lock's command is the one at a path, or a part of it."""
        return f"{self._path}.".startswith(f"{path}.")

    def release(self) -> bool:
        """Release the permits; return whether the flow still held them, as far as it knows."""
        return self._holder.release(self._path)

    def renew(self, lease_seconds: float | None = None) -> Renew:
        """Return a command that extends the lease, by the original number of seconds if none is given.

        Its error is `LeaseEnded` if the lease has expired. Raises `LeaseEnded` if the lock was released.
        """
        if self._path not in self._holder.held:
            raise LeaseEnded(f"The lock of {self.semaphore} was released.")
        granted = self._holder.held[self._path]["granted"]
        return created(Renew(self.semaphore, self._path, granted, lease_seconds), "renew()")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.release()


# --- checks ---


def check_event_name(name: Any) -> str:
    """Return an event's name. Raises `BadFlow`."""
    size_bytes = len(name.encode("utf-8", "surrogatepass")) if isinstance(name, str) else 0
    if not 0 < size_bytes <= LIMITS.flow_event_name_bytes_max:
        detail = f"The name of an event must have 1 to {LIMITS.flow_event_name_bytes_max} bytes."
        raise BadFlow(detail, field="name")
    return str(name)


def _check_count(name: str, value: Any, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise BadFlow(f"`{name}` must be a whole number from 1 to {most:,}.", field=name)


def _check_seconds(name: str, value: Any, most: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        raise BadFlow(f"`{name}` must be a number of seconds from 0 to {most:,}.", field=name)


def _is_problem_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Problem)


def _check_lease_seconds(value: float | None) -> None:
    if value is not None:
        _check_seconds("lease_seconds", value, CORE_LIMITS.lease_seconds_max)


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise `BadFlow` where the code creates the command, if the arguments are not JSON or too large."""
    if error := next(type_errors(dict(arguments), Any, "arguments"), None):
        raise BadFlow(f"Arguments must be JSON: {error}.", field="arguments")
    if len(json.dumps(dict(arguments))) > CORE_LIMITS.task_bytes_max:
        raise BadFlow(f"Arguments must have at most {CORE_LIMITS.task_bytes_max:,} bytes.", field="arguments")
