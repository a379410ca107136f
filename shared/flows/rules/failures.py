"""Why a flow cannot go on, with the place in its code; and the one exception that a cancel raises in it."""

import traceback
from types import GeneratorType, TracebackType
from typing import Any


class Cancelled(BaseException):
    """The flow was cancelled: raised where its code waits, so that it can clean up.

    A `BaseException`, as asyncio's: code that catches the problems of its steps must not swallow it.
    """


class Stuck(Exception):
    """A flow's code cannot be told what is in its log, or raised something that is no `Problem`.

    `kind` is the type of the problem that people see: `flow-changed`, `flow-failed` or `flow-too-large`.
    """

    def __init__(self, kind: str, detail: str, place: str = "") -> None:
        super().__init__(f"{detail} ({place})" if place else detail)
        self.kind, self.detail, self.place = kind, detail, place


def changed(detail: str, place: str = "") -> Stuck:
    """Return the error of code that asks for something else than the log says."""
    return Stuck("flow-changed", detail, place)


def failed(error: BaseException) -> Stuck:
    """Return the error of a flow whose code raised something that is no `Problem`."""
    return Stuck("flow-failed", f"{type(error).__name__}: {error}"[:1_000], place_of_error(error.__traceback__))


def too_large(detail: str, place: str = "") -> Stuck:
    """Return the error of a flow that exceeds a bound."""
    return Stuck("flow-too-large", detail, place)


def place_of(code: Any) -> str:
    """Return where a generator waits, as ``file.py:12 in checkout``; in the innermost of those that it yields from."""
    while isinstance(inner := getattr(code, "gi_yieldfrom", None), GeneratorType):
        code = inner
    frame = getattr(code, "gi_frame", None)
    return "" if frame is None else _place(code.gi_code.co_filename, frame.f_lineno, code.gi_code.co_name)


def place_of_error(trace: TracebackType | None) -> str:
    """Return where an error was raised in the flow's own code: behind the frames of the kit."""
    frames = [each for each in traceback.extract_tb(trace) if "/shared/" not in each.filename]
    last = frames[-1] if frames else None
    return "" if last is None else _place(last.filename, last.lineno or 0, last.name)


def _place(file: str, line: int, name: str) -> str:
    return f"{file.rpartition('/')[2]}:{line} in {name}"
