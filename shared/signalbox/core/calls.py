"""Calls of users' tasks: they run when a permit is granted, for each unit of a batch, when a batch is complete.

As JSON a call is ``{"function", "task", "payload", "queue"?, "delay_seconds"?}``. It names a function of the catalogue
and never a URL, so no client can make the kit call another address. The task is later POSTed to ``/tasks/{task}`` of
that function, with its payload and its *context*: the lease, the unit or the batch that it runs for.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Self

from signalbox.core.effects import Effect, name_of
from signalbox.core.kit_names import FLOW_RESULT_TASK, TASKS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import DECLARED, LIMITS, larger_values
from signalbox.core.problems import BadArgument, BadCall, TooLarge, WaitOfFlow
from signalbox.core.surface.field_rules import MAY_BE_ABSENT, Described, Seconds
from signalbox.core.surface.request_fields import RequestFields
from signalbox.core.times import rfc3339

_FUNCTION = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

_TASK = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")

_QUEUE = re.compile(r"[a-z][a-z0-9-]{0,62}")

QUEUE = Described({"pattern": f"^{_QUEUE.pattern}$"})
"""The name of a queue."""

_FIELDS = ("function", "task", "payload", "queue", "delay_seconds")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function's `task`. It is sent through `queue`, `delay_seconds` after it is due."""

    function: Annotated[str, Described({"pattern": f"^{_FUNCTION.pattern}$"})]
    """The name of a function in the catalogue."""

    task: Annotated[str, Described({"pattern": f"^{_TASK.pattern}$"})]

    payload: Annotated[Mapping[str, Any], MAY_BE_ABSENT]
    """The task's arguments, at most 100 KiB."""

    queue: Annotated[str, QUEUE] = TASKS_QUEUE
    delay_seconds: Annotated[float, Seconds(lambda: LIMITS.delay_seconds_max, zero=True)] = 0

    @classmethod
    def from_request(cls, value: Any, field: str = "", bytes_max: int | None = None) -> Self:
        """Parse a call in a request. Raises `BadCall` or `TooLarge`.

        `field` is the call's place in the request, empty if the call is the whole body. `bytes_max` is as in `checked`.
        """
        fields = RequestFields(_object(value, field), BadCall, field).only(*_FIELDS)
        return cls(
            function=fields.value("function"),
            task=fields.value("task"),
            payload=fields.value("payload", {}),
            queue=fields.value("queue", TASKS_QUEUE),
            delay_seconds=fields.value("delay_seconds", 0),
        ).checked(field, bytes_max)

    def checked(self, field: str, bytes_max: int | None = None) -> Self:
        """Return this call with its delay as a float. Raises `BadCall` or `TooLarge` naming the place below `field`.

        `bytes_max` is the largest size of the payload, by default that of a task's.
        """
        at = f"{field}." if field else ""
        _check_name(self.function, _FUNCTION, f"{at}function")
        _check_name(self.task, _TASK, f"{at}task")
        _check_name(self.queue, _QUEUE, f"{at}queue")
        check_payload(self.payload, f"{at}payload", LIMITS.task_bytes_max if bytes_max is None else bytes_max)
        return replace(self, delay_seconds=_delay(self.delay_seconds, f"{at}delay_seconds"))

    def after(self, delay_seconds: float) -> Self:
        """Return the same call with a delay of `delay_seconds`. Raises `BadCall`."""
        return replace(self, delay_seconds=_delay(delay_seconds, "delay_seconds"))

    def check_cancel(self, *, by_flow: bool) -> None:
        """Raise `WaitOfFlow` if this continues a flow's wait, unless the flow itself cancels that wait (`by_flow`)."""
        if self.is_of_flow and not by_flow:
            run = self.shown().get("flow", "")
            raise WaitOfFlow(f"The flow {run} waits here, and would wait forever. Cancel the flow: that ends its wait.")

    @property
    def is_of_flow(self) -> bool:
        """Whether this call posts a result to a flow."""
        return self.task == FLOW_RESULT_TASK

    def shown(self) -> dict[str, str]:
        """Return the function and the task, as lists show a call. The payload is left out, because it may be large.

        For the internal task that posts a result to a flow, also return the run (``checkout/order-7``) and the place in
        the run's log.
        """
        shown = {"function": self.function, "task": self.task}
        if self.task != FLOW_RESULT_TASK or "flow" not in self.payload:
            return shown
        run = str(self.payload["flow"]).partition("/")[2].replace("~", "/", 1)
        return shown | {"flow": run, "step": str(self.payload.get("path", ""))}

    @property
    def digest(self) -> str:
        """A hash of the call without its time. A repeat under the same id must have the same hash."""
        return name_of(json.dumps([self.function, self.task, self.payload, self.queue], sort_keys=True))

    def to_request(self) -> dict[str, Any]:
        """Undo `from_request`."""
        return {name: getattr(self, name) for name in _FIELDS}

    def to_record(self) -> dict[str, Any]:
        """Return the call as stored: its payload as text, so that any JSON fits."""
        return {
            "function": self.function,
            "task": self.task,
            "payload": json.dumps(self.payload),
            "queue": self.queue,
            "delay_seconds": self.delay_seconds,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Undo `to_record`."""
        return cls(**{**record, "payload": json.loads(record["payload"])})

    def effect(self, name: str, now: datetime | None, **context: Any) -> Effect:
        """Return this call as the effect `name`. `context` contains the ``lease``, ``unit`` or ``batch`` of the effect.

        `now` may be None for a call without a delay.
        """
        assert now is not None or not self.delay_seconds, "a delay begins now"
        return Effect(
            name=name,
            queue=self.queue,
            function=self.function,
            task=self.task,
            payload=self.payload,
            path=f"/tasks/{self.task}",
            not_before=now + timedelta(seconds=self.delay_seconds) if now and self.delay_seconds else None,
            context=_as_json(context),
        )


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, Mapping):
        return {name: _as_json(item) for name, item in value.items()}
    return value


def _object(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadCall(f"`{field}` must be an object.", field=field)
    return value


def _check_name(name: Any, pattern: re.Pattern[str], field: str) -> None:
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise BadCall(f"`{field}` must match {pattern.pattern}.", field=field)


def check_payload(payload: Any, field: str, bytes_max: int) -> None:
    """Raise `BadCall` or `TooLarge` unless a payload is an object of at most this size as JSON."""
    text = json.dumps(_object(payload, field), ensure_ascii=False, separators=(",", ":"))
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > bytes_max:
        limit = f"A payload has at most {bytes_max:,} bytes; this has {size_bytes:,}.{larger_values()}"
        raise TooLarge(limit, field=field)


def _delay(value: Any, field: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not 0 <= value <= LIMITS.delay_seconds_max:
        raise BadCall(f"`{field}` must be a number of seconds, 0 to {LIMITS.delay_seconds_max:,}.", field=field)
    return float(value)


# --- the arguments of tasks that the catalogue declares ---


Parameters = Mapping[str, Mapping[str, Sequence[str]]]
"""The arguments of tasks, by the names of function and task. Optional arguments have a question mark: ``["size?"]``."""


def check_arguments(known: Parameters, call: Call, field: str) -> None:
    """Check that a call has all arguments that its task requires, and no unknown ones. Types are not checked.

    A call of a task that is not in `known` is accepted. `field` is the place of the payload. Raises `BadArgument`.
    """
    check_names(known, call, field)
    parameters = known.get(call.function, {}).get(call.task, ())
    required = {parameter for parameter in parameters if not parameter.endswith("?")}
    if missing := sorted(required - call.payload.keys()):
        raise BadArgument(f"{call.task} needs the argument {missing[0]!r}.", field=f"{field}.{missing[0]}")


def check_names(known: Parameters, call: Call, field: str) -> None:
    """Check that a call has only arguments that its task takes. Raises `BadArgument`."""
    parameters = known.get(call.function, {}).get(call.task)
    if parameters is None:
        return
    names = {parameter.rstrip("?") for parameter in parameters}
    if unknown := sorted(call.payload.keys() - names):
        taken = ", ".join(parameters) or "none"
        detail = f"{call.task} takes no argument {unknown[0]!r}. Its arguments (? may be left out): {taken}."
        raise BadArgument(detail, field=f"{field}.{unknown[0]}")


def declared_parameters() -> Parameters:
    """Return the arguments of tasks that the catalogue of this process declares."""
    return parsed_parameters(DECLARED.get("task_parameters", "{}"))


@lru_cache(maxsize=8)
def parsed_parameters(text: str) -> Parameters:
    """Parse the arguments of tasks, as the settings have them."""
    parsed: Parameters = json.loads(text)
    return parsed


# --- calls inside the code of a flow ---
