"""Tasks of a user's function, and the calls of tasks that its code makes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from signalbox.adapters import runtime
from signalbox.adapters.coroutines import result_of
from signalbox.adapters.deployed_catalogue import deployed
from signalbox.batches.model.units import Unit
from signalbox.batches.requests import BatchSpec
from signalbox.core import calls, flow_hooks
from signalbox.core.codec.json_forms import JSON, Codec, WrongValue, encode
from signalbox.core.dropped_calls import warn_if_dropped
from signalbox.core.effects import receipt_path
from signalbox.core.flow_hooks import check_plain
from signalbox.core.idempotency_keys import Leaves, content_of, idempotency_key, is_repeated
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import value_bytes_max
from signalbox.core.problems import BadArgument
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import TaskContext
from signalbox.tasks.model.contexts import TaskSubject
from signalbox.tasks.requests.enqueues import EnqueueRequest
from signalbox.tasks.requests.signatures import Signature, WrongArguments
from signalbox.tasks.service import enqueues

ENQUEUE = "write `.enqueue()` behind it, or pass it to a wait or a batch"

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Call(calls.Call, flow_hooks.Awaited[R]):
    """A call of a task. Pass it to a wait or a batch, `enqueue` it, or await it in the code of a flow.

    `result` is the codec of the task's result.
    """

    result: Codec = field(default=JSON, compare=False, repr=False)

    def after(self, delay_seconds: float) -> "Call[R]":
        """Return the same call with a delay of `delay_seconds`. Raises `BadCall`."""
        later = calls.Call.after(self, delay_seconds)
        warn_if_dropped(f"{self.task}.call().after", ENQUEUE)
        flow_hooks.note_created(later, f"{self.task}.call()", self)
        return later

    def enqueue(
        self,
        *,
        delay_seconds: float | None = None,
        at: datetime | None = None,
        id: str | None = None,
    ) -> str:
        """Enqueue the task, for now or later; return its operation, under which a failure would be kept.

        `id` identifies a repeat for 32 days. In a task the kit derives an id, which a second delivery repeats. Raises
        `BadCall` for an invalid call or time, `OtherBody` if the id was used for another call.
        """
        bytes_max = value_bytes_max(CORE_LIMITS.task_bytes_max)
        call = self if delay_seconds is None else replace(self, delay_seconds=delay_seconds).checked("call", bytes_max)
        request = EnqueueRequest(deployed(call, "call", may_be_large=True), id or "", at)
        ports = runtime.ports()
        if id:
            return enqueues.by_id(ports, request)
        if name := idempotency_key("enqueue", content_of(call), leaves=Leaves(f"enqueue of {call.task}", receipt_path)):
            return enqueues.from_task(ports, request, name, is_repeated=is_repeated())
        return enqueues.every_time(ports, request)


class Task(Generic[P, R]):
    """A task of a user's function. Calling it runs its code; `call` returns a call for a queue."""

    def __init__(
        self, function: str, code: Callable[..., R], retry_limits: RetryLimits, queue: str, name: str = ""
    ) -> None:
        check_plain(code, "task", has_name=True, may_await=True)
        self.name = name or code.__name__
        self.retry_limits = retry_limits
        self.queue = queue
        update_wrapper(self, code)
        self._function = function
        self._code = code
        self._signature = Signature.from_function(code, (BatchSpec,))

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Run the code in this process, with all of its parameters. An ``async def`` is run to its end."""
        returned: R = result_of(self._code(*args, **kwargs), "task", self.name)
        return returned

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Return a call of this task, for `wait`, `populate` and the like. Arguments are sent as JSON (docs/tasks.md).

        The code of a flow awaits the call, which returns the task's result. Raises `WrongArguments` (a `TypeError`) if
        the arguments do not fit the signature, `TooLarge` over 100 KiB, or 32 MiB with `payloads: true`. A replay of a
        flow does not repeat the checks of an earlier turn, until a call is refused.
        """
        signature, replayed = self._signature, flow_hooks.is_replayed()
        arguments: Mapping[str, Any] = signature.named(args, kwargs)
        try:
            if signature.typed or not replayed:  # the check would take most of the time of a replay
                arguments = signature.encode(arguments)
            call: Call[R] = Call(self._function, self.name, arguments, self.queue, result=signature.result)
            if not replayed:
                call = call.checked(self.name, value_bytes_max(CORE_LIMITS.task_bytes_max))
        except Exception:
            flow_hooks.note_refused()
            raise
        flow_hooks.note_created(call, f"{self.name}.call()")
        warn_if_dropped(f"{self.name}.call", ENQUEUE)
        return call

    @property
    def parameters(self) -> list[str]:
        """The names of the arguments. Optional arguments have a question mark."""
        return self._signature.parameters

    def accepts(self, payload: Mapping[str, Any]) -> bool:
        """Return whether a payload fits the code."""
        try:
            self._signature.decode(payload)
        except WrongArguments:
            return False
        return True

    @property
    def takes_units(self) -> bool:
        """Whether the code takes several units of a batch at once: it has a parameter ``list[Unit]``."""
        return self._signature.takes_units

    def run(
        self, payload: Mapping[str, Any], subject: TaskSubject | Sequence[Unit] | None, context: TaskContext
    ) -> Any:
        """Run the code with arguments from a request. Raises `BadArgument`, and the errors of the code.

        An ``async def`` is cancelled at the end of the delivery's time, and raises `TimeoutError`. Raises `TypeError`
        if the code returns a generator, so that the task is not acknowledged.
        """
        returned = self._code(**self._signature.bind(payload, subject, context))
        return result_of(returned, "task", self.name, context.seconds_left)

    def encoded(self, returned: Any) -> Any:
        """Return the code's result as JSON, for a caller that receives it. Raises `BadArgument`."""
        if self._signature.result is JSON or isinstance(returned, BatchSpec):
            return returned
        try:
            return encode(self._signature.result, returned, "the result")
        except WrongValue as error:
            raise BadArgument(f"The result of {self.name} cannot be stored: {error}.") from error

    def check_is_no_batch(self, returned: Any) -> None:
        """Check what the code returned for no unit. Raises `BadArgument` for a batch, whose units would never run."""
        if isinstance(returned, BatchSpec):
            raise BadArgument(
                f"{self.name} returned a batch, and was not called for a unit of a batch: its calls are not made. "
                "Populate a batch instead: `batch(id).populate(calls)`."
            )

    def joined(self, payloads: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]] | None:
        """Return the payload of one call for several units, or None if these calls must be made one by one.

        Each call must fit the code and pass one item in each list, and all must pass the same arguments.
        """
        names = payloads[0].keys()
        if not all(payload.keys() == names and self._has_one_item_each(payload) for payload in payloads):
            return None
        return {name: [payload[name][0] for payload in payloads] for name in names}

    def _has_one_item_each(self, payload: Mapping[str, Any]) -> bool:
        is_one_each = all(isinstance(items, list) and len(items) == 1 for items in payload.values())
        return is_one_each and self.accepts(payload)

    def results(self, returned: Any, units: int) -> list[Any]:
        """Return one result for each unit, as JSON.

        Raises `BadArgument` if the number of results is not `units`, or a result is a batch.
        """
        if any(isinstance(one, BatchSpec) for one in (returned if isinstance(returned, list) else [returned])):
            raise BadArgument(
                f"{self.name} returned a batch, and takes several units at once: a batch completes one unit. "
                "Take `Unit` instead of `list[Unit]`."
            )
        results = self.encoded(returned)
        if not isinstance(results, list) or len(results) != units:
            raise BadArgument(f"{self.name} was called with {units} units, and must return a list of as many results.")
        return results
