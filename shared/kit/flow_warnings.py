"""Warn where a flow's code does what a replay would do again, or otherwise: the time, chance, input and output.

A flow's code is run again for every turn, from its beginning. So it takes the time from ``flow.now()``, chance from
``flow.random()``, and leaves everything else to steps. What can be seen in the code is warned about when the flow is
registered, with the file and the line; what cannot be seen is found by a replay at the latest, where it made the code
ask for something else.
"""

import ast
import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

INSTEAD_OF_CLOCKS = "is another time in every replay: use flow.now(), or flow.sleep() to wait"
INSTEAD_OF_CHANCE = "is another value in every replay: use flow.random() or flow.uuid()"
INSTEAD_OF_IO = "is done again by every replay: do it in a task, and yield its call"
INSTEAD_OF_A_TASK = "runs the task's code in the flow itself: yield {name}.call(…)"
REASONS: dict[str, str] = {
    "asyncio": INSTEAD_OF_IO,
    "datetime.date.today": INSTEAD_OF_CLOCKS,
    "datetime.datetime.now": INSTEAD_OF_CLOCKS,
    "datetime.datetime.today": INSTEAD_OF_CLOCKS,
    "datetime.datetime.utcnow": INSTEAD_OF_CLOCKS,
    "google": INSTEAD_OF_IO,
    "http": INSTEAD_OF_IO,
    "httpx": INSTEAD_OF_IO,
    "input": INSTEAD_OF_IO,
    "open": INSTEAD_OF_IO,
    "os": INSTEAD_OF_IO,
    "os.path": "",
    "os.urandom": INSTEAD_OF_CHANCE,
    "pathlib": INSTEAD_OF_IO,
    "pathlib.PurePath": "",
    "random": INSTEAD_OF_CHANCE,
    "requests": INSTEAD_OF_IO,
    "secrets": INSTEAD_OF_CHANCE,
    "shared.kit.batch": INSTEAD_OF_IO,
    "shared.kit.critical_section": INSTEAD_OF_IO,
    "shared.kit.documents": INSTEAD_OF_IO,
    "shared.kit.semaphore": INSTEAD_OF_IO,
    "shared.kit.standings": INSTEAD_OF_IO,
    "shared.kit.transaction": INSTEAD_OF_IO,
    "shared.kit.yokes": INSTEAD_OF_IO,
    "smtplib": INSTEAD_OF_IO,
    "socket": INSTEAD_OF_IO,
    "sqlite3": INSTEAD_OF_IO,
    "subprocess": INSTEAD_OF_IO,
    "tempfile": INSTEAD_OF_IO,
    "time": INSTEAD_OF_CLOCKS,
    "urllib": INSTEAD_OF_IO,
    "urllib.parse": "",
    "urllib3": INSTEAD_OF_IO,
    "uuid.uuid1": INSTEAD_OF_CHANCE,
    "uuid.uuid4": INSTEAD_OF_CHANCE,
}
"""What not to call, by the longest beginning of its full name; an empty reason: it may be called."""


class FlowWarning(UserWarning):
    """A flow's code does something that a replay would do again, or otherwise."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A call at a line of a file, and why a flow should not make it."""

    file: str
    line: int
    reason: str


def warn(code: Callable[..., Any], is_task: Callable[[Any], bool]) -> None:
    """Warn about each call in a flow's code, and in the functions of its module that it calls, that a replay breaks."""
    for found in findings(code, is_task):
        warnings.warn_explicit(f"in a flow, {found.reason}", FlowWarning, found.file, found.line)


def findings(code: Callable[..., Any], is_task: Callable[[Any], bool]) -> list[Finding]:
    """Return what a flow's code should not call, each with its place; nothing if its source cannot be read."""
    seen: dict[Callable[..., Any], list[Finding]] = {}
    waiting = [code]
    while waiting:
        function = waiting.pop()
        if function not in seen:
            seen[function] = list(_findings(function, is_task))
            waiting += _called(function)
    return sorted({each for found in seen.values() for each in found}, key=lambda each: (each.file, each.line))


def _findings(function: Callable[..., Any], is_task: Callable[[Any], bool]) -> Iterator[Finding]:
    first = function.__code__.co_firstlineno
    for call in _calls(function):
        value, name = _named(call.func, function)
        written = ast.unparse(call.func)
        reason = INSTEAD_OF_A_TASK.format(name=written) if is_task(value) else _reason(name)
        if reason and not _is_seeded(name, call):
            yield Finding(inspect.getfile(function), first + call.lineno - 1, f"{written}() {reason}")


def _reason(name: str) -> str:
    parts = name.split(".")
    beginnings = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((REASONS[each] for each in beginnings if each in REASONS), "")


def _is_seeded(name: str, call: ast.Call) -> bool:
    """Return whether a call draws from what its own argument seeds."""
    return name == "random.Random" and bool(call.args)


def _calls(function: Callable[..., Any]) -> list[ast.Call]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return []
    [definition] = tree.body
    body = definition.body if isinstance(definition, ast.FunctionDef) else []
    return [node for each in body for node in ast.walk(each) if isinstance(node, ast.Call)]


def _called(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return the functions of the same module that a function calls."""
    values = (_named(call.func, function)[0] for call in _calls(function))
    return [each for each in values if isinstance(each, FunctionType) and each.__module__ == function.__module__]


def _named(node: ast.expr, function: Callable[..., Any]) -> tuple[Any, str]:
    """Return what an expression is, if it is a name of the module or in it, and its full name; else None."""
    if isinstance(node, ast.Attribute):
        value, name = _named(node.value, function)
        inner = getattr(value, node.attr, None) if isinstance(value, ModuleType | type) else None
        return inner, f"{name}.{node.attr}" if name else ""
    if not isinstance(node, ast.Name) or node.id in function.__code__.co_varnames:
        return None, ""
    known = function.__globals__
    value = known.get(node.id)
    return value, _full_name(value, node.id) if node.id in known else node.id


def _full_name(value: Any, name: str) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    home = getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__
    home = "shared.kit" if home.startswith("shared.kit.") else home
    return f"{home}.{getattr(value, '__name__', name)}"
