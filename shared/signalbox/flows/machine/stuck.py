"""The reasons why a flow cannot continue, each with its location in the user's code.

A stuck flow keeps its messages. It continues after a deployment of fixed code, so each text says what to change.
"""

import json
import sys
import traceback
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType, TracebackType
from typing import Any

from signalbox.core.codec.annotations import parse
from signalbox.core.codec.json_forms import JSON, Codec, WrongValue, encode
from signalbox.core.flow_hooks import Awaited
from signalbox.core.json_values import json_text
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import larger_values, value_bytes_max
from signalbox.core.problems import BadArgument, LeaseEnded, Problem, TooLarge, text_of
from signalbox.flows.limits import LIMITS
from signalbox.flows.problems import BadFlow, TimedOut, refuse_for_code
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.payloads.model import Outgoing, Place

PACKAGE = f"{sys.modules[__name__.partition('.')[0]].__path__[0]}/"
"""The directory of this package."""

FOREIGN = (PACKAGE, f"{json.__file__.rpartition('/json/')[0]}/", "<")
"""The prefixes of the paths of files that are not the user's: the files of the kit and of Python."""

DETAIL_LETTERS_MAX = 1_000

TOO_LARGE = "flow-too-large"

NO_EVENT_LOOP = (
    "A flow runs without an event loop: write `flow.sleep` instead of `asyncio.sleep` and `flow.all` instead of "
    "`asyncio.gather`, and leave input and output to tasks"
)


class Cancelled(BaseException):
    """The flow was cancelled. The error is raised where the flow's code waits, so that the code can clean up.

    The class is a `BaseException`, as in asyncio, so that a loop that retries after each `Problem` does not catch it.
    """


class Stuck(Exception):
    """The code diverged from its log, or raised an error other than a `Problem`, or exceeded a limit.

    `kind` is the type in the status of the flow: `flow-changed`, `flow-failed` or `flow-too-large`. `trace` is the
    stack trace of an error that the code raised.
    """

    def __init__(self, kind: str, detail: str, location: str = "", trace: str = "") -> None:
        super().__init__(detail)
        self.kind, self.detail, self.location, self.trace = kind, detail, location, trace


def diverged(recorded: str, now: str, location: str) -> Stuck:
    """Return the error of code that does not schedule the commands of its log.

    `recorded` and `now` are clauses of the message.
    """
    advice = "Guard the change with `flow.patched(...)` or deploy the previous code."
    return Stuck("flow-changed", f"{recorded}, but the code now {now}{_at(location)}. {advice}", location)


def misused(detail: str, location: str) -> Stuck:
    """Return the error of code that awaits an unsuitable object, or creates a command and keeps no reference to it."""
    return Stuck("flow-changed", f"{detail}{_at(location)}.", location)


def failed(error: BaseException, awaited_at: str = "") -> Stuck:
    """Return the error of code that raised an error other than a `Problem`.

    `awaited_at` is where the flow's own code waits: this place is the error's location if the error was not raised in
    the user's code.
    """
    cause = error.__cause__ if isinstance(error, RuntimeError) else None  # of a StopIteration, Python shows no place
    places = (location_of_error(each.__traceback__) for each in (error, cause) if each)
    location = next(filter(None, places), awaited_at)
    detail = f"{type(error).__name__}: {text_of(error)}"[:DETAIL_LETTERS_MAX]
    if isinstance(error, RuntimeError) and "event loop" in detail:
        detail = f"{detail}. {NO_EVENT_LOOP}"
    traces = (trace_of(each) for each in (cause, error) if each)
    return Stuck("flow-failed", f"{detail}{_at(location)}", location, next(filter(None, traces), ""))


def too_large(detail: str, location: str = "") -> Stuck:
    """Return the error of a flow that exceeds a limit."""
    return Stuck(TOO_LARGE, detail, location)


def stored_json(value: Any, name: str, bytes_max: int, codec: Codec = JSON) -> Any:
    """Return a value as JSON. Raises `Stuck` if the value is not of its declared type, or is too large."""
    try:
        written = encode(codec, value, name)
        size_bytes = len(json_text(written))
    except WrongValue as error:
        detail = str(error)
        raise Stuck("flow-failed", f"{detail[0].upper()}{detail[1:]}.") from error
    except ValueError as error:  # an integer of more digits than Python writes
        raise Stuck("flow-failed", f"{name[0].upper()}{name[1:]} cannot be written as JSON: {error}.") from error
    if size_bytes > bytes_max:
        raise too_large(f"{name[0].upper()}{name[1:]}: {size_bytes:,} bytes; the limit is {bytes_max:,}.")
    return written


def storable_json(value: Any, name: str, bytes_max: int, codec: Codec = JSON) -> Any:
    """Return a value as JSON, which is stored as a payload if it has more than `bytes_max`. Raises `Stuck`."""
    try:
        return stored_json(value, name, value_bytes_max(bytes_max), codec)
    except Stuck as stuck:
        if stuck.kind == TOO_LARGE:
            raise too_large(f"{stuck.detail}{larger_values()}") from stuck
        raise


def checked_json(value: Any, name: str, bytes_max: int, field: str) -> Any:
    """Return a caller's value, which is stored as a payload if it has more than `bytes_max`.

    Raises `BadFlow` if the value is not JSON, and `TooLarge` if the value is too large.
    """
    try:
        storable_json(value, name, bytes_max)
    except Stuck as error:
        raise (TooLarge if error.kind == TOO_LARGE else BadFlow)(error.detail, field=field) from error
    return value


def step_outcome(result: Any, outgoing: Outgoing, place: Place, codec: Codec = JSON) -> CallOutcome:
    """Return the outcome of a step that returned. A result that cannot be stored is an error.

    A large result is a payload at `place`, which is to be stored before the outcome is.
    """
    bytes_max = value_bytes_max(CORE_LIMITS.result_bytes_max)
    try:
        outcome = CallOutcome(encode(codec, result, "the result"))
        size_bytes = len(json_text(outcome.result))
    except ValueError as error:  # also of `WrongValue`, and of an integer of more than 4,300 digits
        return CallOutcome.from_problem(BadArgument(f"The step's result cannot be stored: {error}."))
    if size_bytes > bytes_max:
        detail = f"A step's result must have at most {bytes_max:,} bytes.{larger_values()}"
        return CallOutcome.from_problem(TooLarge(detail))
    return CallOutcome(outgoing.claimed(outcome.result, place, CORE_LIMITS.result_bytes_max))


_RAISING_FOR_CODE = (Awaited.__await__.__code__, parse.__code__, refuse_for_code.__code__)
"""The code of the kit whose errors are for the flow's code to handle."""


def is_misuse(error: BaseException) -> bool:
    """Return whether the kit refused a call of the code, for instance because of impossible arguments.

    A deployment can fix that, so the flow must not fail. A released lock and a wait that took too long are not misuse:
    code may handle them. Neither is the outcome of a command, which is raised in the command's `__await__`, nor the
    error of `parse`: its values come from callers, who must not be able to stop a run that holds a lock.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace else None
    in_kit = code is not None and code not in _RAISING_FOR_CODE and code.co_filename.startswith(PACKAGE)
    return in_kit and isinstance(error, Problem) and not isinstance(error, LeaseEnded | TimedOut)


# --- locations ---


def location_of(code: Any) -> str:
    """Return where code waits, as ``main.py:12 in checkout``: the innermost frame of the user's code."""
    location = ""
    while (frame := frame_of(code)) is not None:
        if not frame.f_code.co_filename.startswith(FOREIGN):
            location = _location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        code = awaited_by(code)
    return location


def frame_of(code: Any) -> FrameType | None:
    """Return the frame of a coroutine, or of the generator of an `__await__`.

    Return None if the code has ended, and for all other objects.
    """
    match code:
        case CoroutineType():
            return code.cr_frame
        case GeneratorType():
            return code.gi_frame
        case AsyncGeneratorType():
            return code.ag_frame
    return None


def awaited_by(code: Any) -> Any:
    """Return the object that a coroutine, or the generator of an `__await__`, awaits, or None."""
    match code:
        case CoroutineType():
            return code.cr_await
        case AsyncGeneratorType():
            return code.ag_await
    return code.gi_yieldfrom


def location_of_error(trace: TracebackType | None) -> str:
    """Return the last frame of an error that is in the user's code."""
    frames = _own_frames(trace)
    last = frames[-1] if frames else None
    return "" if last is None else _location(last.filename, last.lineno or 0, last.name)


def trace_of(error: BaseException) -> str:
    """Return the stack trace of an error, in Python's order: the frames of the user's code, and the line of each frame.

    If the trace is long, only the innermost frames are kept.
    """
    kept: list[str] = []
    for frame in reversed(_own_frames(error.__traceback__)):
        line = f"\n    {frame.line}" if frame.line else ""
        kept.insert(0, f"{_location(frame.filename, frame.lineno or 0, frame.name)}{line}")
        if len("\n".join(kept).encode()) > LIMITS.flow_trace_bytes_max:
            return "\n".join(["…", *kept[1:]])
    return "\n".join(kept)


def _own_frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    """Return the frames of a stack trace that are in the user's code."""
    return [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(FOREIGN)]


def _location(file: str, line: int, name: str) -> str:
    return f"{file.rpartition('/')[2]}:{line} in {name}"


def _at(location: str) -> str:
    return f" ({location})" if location else ""
