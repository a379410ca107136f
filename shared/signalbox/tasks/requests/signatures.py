"""The arguments of a user's task: JSON values by name, checked against the function's annotations.

They are checked twice: when a call is made (`check`: the caller's code is wrong, a `TypeError`) and when it arrives
(`bind`: the request is wrong, a `Problem`; it may come over HTTP or from an older deployment). A parameter of a type
that a context has (`Lease`, `SectionRun`, `Unit`, `Completion`, `Outcome` or `TaskContext`) is not an argument: `bind`
fills it.
"""

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, Union, get_args, get_origin

from signalbox.core.calls import check_plain
from signalbox.core.problems import BadArgument
from signalbox.tasks.model import KINDS, TaskContext, TaskSubject

_FILLED = (*KINDS.values(), TaskContext)
_PASSED_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_JSON_TYPES = {int: "int", float: "float", str: "str", bool: "bool", type(None): "None", list: "list", dict: "dict"}


class WrongArguments(TypeError):
    """A call of a task does not fit its signature; `argument` names the first argument that does not.

    It is not a `Problem`: the code that makes the call is wrong, not the request it handles. So the answer is 500, with
    a traceback in the log.
    """

    def __init__(self, detail: str, argument: str) -> None:
        super().__init__(detail)
        self.argument = argument


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a task: `arguments` by name with their annotations, the `required` ones, and those `filled`."""

    task: str
    arguments: Mapping[str, Any]
    required: frozenset[str]
    filled: Mapping[str, type[TaskSubject | TaskContext]]

    @classmethod
    def from_function(cls, function: Callable[..., Any]) -> Self:
        """Inspect a function's signature. Raises `TypeError` for a parameter that no JSON value fits."""
        name = function.__name__
        hints = typing.get_type_hints(function)
        parameters = inspect.signature(function).parameters
        for argument, parameter in parameters.items():
            _check_parameter(f"{name}: the parameter {argument!r}", parameter, hints.get(argument, Any))
        filled = {argument: hints[argument] for argument in parameters if hints.get(argument) in _FILLED}
        arguments = {argument: hints.get(argument, Any) for argument in parameters if argument not in filled}
        empty = inspect.Parameter.empty
        required = frozenset(argument for argument in arguments if parameters[argument].default is empty)
        return cls(name, arguments, required, filled)

    @classmethod
    def from_method(cls, function: Callable[..., Any]) -> Self:
        """Inspect a method's signature, without its first parameter. Raises `TypeError` as `from_function` does."""
        check_plain(function, "method")
        first, *_ = inspect.signature(function).parameters
        whole = cls.from_function(function)
        arguments = {name: kind for name, kind in whole.arguments.items() if name != first}
        return cls(whole.task, arguments, whole.required - {first}, whole.filled)

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name. Raises `WrongArguments` for one too many, and for one given twice."""
        if not args:
            return dict(kwargs)
        names = tuple(self.arguments)[: len(args)]
        if len(names) < len(args):
            raise WrongArguments(f"{self.task} takes {len(names)} arguments, and the call has {len(args)}.", "")
        if twice := kwargs.keys() & {*names}:
            raise WrongArguments(f"{self.task} has two values for {min(twice)!r}.", min(twice))
        return dict(zip(names, args, strict=True)) | dict(kwargs)

    @property
    def parameters(self) -> list[str]:
        """The names of the arguments, those that may be left out with a question mark: ``["order", "size?"]``."""
        return [name if name in self.required else f"{name}?" for name in self.arguments]

    def check(self, values: Mapping[str, Any]) -> None:
        """Check arguments against the annotations. Raises `WrongArguments`."""
        for name, value in values.items():
            if name not in self.arguments:
                raise WrongArguments(f"{self.task} takes no argument {name!r}.", name)
            if (error := next(type_errors(value, self.arguments[name], name), None)) is not None:
                raise WrongArguments(f"{self.task}: {error}.", name)
        if missing := sorted(self.required - values.keys()):
            raise WrongArguments(f"{self.task} needs the argument {missing[0]!r}.", missing[0])

    def bind(
        self, payload: Mapping[str, Any], subject: TaskSubject | None, context: TaskContext | None = None
    ) -> dict[str, Any]:
        """Return the function's arguments. Raises `BadArgument`, also if it needs a subject of another kind."""
        try:
            self.check(payload)
        except WrongArguments as error:
            raise BadArgument(str(error), field=error.argument) from error
        filled = {name: context if kind is TaskContext else subject for name, kind in self.filled.items()}
        for name, kind in self.filled.items():
            if not isinstance(filled[name], kind):
                raise BadArgument(
                    f"{self.task} needs a {kind.__name__} ({name!r}), and this call has none.", field=name
                )
        return {**payload, **filled}


def type_errors(value: Any, annotation: Any, at: str) -> Iterator[str]:
    """Iterate over the reasons why a value is not JSON of the annotated type, part by part; `at` names the value."""
    if annotation is Any:
        yield from _json_errors(value, at)
    elif get_origin(annotation) is Literal:
        if not any(value == option and type(value) is type(option) for option in get_args(annotation)):
            yield f"{at} must be one of {', '.join(map(repr, get_args(annotation)))}"
    elif _is_union(annotation):
        yield from _union_errors(value, annotation, at)
    elif not _is_instance(value, get_origin(annotation) or annotation):
        yield f"{at} must be {_type_name(annotation)}, not {_type_name(type(value))}"
    else:
        yield from _item_errors(value, annotation, at)


def _union_errors(value: Any, union: Any, at: str) -> Iterator[str]:
    """Iterate over the errors of the nearest member of a union; there are none if a member fits."""
    failed = [(member, list(type_errors(value, member, at))) for member in get_args(union)]
    if all(errors for _, errors in failed):
        nearest = (errors for member, errors in failed if (get_origin(member) or member) is type(value))
        yield from next(nearest, [f"{at} must be {_type_name(union)}, not {_type_name(type(value))}"])


def _is_instance(value: Any, plain: type) -> bool:
    if plain is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is plain


def _item_errors(value: Any, annotation: Any, at: str) -> Iterator[str]:
    inner = get_args(annotation)
    if _is_uniform(value, inner):
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from type_errors(item, inner[0] if inner else Any, f"{at}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                yield f"{at} has the key {name!r}, which is not a str"
            yield from type_errors(item, inner[1] if inner else Any, f"{at}.{name}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{at} is {value}, which is not JSON"


def _is_uniform(value: Any, inner: tuple[Any, ...]) -> bool:
    """Return whether a list or a dict has items of one annotated plain type only. This is fast for large ones."""
    if not inner or inner[-1] not in (str, int, bool) or not isinstance(value, list | dict):
        return False
    items = value.values() if isinstance(value, dict) else value
    return {*map(type, items)} <= {inner[-1]} and (items is value or {*map(type, value)} <= {str})


def _json_errors(value: Any, at: str) -> Iterator[str]:
    if type(value) not in _JSON_TYPES:
        yield f"{at} is of type {type(value).__name__}, which is not JSON"
    else:
        yield from _item_errors(value, type(value), at)


def _check_parameter(what: str, parameter: inspect.Parameter, annotation: Any) -> None:
    if parameter.kind not in _PASSED_BY_NAME:
        raise TypeError(f"{what} cannot be passed by name: arguments of a task travel as a JSON object")
    if annotation not in _FILLED and not is_json_type(annotation):
        raise TypeError(f"{what} is a {_type_name(annotation)}: annotate it with a JSON type, a Lease or a Unit")


def is_json_type(annotation: Any) -> bool:
    """Return whether values of an annotated type are JSON."""
    inner = get_args(annotation)
    if annotation is Any or annotation in _JSON_TYPES or get_origin(annotation) is Literal:
        return True
    if get_origin(annotation) is dict:
        return inner[0] is str and is_json_type(inner[1])
    return (_is_union(annotation) or get_origin(annotation) is list) and all(map(is_json_type, inner))


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _type_name(annotation: Any) -> str:
    if annotation in _JSON_TYPES:
        return _JSON_TYPES[annotation]
    return str(annotation) if get_args(annotation) else str(getattr(annotation, "__name__", annotation))
