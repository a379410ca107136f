"""The commands that a flow's code awaits. A command is a value; it is scheduled when the code awaits it.

    paid = await flow.step(charge.call(order=7), attempts_max=5)
    packed, label = await flow.all(pack.call(order=7), labels.call(order=7))
    which, who = await flow.first(approved=flow.event("approved", str), late=flow.sleep(86_400))

Replay compares the signatures of commands: their kind and name, not their arguments.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime
from types import CoroutineType, TracebackType
from typing import Any, ClassVar, Generic, Protocol, Self, TypedDict, TypeVar

from signalbox.batches.problems import BadBatch
from signalbox.core.calls import Call
from signalbox.core.codec.annotations import codec_of
from signalbox.core.codec.json_forms import JSON, Codec, WrongValue, decode
from signalbox.core.codec.json_types import type_errors
from signalbox.core.flow_hooks import Awaited
from signalbox.core.json_values import json_text
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import larger_values, value_bytes_max
from signalbox.core.problems import BadArgument, LeaseEnded, Problem, UnknownTask
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.retries import Retried
from signalbox.flows.machine.running_flow import created, current_branch, current_flow, running_flow
from signalbox.flows.model.messages import SUB_FLOW
from signalbox.flows.problems import BadFlow, check_count, check_seconds, check_text
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.objects.problems import NoSuchMethod
from signalbox.rates.problems import BadRate, NoRate
from signalbox.semaphores.limits import LIMITS as SEMAPHORE_LIMITS
from signalbox.semaphores.model.priorities import Priority
from signalbox.semaphores.problems import BadSemaphore, NoSemaphore
from signalbox.semaphores.requests import check_lane_key, check_priority
from signalbox.tasks.model.attempts import TaskContext

T = TypeVar("T")


# --- commands ---


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Command(Awaited[T]):
    """An operation that a flow can wait for."""

    kind: ClassVar[str] = ""

    refusals: ClassVar[tuple[type[Problem], ...]] = ()
    """The problems with which the kit refuses a command of this kind because of its arguments."""

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
        check_seconds("timeout_seconds", self.timeout_seconds, LIMITS.inline_timeout_seconds_max)

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
        check_seconds("seconds", self.seconds, MAILBOXES_LIMITS.call_later_seconds_max)


@dataclass(frozen=True, slots=True, eq=False)
class NextEvent(Command[T]):
    """Wait for the next event of a name.

    The result is the event's value, or an error if the value is not of the `type`.
    """

    kind = "event"
    event: str
    type: Any = Any

    def __post_init__(self) -> None:
        check_event_name(self.event)

    @property
    def name(self) -> str:
        return self.event

    def outcome_of(self, value: Any, *, stored: bool) -> CallOutcome:
        """Return the outcome of an event's value. Unknown fields are an error, unless the value is read as `stored`."""
        return _decoded(self.type, value, f"the event {self.event}", stored=stored)


class Answers(Protocol):
    """The driver, as updates see it."""

    def reply(self, number: int, outcome: CallOutcome) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedUpdate(Generic[T]):
    """An update that the code has received, and whose caller waits for the answer. `value` is its value."""

    name: str
    value: T
    _number: int
    _run: Answers

    def answer(self, result: Any = None) -> None:
        """Answer the update: its callers receive `result`, once the commit of this turn has landed.

        Raises `BadFlow` if the code has answered it before, or does not run, and `CannotQuery` in a query.
        """
        self._reply("answer", CallOutcome(result))

    def refuse(self, problem: Problem) -> None:
        """Answer the update with a problem, which is raised for its callers. Raises as `answer` does."""
        if not isinstance(problem, Problem):
            raise TypeError(f"An update is refused with a `Problem`, not with {type(problem).__name__}.")
        self._reply("refuse", CallOutcome(raised=problem))

    def _reply(self, method: str, outcome: CallOutcome) -> None:
        running_flow(f"update.{method}")
        self._run.reply(self._number, outcome)


@dataclass(frozen=True, slots=True, eq=False)
class NextUpdate(Command[ReceivedUpdate[T]]):
    """Wait for the next update of a name whose value is of the `type`. Others are answered with an error."""

    kind = "update"
    update: str
    type: Any = Any

    def __post_init__(self) -> None:
        check_event_name(self.update, "an update")

    @property
    def name(self) -> str:
        return self.update

    def outcome_of(self, value: Any, *, stored: bool) -> CallOutcome:
        """Return the decoded value, or the error with which the update is answered, as for an event."""
        return _decoded(self.type, value, f"the update {self.update}", stored=stored)


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
        check_count("permits", self.permits, SEMAPHORE_LIMITS.permits_max)
        _check_lease_seconds(self.lease_seconds)
        if self.key:
            check_lane_key(self.key)
        check_priority(self.priority)

    @property
    def name(self) -> str:
        return self.semaphore

    async def __aenter__(self) -> "HeldLock":
        held = await self
        self._entered.append((current_branch(), held))
        return held

    async def __aexit__(self, *_: object) -> None:
        """Release the lock that this branch entered last.

        Other branches, and other runs of this process, may have entered the same command.
        """
        of_run = [entered for entered in self._entered if entered[1].is_of(current_flow())]
        entered = [entered for entered in of_run if entered[0] == current_branch()] or of_run
        if entered:  # a run that is collected is not the current one, and what its code does has no effect
            self._entered.remove(entered[-1])
            entered[-1][1].release()


@dataclass(frozen=True, slots=True, eq=False)
class RatePermits(Command[None]):
    """Wait for permits of a rate. The permits become free again with time."""

    kind = "rate"
    refusals = (NoRate, BadRate)
    rate: str
    weight: int = 1

    def __post_init__(self) -> None:
        check_count("weight", self.weight, CORE_LIMITS.burst_max)

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
    result: Codec = JSON

    def __post_init__(self) -> None:
        _check_arguments(self.arguments, value_bytes_max(CORE_LIMITS.task_bytes_max))

    @property
    def name(self) -> str:
        return f"{self.address.name}.{self.method}"

    @property
    def codec(self) -> Codec:
        return self.result


@dataclass(frozen=True, slots=True, eq=False)
class SubFlow(Command[T]):
    """Run another flow. `function` has its code. `id` is the id of the run; if it is empty, an id is made."""

    kind = SUB_FLOW
    function: str
    flow: str
    arguments: Mapping[str, Any]
    result: Codec = JSON
    id: str = ""

    def __post_init__(self) -> None:
        _check_arguments(self.arguments, value_bytes_max(CORE_LIMITS.task_bytes_max))

    @property
    def name(self) -> str:
        return self.flow

    @property
    def codec(self) -> Codec:
        return self.result


class BatchResult(TypedDict):
    """A batch that has ended: the number of its units, and how many of them succeeded and how many failed.

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
    """Return an awaited value as a command, or None for a value of another kind.

    The call of a task becomes a step with one attempt.
    """
    if isinstance(value, Call):
        return Step(value)
    return value if isinstance(value, Command) else None


def batch_of(
    calls: Iterable[Call], failures_max: int | None, semaphore: str, rate: str = "", weight: int | str = 1
) -> Batch:
    """Return a batch of calls. Raises `BadFlow` unless all calls are of the same task."""
    known = tuple(calls)
    if len({(call.function, call.task, call.queue) for call in known}) > 1:
        raise BadFlow("All calls of a flow's batch must be of one task.", field="calls")
    return Batch(known, failures_max, semaphore, rate, weight) if known else Batch(known, failures_max)


CONTINUE_AS_NEW = "flow.continue_as_new()"


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class ContinueAsNew:
    """The value that a flow returns to start a new execution with an empty log and other arguments."""

    arguments: Mapping[str, Any]


# --- combinations ---


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class AllOf(Awaited[T]):
    """All of several commands and coroutines. The first error is raised once the others have been cancelled."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class AnyOf(Awaited[T]):
    """The first of several commands. The others are abandoned. `keys` are the names of the commands in the result."""

    items: tuple[Any, ...]
    keys: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FirstSuccessOf(AnyOf[T]):
    """The first of several commands that succeeds. The others are abandoned."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class SettledOf(Awaited[T]):
    """All of several commands. The result has a `Settled` for each command, and no error is raised."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Shield(Awaited[T]):
    """A command or a coroutine that no cancel interrupts."""

    item: Any


def branches_in(item: Any) -> list[Any]:
    """Return the coroutines among the items that the code waits for."""
    match item:
        case CoroutineType():
            return [item]
        case AllOf() | AnyOf() | SettledOf():
            inner = item.items
        case Shield():
            inner = (item.item,)
        case _:
            inner = ()
    return [branch for each in inner for branch in branches_in(each)]


def has_shield(item: Any) -> bool:
    """Return whether an item is shielded, or is a group with a shielded part."""
    match item:
        case Shield():
            return True
        case AllOf() | AnyOf() | SettledOf():
            return any(map(has_shield, item.items))
    return False


# --- locks ---


class LeaseHolder(Protocol):
    """The driver, as locks see it: the held leases by the paths of their locks."""

    held: dict[str, dict[str, Any]]

    def release(self, path: str) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class HeldLock:
    """A lease of `semaphore` until `ends_at`, released at the end of a ``with`` block or of the flow at the latest.

    `token` is a fencing token: the protected resource can refuse a caller whose token is smaller than a token that the
    resource has seen.
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

    def is_of(self, holder: object) -> bool:
        """Return whether a run holds the lock."""
        return self._holder is holder

    def is_below(self, path: str) -> bool:
        """Return whether the lock was taken at a path or below it."""
        return f"{self._path}.".startswith(f"{path}.")

    def release(self) -> bool:
        """Release the permits; return whether the flow still held them, as far as the flow knows."""
        return self._holder.release(self._path)

    def renew(self, lease_seconds: float | None = None) -> Renew:
        """Return a command that extends the lease, by `lease_seconds` or by the original number of seconds.

        Awaiting the command raises `LeaseEnded` if the lease has expired. This method raises `LeaseEnded` if the lock
        was released.
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


def _decoded(type_: Any, value: Any, what: str, *, stored: bool) -> CallOutcome:
    try:
        return CallOutcome(decode(codec_of(type_, what), value, what, stored=stored))
    except WrongValue as error:
        return CallOutcome(raised=BadArgument(f"{error}.", field="value"))


def check_event_name(name: Any, what: str = "an event") -> str:
    """Return the name of an event or of an update. Raises `BadFlow`."""
    check_text(name, f"The name of {what}", LIMITS.flow_event_name_bytes_max, "name")
    return str(name)


def _check_lease_seconds(value: float | None) -> None:
    if value is not None:
        check_seconds("lease_seconds", value, CORE_LIMITS.lease_seconds_max)


def _check_arguments(arguments: Mapping[str, Any], bytes_max: int) -> None:
    """Raise `BadFlow` where the code creates the command, if the arguments are not JSON or too large."""
    if error := next(type_errors(dict(arguments), Any, "arguments"), None):
        raise BadFlow(f"Arguments must be JSON: {error}.", field="arguments")
    if len(json_text(dict(arguments))) > bytes_max:
        raise BadFlow(f"Arguments must have at most {bytes_max:,} bytes.{larger_values()}", field="arguments")
