"""How the kit runs the code of its users: tasks, routes, rules, event handlers, methods, flows, steps and queries.

Two rules hold for each of them:

- Whatever the code raises is an error of the code. `SystemExit`, `asyncio.CancelledError` and other exceptions that are
  not an `Exception` would end the process of the function, with all of its other requests. `run` raises `CodeExited`
  instead, which is counted, noted and retried as any other error.
- Context variables that the code sets are not seen by other code: it runs in a copy of the context. The code of a flow
  and of an object's method begins with the variables of the kit only (`kit_context`), since any process may run it.
"""

import sys
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from dis import opname
from functools import partial
from typing import TypeVar

from signalbox.core.problems import text_of

R = TypeVar("R")

KIT = "signalbox."
"""The prefix of the names of the kit's context variables."""


class CodeExited(Exception):
    """User code raised an exception that is not an `Exception`, which is the cause of this one."""


class ProcessEnded(BaseException):
    """The end of the process in a test that simulates it: no rule for the code's errors applies."""


def run(code: Callable[[], R], context: Context | None = None) -> R:
    """Run user code in a copy of `context` (None: of the current one). Raises the errors of the code, `CodeExited`."""
    return _run_in(copy_of(copy_context() if context is None else context), code)


def _run_in(context: Context, code: Callable[[], R]) -> R:
    try:
        return context.run(code)
    except Exception:
        raise
    except BaseException as error:
        if ends_process(error):
            raise
        raise CodeExited(described(error)) from error


def ends_process(error: BaseException) -> bool:
    """Return whether an exception is not an error of the code, but the end of the process: `ProcessEnded`, or Ctrl-C.

    For Ctrl-C, Python raises `KeyboardInterrupt` between two instructions of any code, or in `asyncio.run`. If a
    ``raise`` of other code has raised it, it is an error of that code.
    """
    if isinstance(error, ProcessEnded):
        return True
    if not isinstance(error, KeyboardInterrupt):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_globals.get("__name__") == "asyncio.runners":
        return True
    return opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] not in ("RAISE_VARARGS", "RERAISE")


def raised_by(error: BaseException) -> BaseException:
    """Return the exception that user code has raised, of an error of `run`."""
    return error.__cause__ if isinstance(error, CodeExited) and error.__cause__ else error


def described(error: BaseException) -> str:
    """Return the class and the text of an exception that user code has raised."""
    raised = raised_by(error)
    return f"{type(raised).__name__}: {text_of(raised)}"


def copy_of(context: Context) -> Context:
    """Return a copy of a context. Its context of `decimal`, an object that can be changed, is also copied."""
    copy, decimal = context.copy(), sys.modules.get("decimal")
    if decimal is not None:
        copy.run(lambda: decimal.setcontext(decimal.getcontext().copy()))
    return copy


def kit_context() -> Context:
    """Return a new context that has the variables of the kit, as they are now, and no others."""
    context = Context()
    for variable, value in copy_context().items():
        if variable.name.startswith(KIT):
            context.run(variable.set, value)
    return context


class Produced(Iterator[bytes]):
    """The items that user code produces while its response is sent, in a copy of the context in which it began."""

    def __init__(self, items: Iterator[bytes]) -> None:
        self._items, self._context = items, copy_context()

    def __next__(self) -> bytes:
        item: bytes = _run_in(self._context, partial(next, self._items))
        return item

    def close(self) -> None:
        """End the code, if its caller reads no further."""
        if close := getattr(self._items, "close", None):
            self._context.run(close)
