"""Warn about a call that only returns an object, where the code drops that object: the call has no effect.

`mail.call(order)` sends nothing, and `flow.sleep(3)` outside of a flow waits for nothing. Python warns in the same way
about a coroutine that is never awaited. The driver of flows notices more, and raises an error (`flows.machine.tree`).
"""

import sys
import warnings
from opcode import opmap
from types import CodeType, FrameType

from signalbox.core import flow_hooks

NO_EFFECT = "has no effect"
KIT = "signalbox"
_CACHE, _POP_TOP = opmap["CACHE"], opmap["POP_TOP"]
"""Instructions of CPython: room that a call keeps for its specialised form, and the end of a statement."""


def warn_if_dropped(name: str, instead: str) -> None:
    """Warn if the code that has called the kit drops the result of this call. `instead` is what to write.

    `name` is the called function as the code may write it, such as ``mail.call``. In a flow, nothing is warned about.
    """
    if flow_hooks.is_in_flow():
        return
    frame = _of_user()
    if frame is None or not _is_dropped(frame.f_code, frame.f_lasti) or not _is_call_of(frame, name.rpartition(".")[2]):
        return
    message = f"{name}() {NO_EFFECT}: {instead}, or remove it"
    file, module = frame.f_code.co_filename, frame.f_globals.get("__name__")
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, RuntimeWarning, file, frame.f_lineno, module, registry)


def _of_user() -> FrameType | None:
    """Return the frame that has called the kit."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == KIT:
        frame = frame.f_back
    return frame


def _is_dropped(code: CodeType, at: int) -> bool:
    """Return whether the instruction after the one at an offset drops its result."""
    instructions = code.co_code[at + 2 :: 2]
    return next((each for each in instructions if each != _CACHE), None) == _POP_TOP


def _is_call_of(frame: FrameType, name: str) -> bool:
    """Return whether the source of the frame's present expression is a call of a function of this name.

    The code may pass the function to another one, such as `map`, whose result it drops.
    """
    import ast
    import linecache

    line, end_line, column, end_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return False
    lines = [linecache.getline(frame.f_code.co_filename, number).encode() for number in range(line, end_line + 1)]
    if not all(lines):
        return False
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        expression = ast.parse(b"".join(lines).decode(), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    called = expression.func if isinstance(expression, ast.Call) else None
    return name in (getattr(called, "attr", ""), getattr(called, "id", ""))
