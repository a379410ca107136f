"""Checks of a flow's source when the flow is registered: some mistakes are errors, and some calls cause warnings.

A flow's code is run again from its beginning in every turn. So it must take the time from ``flow.now()``, random
numbers from ``flow.random()``, and leave everything else to tasks. Calls that are visible in the source are warned
about, with file and line. The others are found by a replay, once they change the commands of the code.

An `await` that is missing, one of asyncio's functions, a name that `flow` does not have, and a type that the value of
an event or an update cannot have are errors.
"""

import ast
import difflib
import inspect
import linecache
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from signalbox.core.codec.annotations import codec_of
from signalbox.core.lazy_dataclasses import dataclass

INSTEAD_OF_CLOCKS = "differs in every replay: use flow.now(), or flow.sleep() to wait"
INSTEAD_OF_CHANCE = "differs in every replay: use flow.random() or flow.uuid()"
INSTEAD_OF_IO = "is repeated by every replay: do it in a task, and await its call"
INSTEAD_OF_ASYNCIO = "needs an event loop, which a flow does not have: use flow.sleep(), flow.all() or a task"
INSTEAD_OF_A_TASK = "runs the task's code inside the flow: await {name}.call(…)"
OF_A_SET = "has another order in every process, so a replay would mix up the results: iterate over sorted(…)"
WITHOUT_AWAIT = "has no effect without `await`: write await {name}(…)"
WITHOUT_LOOP = (
    "has no effect: a function with `yield` runs only in a loop. Write `async def` with `await`, and await it"
)
UNKNOWN_NAME = "does not exist"

FLOW = "signalbox.flows.api.flow"
COMMAND_NAMES = (
    "all batch callback event first first_success lock map rate run settled shield sleep step update wait_for"
)
COMMANDS = frozenset(f"{FLOW}.{name}" for name in COMMAND_NAMES.split())
WITH_A_TYPE = frozenset({f"{FLOW}.event", f"{FLOW}.update"})

ORDER_IGNORED = frozenset({"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"})
"""Functions whose result does not depend on the order of their arguments."""

REASONS: dict[str, str] = {
    "anyio": INSTEAD_OF_ASYNCIO,
    "asyncio": INSTEAD_OF_ASYNCIO,
    "asyncio.iscoroutinefunction": "",
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
    "signalbox.batch": INSTEAD_OF_IO,
    "signalbox.critical_section": INSTEAD_OF_IO,
    "signalbox.documents": INSTEAD_OF_IO,
    "signalbox.invoke": INSTEAD_OF_IO,
    "signalbox.rate": INSTEAD_OF_IO,
    "signalbox.read_rows": INSTEAD_OF_IO,
    "signalbox.semaphore": INSTEAD_OF_IO,
    "signalbox.standings": INSTEAD_OF_IO,
    "signalbox.transaction": INSTEAD_OF_IO,
    "signalbox.write_rows": INSTEAD_OF_IO,
    "signalbox.yokes": INSTEAD_OF_IO,
    "smtplib": INSTEAD_OF_IO,
    "socket": INSTEAD_OF_IO,
    "sqlite3": INSTEAD_OF_IO,
    "subprocess": INSTEAD_OF_IO,
    "tempfile": INSTEAD_OF_IO,
    "time": INSTEAD_OF_CLOCKS,
    "trio": INSTEAD_OF_ASYNCIO,
    "urllib": INSTEAD_OF_IO,
    "urllib.parse": "",
    "urllib3": INSTEAD_OF_IO,
    "uuid.uuid1": INSTEAD_OF_CHANCE,
    "uuid.uuid4": INSTEAD_OF_CHANCE,
}
"""The reason not to call a function, by the longest prefix of its full name. An empty reason allows the call."""


CLOCKS = frozenset(
    {
        "datetime.date.today",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "time.gmtime",
        "time.localtime",
        "time.strftime",
        "time.time",
        "time.time_ns",
    }
)
"""The functions that return the time of the machine."""

IGNORES_TRAVEL = "returns the machine's time, which the harness does not move: use TaskContext.now()"


class FlowWarning(UserWarning):
    """A flow's code makes a call that a replay would repeat, or that would differ."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A call at a line of a file, and the reason why a flow should not make the call.

    A call that is never right is an error.
    """

    file: str
    line: int
    reason: str
    is_error: bool = False


def check(code: Callable[..., Any], is_task: Callable[[Any], bool]) -> None:
    """Warn about each unsuitable call in a flow's code, and in the functions of the same module that it calls.

    `is_task` returns whether a value has calls that a flow awaits. Raises `TypeError` for the first error.
    """
    for finding in findings(code, is_task):
        if finding.is_error:
            raise TypeError(f"{finding.file}:{finding.line}: in a flow, {finding.reason}")
        warnings.warn_explicit(f"in a flow, {finding.reason}", FlowWarning, finding.file, finding.line)


def findings(code: Callable[..., Any], is_task: Callable[[Any], bool]) -> list[Finding]:
    """Return the calls that a flow's code should not make. If its source cannot be read, return an empty list."""
    return _in_order(finding for function in _reached(code) for finding in _findings(function, is_task))


def clock_reads(code: Callable[..., Any]) -> list[Finding]:
    """Return the calls in a task's code that read the machine's clock."""
    return _in_order(
        Finding(inspect.getfile(function), call.lineno, f"{ast.unparse(call.func)}() {IGNORES_TRAVEL}")
        for function in _reached(code)
        for call in _calls(_nodes(function))
        if _named(call.func, function)[1] in CLOCKS
    )


def _in_order(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(set(findings), key=lambda finding: (finding.file, finding.line))


def _reached(code: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return a function, and the functions of the same module that it calls, also through others."""
    seen: dict[Callable[..., Any], None] = {}
    unseen = [code]
    while unseen:
        function = inspect.unwrap(unseen.pop())  # the source of a decorated function is that of the function it wraps
        if function not in seen:
            seen[function] = None
            unseen += _called(function)
    return list(seen)


def _findings(function: Callable[..., Any], is_task: Callable[[Any], bool]) -> Iterator[Finding]:
    nodes = _nodes(function)
    dropped = [node.value for node in nodes if isinstance(node, ast.Expr)]
    for call in _calls(nodes):
        value, name = _named(call.func, function)
        written = ast.unparse(call.func)
        reason, is_error = INSTEAD_OF_A_TASK.format(name=written) if is_task(value) else _reason(name), False
        if call in dropped and (inspect.iscoroutinefunction(value) or _is_command(call.func, name, function, is_task)):
            reason, is_error = WITHOUT_AWAIT.format(name=written), True
        if call in dropped and (inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value)):
            reason, is_error = WITHOUT_LOOP, True
        is_seeded = name == "random.Random" and bool(call.args)
        if reason and not is_seeded:
            is_error = is_error or reason == INSTEAD_OF_ASYNCIO
            yield Finding(inspect.getfile(function), call.lineno, f"{written}() {reason}", is_error)
        if name in WITH_A_TYPE and (wrong := _wrong_type(call, function)):
            yield Finding(inspect.getfile(function), call.lineno, wrong, True)
    for iterated in _iterated_sets(nodes):
        yield Finding(inspect.getfile(function), iterated.lineno, f"the set {ast.unparse(iterated)} {OF_A_SET}")
    for node in nodes:
        if isinstance(node, ast.Attribute) and (unknown := _unknown(node, function)):
            yield Finding(inspect.getfile(function), node.lineno, unknown, True)


def _is_command(called: ast.expr, name: str, function: Callable[..., Any], is_task: Callable[[Any], bool]) -> bool:
    """Return whether a call creates a command.

    Commands are created by functions of `flow`, and by the methods `call` and `call_as` of a task or a flow.
    """
    if isinstance(called, ast.Attribute) and called.attr in ("call", "call_as"):
        return is_task(_named(called.value, function)[0])
    return name in COMMANDS


def _wrong_type(call: ast.Call, function: Callable[..., Any]) -> str:
    """Return the error message for the type of an event or an update that is visibly impossible.

    A class that uses one which is defined below it is checked when the command is created.
    """
    options = [option.value for option in call.keywords if option.arg == "type"]
    match [*call.args[1:], *options]:
        case [ast.Constant(value=str(kind))]:
            pass
        case [node] if isinstance(kind := _named(node, function)[0], type) and not hasattr(kind, "model_fields"):
            pass
        case _:
            return ""
    try:
        codec_of(kind, f"the type of {ast.unparse(call.func)}()")
    except TypeError as error:
        return "" if isinstance(error.__cause__, NameError) else str(error)
    return ""


def _iterated_sets(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """Iterate over the sets that a function iterates over, except where the order of their elements has no effect."""
    assigned = (node for node in nodes if isinstance(node, ast.Assign) and _is_set(node.value, frozenset()))
    names = frozenset(target.id for node in assigned for target in node.targets if isinstance(target, ast.Name))
    unordered = {part for node in nodes if isinstance(node, ast.Call) and _ignores_order(node) for part in node.args}
    for node in nodes:
        match node:
            case ast.For(iter=iterated) | ast.Starred(value=iterated, ctx=ast.Load()):
                iterables = [iterated]
            case ast.Call(func=ast.Attribute(attr="map"), args=[_, iterated, *_]):
                iterables = [iterated]
            case ast.ListComp(generators=parts) | ast.GeneratorExp(generators=parts) | ast.DictComp(generators=parts):
                iterables = [] if node in unordered else [part.iter for part in parts]
            case _:
                iterables = []
        yield from (iterable for iterable in iterables if _is_set(iterable, names))


def _is_set(node: ast.expr, names: frozenset[str]) -> bool:
    """Return whether an expression is visibly a set; `names` are the variables that are sets."""
    match node:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Name(id=name):
            return name in names
        case ast.BinOp(left=left, right=right, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            return _is_set(left, names) or _is_set(right, names)
    return False


def _ignores_order(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ORDER_IGNORED


def _unknown(node: ast.Attribute, function: Callable[..., Any]) -> str:
    """Return the error message for a name that `flow` does not have."""
    module, name = _named(node.value, function)
    if name != FLOW or hasattr(module, node.attr):
        return ""
    near = difflib.get_close_matches(node.attr, module.__all__, 1)
    return f"flow.{node.attr} {UNKNOWN_NAME}" + (f": did you mean flow.{near[0]}?" if near else "")


def _reason(name: str) -> str:
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((REASONS[prefix] for prefix in prefixes if prefix in REASONS), "")


@lru_cache(maxsize=16)
def _nodes(function: Callable[..., Any]) -> list[ast.AST]:
    """Return all nodes of a function's body. If its source cannot be read, return an empty list."""
    code = function.__code__
    source = "".join(linecache.getlines(code.co_filename, function.__globals__))
    definition = _definitions(source).get((code.co_name, code.co_firstlineno))
    return [node for statement in definition.body for node in ast.walk(statement)] if definition else []


@lru_cache(maxsize=1)
def _definitions(source: str) -> dict[tuple[str, int], ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions of a file by name and first line. A function's first line is that of its first decorator.

    The whole file is parsed once: `inspect.getsource` tokenizes each function, which took 7 % of a cold start.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:  # not the source of the code that runs
        return {}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {(each.name, min([each.lineno, *(part.lineno for part in each.decorator_list)])): each for each in functions}


def _calls(nodes: list[ast.AST]) -> list[ast.Call]:
    return [node for node in nodes if isinstance(node, ast.Call)]


def _called(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return the functions of the same module that a function calls."""
    values = (_named(call.func, function)[0] for call in _calls(_nodes(function)))
    return [value for value in values if isinstance(value, FunctionType) and value.__module__ == function.__module__]


def _named(node: ast.expr, function: Callable[..., Any]) -> tuple[Any, str]:
    """Return the value and the full name of an expression that is a global name or an attribute of one.

    For any other expression, the value is None. A name that the function itself imports has a full name but no value,
    since nothing is imported here.
    """
    if isinstance(node, ast.Attribute):
        value, name = _named(node.value, function)
        inner = getattr(value, node.attr, None) if isinstance(value, ModuleType | type) else None
        return inner, f"{name}.{node.attr}" if name else ""
    if not isinstance(node, ast.Name):
        return None, ""
    if node.id in _bound(function):
        return None, _imported(function).get(node.id, "")
    known = function.__globals__
    value = known.get(node.id)
    return value, _full_name(value, node.id) if node.id in known else node.id


def _bound(function: Callable[..., Any]) -> set[str]:
    """Return the names that a function, or code nested in it or around it, binds instead of the global ones."""
    names = set(function.__code__.co_freevars) & function.__globals__.keys()
    unseen = [function.__code__]
    while unseen:
        code = unseen.pop()
        names.update(code.co_varnames, code.co_cellvars)
        unseen += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return names


def _imported(function: Callable[..., Any]) -> dict[str, str]:
    """Return the full names of a function's own imports, by their local names."""
    found: dict[str, str] = {}
    for node in _nodes(function):
        if isinstance(node, ast.Import):
            tops = [alias.name.partition(".")[0] for alias in node.names if not alias.asname]
            found |= {alias.asname: alias.name for alias in node.names if alias.asname} | dict(
                zip(tops, tops, strict=True)
            )
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _full_name(value: Any, name: str) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    home = getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__
    home = "signalbox" if home.startswith("signalbox.") else home
    return f"{home}.{getattr(value, '__name__', name)}"
