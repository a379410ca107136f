"""The commands and functions for a flow's code: `from signalbox import flow`, then `await flow.sleep(60)`."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, get_type_hints, overload
from weakref import WeakKeyDictionary

from signalbox.adapters import wall_clock
from signalbox.adapters.settings import settings
from signalbox.core.codec.annotations import codec_of
from signalbox.core.codec.json_forms import JSON, Codec
from signalbox.core.codec.json_types import SCALARS
from signalbox.core.codec.sorted_sets import SORTED
from signalbox.core.flow_hooks import check_plain
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import value_bytes_max
from signalbox.core.problems import Problem
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.callbacks import Callback, keys_of
from signalbox.flows.machine.combinations import Settled, check_commands, first_of, release_results
from signalbox.flows.machine.commands import (
    CONTINUE_AS_NEW,
    AllOf,
    AnyOf,
    Batch,
    ContinueAsNew,
    FirstSuccessOf,
    HeldLock,
    Inline,
    Lock,
    NextEvent,
    NextUpdate,
    RatePermits,
    ReceivedUpdate,
    SettledOf,
    Shield,
    Sleep,
    Step,
    batch_of,
)
from signalbox.flows.machine.running_flow import called_at, created, is_running, running_flow
from signalbox.flows.machine.stuck import Cancelled
from signalbox.flows.machine.tree import Handle, earliest, of_kit
from signalbox.flows.model.headers import FlowContext
from signalbox.flows.problems import AllFailed, BadFlow, CannotQuery, CommandCancelled, TimedOut
from signalbox.semaphores.model.priorities import Priority
from signalbox.tasks.model.attempts import TaskContext
from signalbox.tasks.requests.signatures import plain_result, result_codec

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from signalbox.tasks.api import Call

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
P = ParamSpec("P")
T = TypeVar("T")

# --- commands ---


@overload
def step(
    what: "Call[T]",
    *,
    attempts_max: int = 1,
    pause_seconds: float = 0,
    pause_factor: float = 1,
    pause_max_seconds: float = CORE_LIMITS.delay_seconds_max,
    no_retry: tuple[type[Problem], ...] = (),
) -> Step[T]: ...


@overload
def step(
    what: Inline[T],
    *,
    attempts_max: int = 1,
    pause_seconds: float = 0,
    pause_factor: float = 1,
    pause_max_seconds: float = CORE_LIMITS.delay_seconds_max,
    no_retry: tuple[type[Problem], ...] = (),
    timeout_seconds: float | None = None,
) -> Inline[T]: ...


def step(
    what: "Call[T] | Inline[T]",
    *,
    attempts_max: int = 1,
    pause_seconds: float = 0,
    pause_factor: float = 1,
    pause_max_seconds: float = CORE_LIMITS.delay_seconds_max,
    no_retry: tuple[type[Problem], ...] = (),
    timeout_seconds: float | None = None,
) -> Step[T] | Inline[T]:
    """Return a command that runs a task or an inline step, and retries it after a `Problem`: `attempts_max` attempts.

    - `pause_seconds` is the time before the second attempt. Each further pause is `pause_factor` times as long, up to
      `pause_max_seconds` (29 days).
    - `no_retry` are the classes of `Problem` that are not retried, but raised at once.
    - `timeout_seconds` is the time in which an inline step must end: by default 60, at most 480. A task has the
      time-out of its function.

    Raises `BadFlow` for values out of range.
    """
    if not isinstance(what, Inline):
        return created(
            Step(what, attempts_max, pause_seconds, pause_factor, pause_max_seconds, no_retry), "flow.step()"
        )
    seconds = what.timeout_seconds if timeout_seconds is None else timeout_seconds
    timed = Inline(what.function, what.code, attempts_max, pause_seconds, seconds, what.result)
    inline = replace(timed, pause_factor=pause_factor, pause_max_seconds=pause_max_seconds, no_retry=no_retry)
    return created(inline, "flow.step()", instead_of=what)


@overload
def run(function: Callable[Concatenate[TaskContext, P], T], /, *args: P.args, **kwargs: P.kwargs) -> Inline[T]: ...


@overload
def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Inline[T]: ...


def run(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Inline[T]:
    """Return a command that runs a function in this process, without a task: an inline step. Its result is stored.

    The function may be started several times, but the log has one outcome. Each start receives copies of the lists,
    dictionaries, sets and tuples among the arguments: a replay runs no step, so a step cannot change them for the code.
    If the first parameter is a `TaskContext`, the function receives a context, whose `operation` is the same in every
    start. After an error other than a `Problem` the function is started again, ten times in all. Raises `TypeError` for
    an `async def` and for a function with `yield`.
    """
    check_plain(function, "step")

    def code(context: TaskContext) -> T:
        own = _own_copy(function)
        filled = [replace(context, _now=wall_clock.now)] if _takes_context(function) else []
        return own(*filled, *_copied(args), **_copied(kwargs))

    return created(Inline(_name_of(function), code, result=_result_of(function)), "flow.run()")


def _own_copy(function: Callable[..., T]) -> Callable[..., T]:
    """Return a method of a list, dictionary or set as that of a copy, and all other functions unchanged.

    The arguments of a `partial` are copied as those of `run`.
    """
    if isinstance(function, partial):
        return partial(function.func, *_copied(function.args), **_copied(function.keywords))
    of = getattr(function, "__self__", None)
    return getattr(_copied(of), function.__name__) if type(of) in (list, dict, *_SETS) else function


_SETS = (set, SORTED[set])


def _copied(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """Return a deep copy of lists, dictionaries, sets and tuples; other objects in them are not copied."""
    kind, memo = type(value), {} if memo is None else memo
    if kind in _SETS:
        return kind(value)
    if isinstance(value, tuple) and (kind is tuple or hasattr(kind, "_make")):
        items = [_copied(item, memo) for item in value]
        return tuple(items) if kind is tuple else kind._make(items)
    if kind not in (list, dict) or id(value) in memo:
        return memo.get(id(value), value)
    memo[id(value)] = copy = value.copy()
    for key in range(len(copy)) if kind is list else list(copy):
        copy[key] = _copied(copy[key], memo)
    return copy


def _once_for_each_function(ask: Callable[[Callable[..., Any]], T]) -> Callable[[Callable[..., Any]], T]:
    """Return a question about a function whose answer is kept, since replays ask it for each step."""
    answers: WeakKeyDictionary[Callable[..., Any], T] = WeakKeyDictionary()

    def answer(function: Callable[..., Any]) -> T:
        if not isinstance(function, FunctionType):
            return ask(function)
        if function not in answers:
            answers[function] = ask(function)
        return answers[function]

    return answer


def _result_of(function: Callable[..., Any]) -> Codec:
    """Return the codec of a function's result. Raises `TypeError` if the type of the result has no codec."""
    while isinstance(function, partial):
        function = function.func
    return _codec_of_result(function)


@_once_for_each_function
def _codec_of_result(function: Callable[..., Any]) -> Codec:
    annotation = getattr(function, "__annotations__", {}).get("return", Any)
    if annotation is None or annotation is Any or annotation in SCALARS:  # most often
        return plain_result(type(None) if annotation is None else annotation)
    try:
        hints = get_type_hints(function)
    except NameError:  # a type that is known only to a type checker
        return JSON
    return result_codec(function, hints)


def _name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function. Replay compares this name with the name in the log."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


@_once_for_each_function
def _takes_context(function: Callable[..., Any]) -> bool:
    """Return whether the first parameter of a function is a `TaskContext`."""
    try:
        first = _first_parameter(function, eval_str=True)
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    except NameError:  # a type imported only under `TYPE_CHECKING`, perhaps another parameter's
        first = _first_parameter(function, eval_str=False)
    annotation = first.annotation if first else None
    return annotation is TaskContext or str(annotation).rpartition(".")[2] == TaskContext.__name__


def _first_parameter(function: Callable[..., Any], *, eval_str: bool) -> inspect.Parameter | None:
    return next(iter(inspect.signature(function, eval_str=eval_str).parameters.values()), None)


def callback(
    event: str, *, through: str, expires_seconds: float, question: str = "", choices: Sequence[str] = ()
) -> Inline[str]:
    """Return a command whose result is an address at which `event` can be sent to this run once, for `expires_seconds`.

    `through` is a function that calls `app.callbacks()`. The page at the address shows `question` and a button for each
    of the `choices`, whose text is the event's value. Without choices it has one button, and the value is null. A POST
    with a JSON body sends the body. The address is a secret. An inline step signs it, so the address is the same in
    every replay. Raises `BadFlow` if `expires_seconds` is more than a year, `question` has more than 300 bytes, or a
    choice more than 60 characters.
    """
    driver = running_flow("flow.callback")
    if not 0 < expires_seconds <= LIMITS.flow_callback_seconds_max:
        raise BadFlow(
            f"`expires_seconds` must be above 0 and at most {LIMITS.flow_callback_seconds_max:,.0f}.",
            field="expires_seconds",
        )
    context, incarnation = driver.context, driver.position.seed.rpartition("-")[0]
    expires_at = int(now().timestamp() + expires_seconds)
    made = Callback.checked(through, (context.flow, context.id, incarnation), event, expires_at, question, choices)

    def sign(step: TaskContext) -> str:
        token = replace(made, operation=step.operation).token(keys_of(settings().callback_keys))
        return f"{settings().page_address_of(through)}/callbacks/{token}"

    return created(Inline(f"callback {event}", sign), "flow.callback()")


def sleep(seconds: float) -> Sleep:
    """Return a command that waits for `seconds`, a year at most. Waiting costs nothing."""
    return created(Sleep(seconds), "flow.sleep()")


@overload
def event(name: str) -> NextEvent[Any]: ...


@overload
def event(name: str, type: "TypeForm[T]") -> NextEvent[T]: ...


def event(name: str, type: Any = Any) -> NextEvent[Any]:
    """Return a command that waits for the next event called `name`. The result of the command is the event's value.

    Events that arrive before the wait are kept. `type` is the type of the value, for instance `str`, a dataclass or
    `Approval | None`; a type checker knows that the result has this type. A value of another type, or with a field that
    the type does not have, is raised as a `BadArgument`. Raises `TypeError` for a type that an argument of a task
    cannot have, or that is written as a text. A visible mistake is refused when the flow is loaded.
    """
    codec_of(type, f"the event {name!r}")
    return created(NextEvent(name, type), "flow.event()")


@overload
def update(name: str) -> NextUpdate[Any]: ...


@overload
def update(name: str, type: "TypeForm[T]") -> NextUpdate[T]: ...


def update(name: str, type: Any = Any) -> NextUpdate[Any]:
    """Return a command that waits for the next update called `name`. Its result has the `value`, and is to be answered.

    The sender of an update waits for the answer: `received.answer(result)`, or `received.refuse(Problem(…))`. Updates
    that arrive before the wait are kept. `type` is the type of the value, as for `event`; an update with another value
    is answered with a `BadArgument`, and the code does not receive it. Without an answer, the next execution of
    `continue_as_new` receives the update, and a run that ends refuses it. Raises `TypeError` for a type that an
    argument of a task cannot have, or that is written as a text. A visible mistake is refused when the flow is loaded.
    """
    codec_of(type, f"the update {name!r}")
    return created(NextUpdate(name, type), "flow.update()")


def lock(
    semaphore: str,
    *,
    permits: int = 1,
    lease_seconds: float | None = None,
    key: str = "",
    priority: Priority = "normal",
) -> Lock:
    """Return a command that waits for permits of a semaphore, for ``async with``. Its result is a `HeldLock`.

    `key` and `priority` mean the same as in `semaphore(…).wait`: they decide how waiters share the permits.
    """
    return created(Lock(semaphore, permits, lease_seconds, key, priority), "flow.lock()")


def rate(name: str, *, weight: int = 1) -> RatePermits:
    """Return a command that waits until `weight` permits of a rate are granted. Its result is None."""
    return created(RatePermits(name, weight), "flow.rate()")


def batch(
    calls: Iterable["Call[Any]"],
    *,
    failures_max: int | None = None,
    semaphore: str = "",
    rate: str = "",
    weight: int | str = 1,
) -> Batch:
    """Return a command that runs many calls of one task. The command's result has `size`, `succeeded` and `failed`.

    With `semaphore`, each unit runs under a permit of the semaphore that has this name. With `rate`, each unit takes
    `weight` permits of the rate that has this name when the unit starts, as in `batch(…).populate`.
    """
    return created(batch_of(calls, failures_max, semaphore, rate, weight), "flow.batch()")


@overload
def all(a: Awaitable[A], b: Awaitable[B], /) -> AllOf[tuple[A, B]]: ...


@overload
def all(a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /) -> AllOf[tuple[A, B, C]]: ...


@overload
def all(a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], /) -> AllOf[tuple[A, B, C, D]]: ...


@overload
def all(
    a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], e: Awaitable[E], /
) -> AllOf[tuple[A, B, C, D, E]]: ...


@overload
def all(*items: Awaitable[T]) -> AllOf[list[T]]: ...


def all(*items: Awaitable[Any]) -> AllOf[Any]:
    """Return a command that waits until all of several commands and coroutines have ended. They run concurrently.

    Its result is the list of their results. The first error is raised once the other items have been cancelled and have
    ended. As with `asyncio.gather`, a type checker sees a tuple if there are only a few items.
    """
    return created(AllOf(items), "flow.all()")


@overload
def first(*items: Awaitable[T]) -> AnyOf[tuple[int, T]]: ...


@overload
def first(**named: Awaitable[T]) -> AnyOf[tuple[str, T]]: ...


def first(*items: Awaitable[Any], **named: Awaitable[Any]) -> AnyOf[Any]:
    """Return a command that waits for the first of several commands to end. The other commands are abandoned.

    The result is `(which, result)`; `which` is the name of the command that ended, or its position, counted from 0.
    Raises `TypeError` for a coroutine, which could be abandoned half done.
    """
    return created(first_of(items, named), "flow.first()")


@overload
def first_success(*items: Awaitable[T]) -> FirstSuccessOf[tuple[int, T]]: ...


@overload
def first_success(**named: Awaitable[T]) -> FirstSuccessOf[tuple[str, T]]: ...


def first_success(*items: Awaitable[Any], **named: Awaitable[Any]) -> AnyOf[Any]:
    """Return a command that waits for the first of several commands that succeeds. The others are abandoned.

    The result has the same form as the result of `first`. If all commands fail, the command raises `flow.AllFailed`, a
    `Problem` with the `errors`.
    """
    return created(first_of(items, named, FirstSuccessOf, "flow.first_success()"), "flow.first_success()")


def settled(*items: Awaitable[T]) -> SettledOf[list[Settled[T]]]:
    """Return a command that waits for several commands. The result is a list of `Settled`, also if commands fail.

    A `Settled` has the result or the error of one command.
    """
    return created(SettledOf(items), "flow.settled()")


def shield(item: Awaitable[T]) -> Shield[T]:
    """Return a command that waits for a command or a coroutine, and that a cancel of the flow does not interrupt.

    The cancel is raised at the next `await` that is not shielded.
    """
    return created(Shield(item), "flow.shield()")


def begin(item: Awaitable[T]) -> Handle[T]:
    """Begin a command now, and return a handle that can be awaited later, any number of times.

    A cancel of the run, an error of its code, or a `first` that another command wins ends the wait for the handle, but
    not the command. `handle.cancel()` abandons the command, and so does the end of the code. `handle.done` is True once
    the command has ended. Raises `TypeError` for a coroutine, which could be abandoned half done.
    """
    return _begun(item, "flow.begin()", called_at(2))


def _begun(item: Any, name: str, location: str) -> Handle[Any]:
    if isinstance(item, Handle):
        return item
    check_commands((item,), name)
    handle: Handle[Any] = running_flow("flow.begin").begin(item, location)
    return created(handle, name, frames=3, instead_of=item)


def as_completed(*items: Awaitable[T]) -> "AsCompleted[T]":
    """Begin several commands now, and iterate over their handles in the order in which they end, with ``async for``.

    ``await handle`` then returns the result of the command at once, or raises its error. An item that already is a
    handle is yielded unchanged. Raises `TypeError` for a coroutine.
    """
    location = called_at(2)
    return AsCompleted([_begun(item, "flow.as_completed()", location) for item in items])


class AsCompleted(Generic[T]):
    """The handles of `as_completed` that have not been returned yet."""

    def __init__(self, handles: Iterable[Handle[T]]) -> None:
        self._left = [*handles]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Handle[T]:
        if not self._left:
            raise StopAsyncIteration
        if not any(handle.done for handle in self._left):
            await first(*[settled(handle) for handle in self._left])
        handle = earliest(self._left)
        self._left.remove(handle)
        return handle


def wait_for(item: Awaitable[T], timeout_seconds: float) -> Coroutine[Any, Any, T]:
    """Wait for a command, and return its result. After `timeout_seconds`, abandon the command, as `first` does.

    Raises `flow.TimedOut` if the time is over, and `TypeError` for a coroutine, which could be abandoned half done.
    """
    check_commands((item,), "flow.wait_for()")
    return _created(_wait_for(item, timeout_seconds), "flow.wait_for()")


@of_kit
async def _wait_for(item: Awaitable[T], timeout_seconds: float) -> T:
    which, result = await first(done=item, late=sleep(timeout_seconds))
    if which == "late":
        raise TimedOut(f"It has not ended within {timeout_seconds:,g} seconds.")
    return cast("T", result)


def map(
    function: Callable[[A], Awaitable[T]], items: Iterable[A], *, at_once: int = 50
) -> Coroutine[Any, Any, list[T]]:
    """Call a function for each of many items, and await each result. At most `at_once` items are in progress at a time.

    Returns the results in the order of the items. The first error is raised once the other calls have been cancelled
    and have ended; the locks that calls have returned are released. Raises `ValueError` for `at_once` outside of 1 to
    90.
    """
    if not 1 <= at_once <= LIMITS.flow_pending_max:
        raise ValueError(f"at_once must be from 1 to {LIMITS.flow_pending_max}, not {at_once}")
    return _created(_map(function, items, at_once), "flow.map()")


@of_kit
async def _map(function: Callable[[A], Awaitable[T]], items: Iterable[A], at_once: int) -> list[T]:
    driver, results = running_flow("flow.map"), dict[int, T]()
    left = iter(enumerate(items))

    failed = False

    @of_kit
    async def take() -> None:
        nonlocal failed
        # code that catches its cancel begins no further call
        while not failed and not driver.cancels and (taken := next(left, None)):
            number, item = taken
            try:
                results[number] = await function(item)
            except Problem:
                failed = True
                raise

    held = frozenset(driver.held)
    try:
        await all(*[take() for _ in range(at_once)])
    except BaseException:
        release_results(driver, [*results.values()], held)
        raise
    return [results[number] for number in sorted(results)]


def _created(code: Coroutine[Any, Any, T], name: str) -> Coroutine[Any, Any, T]:
    """Record that the code has created a coroutine of the kit, which is a command as the others are."""
    try:
        return created(code, name, 3)
    except CannotQuery:
        code.close()
        raise


def continue_as_new(**arguments: Any) -> ContinueAsNew:
    """Return a value for the flow's code to return: the flow then starts again with these arguments and an empty log.

    Events that the code has not waited for are kept. Raises `WrongArguments` (a `TypeError`) for arguments that do not
    fit the flow.
    """
    written = running_flow("flow.continue_as_new").encode(arguments) if is_running() else arguments
    return created(ContinueAsNew(written), CONTINUE_AS_NEW)


# --- functions without a wait ---


def send(call: "Call[Any]") -> None:
    """Send a task without waiting for it. It is enqueued by the commit of this turn."""
    driver = running_flow("flow.send")
    if not driver.replayed:
        try:
            call.checked("call", value_bytes_max(CORE_LIMITS.task_bytes_max))
        except Problem:
            driver.refused()
            raise
    driver.send(call)


def progress(value: Any) -> None:
    """Set the JSON value that the status of the run shows as its progress."""
    running_flow("flow.progress").show(value)


def label(name: str, value: str | None) -> None:
    """Set a label of the run; None removes the label. Lists and counts can select runs by their labels.

    The commit of this turn stores the change. Raises `BadFlow` for a name that does not match `[a-z][a-z0-9_-]{0,62}`,
    a value of more than 200 bytes, or more than 10 labels.
    """
    running_flow("flow.label").label(name, value)


def answer(query: str, function: Callable[..., Any]) -> None:
    """Register the function that answers a query such as `flows(…).query("basket")`.

    A later call for the same query replaces the function. A query replays the log, calls the function and drops the
    code. The function sees the variables of the code as they are where the code waits, takes the arguments of the query
    by name, and returns JSON. It must not act: of `flow`, only `now` and `context` work in it. Nothing is recorded, so
    a deployment may add queries for runs under way.

    Raises `BadFlow` for a name that does not match `[A-Za-z][A-Za-z0-9_]{0,99}` or more than 100 queries, and
    `TypeError` for an `async def`.
    """
    running_flow("flow.answer").answer(query, function)


def context() -> FlowContext:
    """Return the facts about the run: the `flow`, the run's `id`, its `generation` and its `parent`."""
    known: FlowContext = running_flow("flow.context").context
    return known


def _is_outside(line: logging.LogRecord) -> bool:
    """Return False for a log line of a flow's code: the commit of the turn writes such lines."""
    if not is_running():
        return True
    running_flow("flow.log").log(line)
    return False


log = logging.getLogger("signalbox.flow")
"""A logger for the code of a flow. Each line begins with the run, and is written once the turn that logged it commits.
"""

log.addFilter(_is_outside)


def now() -> datetime:
    """Return the server's time of the last applied entry: the same in every replay."""
    time: datetime = running_flow("flow.now").position.time()
    return time


def random() -> float:
    """Return a random number from 0 to 1: the same in every replay."""
    number: float = running_flow("flow.random").position.random()
    return number


def uuid() -> str:
    """Return a random UUID: the same in every replay."""
    digits: str = running_flow("flow.uuid").position.draw()[:32]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def patched(name: str) -> bool:
    """Return whether the new code runs here.

    The old code runs if this run passed this place before the patch was deployed.
    """
    holds: bool = running_flow("flow.patched").position.patched(name)
    return holds


__all__ = [
    "AllFailed",
    "Cancelled",
    "CommandCancelled",
    "Handle",
    "HeldLock",
    "ReceivedUpdate",
    "Settled",
    "TimedOut",
    "all",
    "answer",
    "as_completed",
    "batch",
    "begin",
    "callback",
    "context",
    "continue_as_new",
    "event",
    "first",
    "first_success",
    "label",
    "lock",
    "log",
    "map",
    "now",
    "patched",
    "progress",
    "random",
    "rate",
    "run",
    "send",
    "settled",
    "shield",
    "sleep",
    "step",
    "update",
    "uuid",
    "wait_for",
]
