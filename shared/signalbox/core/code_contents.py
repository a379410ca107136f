"""The content of a transaction's code, from which its idempotency key is made.

A transaction is a call without a payload. Its content is the place of its code, and the values that the code receives
from its closure, its defaults and `functools.partial`. Texts, integers and the like are part of the key. Values that
may be read or computed again, such as documents and times, are not. The receipt has their digest, and a repeat with
other values is refused.

The digest also has the values of the module variables that the code reads, itself or in functions of its module, if
functions assign them: those of `global`, and attributes of classes and modules. They are never part of the key: a
deployment may change a value between two deliveries, and the transaction must not take effect again. Left out is what
may differ in another process without a difference for the code: constants, dictionaries and lists that are filled step
by step (caches), instances (clients), and what the code itself assigns (counters, lazily made values).
"""

import dis
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from signalbox.core.effects import name_of
from signalbox.core.idempotency_keys import sorted_json, without_leases
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.times import rfc3339


class UnknownContentError(ValueError):
    """A value has no part that is known to be the same in every delivery, so code with this value has no content."""


@dataclass(frozen=True, slots=True)
class CodeContent:
    """The content of code: `name` identifies it in every delivery; `digest` is a hash of its other values."""

    name: str
    digest: str


def content_of_code(code: Callable[..., object], caller: CodeType) -> CodeContent:
    """Return the content of code that `caller` runs. Raises `UnknownContentError` for a value without known content.

    `name` does not depend on line numbers, which every deployment may change.
    """
    try:
        place, values = _place_and_values(code, caller)
        contents = {name: without_leases(_content(name, value)) for name, value in values.items()}
        fixed = {name: content for name, content in contents.items() if _is_fixed(values[name])}
    except RecursionError as error:
        raise UnknownContentError("functions that refer to each other") from error
    others = {name: content for name, content in contents.items() if name not in fixed}
    digested = others | _variables_read(code)
    return CodeContent(name_of(sorted_json([place, fixed, sorted(others)])), name_of(sorted_json(digested)))


def name_of_code(code: Callable[..., object]) -> str:
    """Return a hash of the name of code, which stays the same while its lines and its values change."""
    while isinstance(code, partial):
        code = code.func
    named = code if hasattr(code, "__qualname__") else type(code)
    return name_of(named.__module__, named.__qualname__)


def _place_and_values(code: object, caller: CodeType | None, prefix: str = "") -> tuple[list[Any], dict[str, Any]]:
    """Return the place of code, and the values that are bound to the code, by name."""
    if isinstance(code, partial):
        place, values = _place_and_values(code.func, caller, f"{prefix}partial ")
        given = {str(number): value for number, value in enumerate(code.args)} | code.keywords
        return ["partial", place], values | {f"{prefix}{name}": value for name, value in given.items()}
    if isinstance(code, MethodType):
        place, values = _place_and_values(code.__func__, caller, prefix)
        return place, values | {f"{prefix}self": code.__self__}
    if isinstance(code, FunctionType):
        cells = zip(code.__code__.co_freevars, code.__closure__ or (), strict=True)
        values = {f"{prefix}{name}": _value_of(cell) for name, cell in cells if not _is(cell, code)}
        defaults = {f"{prefix}default {number}": value for number, value in enumerate(code.__defaults__ or ())}
        named = {f"{prefix}default {name}": value for name, value in (code.__kwdefaults__ or {}).items()}
        return [code.__module__, code.__qualname__, _inner_place(code, caller)], values | defaults | named
    if isinstance(name := getattr(code, "__qualname__", None), str):
        return [getattr(code, "__module__", ""), name], {}
    return [type(code).__module__, type(code).__qualname__], {f"{prefix}self": code}


def _inner_place(code: FunctionType, caller: CodeType | None) -> object:
    """Distinguish inner functions of one name by their order in the caller's code, or else by their instructions."""
    if "<locals>" not in code.__qualname__:
        return None
    inner = [const for const in caller.co_consts if isinstance(const, CodeType)] if caller else []
    namesakes = [const for const in inner if const.co_name == code.__name__]
    return namesakes.index(code.__code__) if code.__code__ in namesakes else _instructions(code.__code__)


def _instructions(value: object) -> object:
    """Return the instructions, names and constants of code, without line numbers; the `repr` of any other value."""
    match value:
        case CodeType():
            return [value.co_code.hex(), *value.co_names, *(_instructions(const) for const in value.co_consts)]
        case tuple():
            return [_instructions(item) for item in value]
        case frozenset():
            return sorted(map(repr, value))
    return repr(value)


def _value_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return None


def _is(cell: Any, code: object) -> bool:
    """Return whether a variable contains the code itself, as in a recursive function."""
    return _value_of(cell) is code


# --- variables of modules ---


def _variables_read(code: object) -> dict[str, Any]:
    """Return the contents of the module variables that code reads and that other code assigns while it runs."""
    functions = list(_functions(code, set()))
    own = frozenset[str]().union(*(_use_of(function.__code__).assigned for function in functions))
    contents: dict[str, Any] = {}
    for function in functions:
        changing = _assigned_in(function.__globals__) - own
        for name, attributes in _use_of(function.__code__).read:
            value = function.__globals__.get(name)
            if name in changing:
                contents |= _data(f"{function.__module__}.{name}", value)
            if isinstance(value, type | ModuleType):
                others = _assigned_in(vars(value)) if isinstance(value, ModuleType) else frozenset[str]()
                for each in attributes & ((_assigned_in(function.__globals__) | others) - own):
                    contents |= _data(f"{function.__module__}.{name}.{each}", vars(value).get(each))
    return contents


def _functions(code: object, seen: set[CodeType]) -> Iterator[FunctionType]:
    """Iterate over the functions of code: itself, those in its closure, and those of its module that these call.

    Code that is called through a parameter or an attribute is not known.
    """
    while isinstance(code, partial | MethodType):
        code = code.func if isinstance(code, partial) else code.__func__
    if not isinstance(code, FunctionType) or code.__code__ in seen:
        return
    seen.add(code.__code__)
    yield code
    named = (code.__globals__.get(name) for name, _ in _use_of(code.__code__).read)
    called = [value for value in named if isinstance(value, FunctionType) and value.__module__ == code.__module__]
    for value in (*called, *map(_value_of, code.__closure__ or ())):
        yield from _functions(value, seen)


def _data(name: str, value: object) -> dict[str, Any]:
    """Return the content of a variable if it is data. None is left out: the variable may have an instance later."""
    try:
        return {} if value is None or callable(value) else {name: without_leases(_content(name, value))}
    except (UnknownContentError, RuntimeError):  # an instance, or data that refers to itself or is being changed
        return {}


@dataclass(frozen=True, slots=True)
class _Use:
    """The module variables that code reads, each with the attributes that the code reads of any, and what it assigns.

    `assigned` has the names of variables and attributes.
    """

    read: tuple[tuple[str, frozenset[str]], ...]
    assigned: frozenset[str]


@lru_cache(maxsize=1024)
def _use_of(code: CodeType) -> _Use:
    """Return what code uses, also in functions inside it."""
    inner = [_use_of(const) for const in code.co_consts if isinstance(const, CodeType)]
    used = [(one.opname, one.argval) for one in dis.get_instructions(code)]
    attributes = frozenset(code.co_names)
    read = {name: attributes for operation, name in used if operation in ("LOAD_GLOBAL", "LOAD_NAME")}
    for use in inner:
        for name, others in use.read:
            read[name] = read.get(name, frozenset()) | others
    assigned = frozenset(name for operation, name in used if operation in _ASSIGNMENTS)
    return _Use(tuple(sorted(read.items())), assigned.union(*(use.assigned for use in inner)))


_ASSIGNMENTS = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR")


def _assigned_in(variables: Mapping[str, Any]) -> frozenset[str]:
    """Return the variables and attributes that the functions of a user's module assign.

    `variables` are those of the module. Of a module whose code is not known, none are returned.
    """
    package = str(variables.get("__name__")).partition(".")[0]
    of_users = package not in sys.stdlib_module_names and package != "signalbox"
    return _assigned_by(variables.get("__file__") or "") if of_users else frozenset()


@lru_cache(maxsize=1024)
def _assigned_by(path: str) -> frozenset[str]:
    if "site-packages" in path or not path.endswith(".py"):
        return frozenset()
    try:
        return _use_of(compile("".join(linecache.getlines(path)), path, "exec", dont_inherit=True)).assigned
    except SyntaxError:
        return frozenset()


# --- values ---


def _is_fixed(value: object) -> bool:
    """Return whether a value is unlikely to differ when it is read or computed again."""
    if isinstance(value, tuple):
        return all(map(_is_fixed, value))
    if isinstance(value, partial | MethodType | FunctionType):
        return all(map(_is_fixed, _place_and_values(value, None)[1].values()))
    return isinstance(value, str | int | bytes | Enum | None) or hasattr(value, "__qualname__")


def _content(name: str, value: Any) -> Any:
    """Return a value as JSON with its type. Raises `UnknownContentError`."""
    kind = type(value).__qualname__
    match value:
        case None | bool() | int() | float() | str() if not isinstance(value, Enum):
            return value
        case Mapping():
            return [
                kind,
                sorted((sorted_json(_content(name, key)), _content(name, item)) for key, item in value.items()),
            ]
        case list() | tuple():
            return [_content(name, item) for item in value]
        case Set():
            return [kind, sorted(sorted_json(_content(name, item)) for item in value)]
        case Enum():
            return [kind, value.name]
        case datetime() if value.tzinfo:
            return rfc3339(value)
        case bytes() | date() | Decimal():
            return [kind, value.hex() if isinstance(value, bytes) else str(value)]
        case partial() | MethodType() | FunctionType() | type():
            place, values = _place_and_values(value, None)
            return [place, {each: _content(each, item) for each, item in values.items()}]
    if hasattr(value, "__qualname__"):
        return [value.__module__, value.__qualname__]
    if is_dataclass(value):
        return [kind, {each.name: _content(name, getattr(value, each.name)) for each in fields(value)}]
    raise UnknownContentError(f"{name} ({kind})")
