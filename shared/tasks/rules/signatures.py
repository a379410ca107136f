"""The arguments of a user's task: JSON by name, checked against the function's own annotations.

They are checked twice, when a call is made (so that whoever makes it hears of a slip) and when it arrives (it may have
been made over HTTP, or by an older deployment). A parameter whose type is a `Lease`, a `Unit` or a `Completion` is no
argument: the kit fills it with what the task runs for.
"""

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, Union, get_args, get_origin

from shared.core.rules.problems import BadArgument
from shared.core.rules.task_context import KINDS, TaskContext

_GIVEN_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_SIMPLE = {int: "int", float: "float", str: "str", bool: "bool", type(None): "None", list: "list", dict: "dict"}


@dataclass(frozen=True, slots=True)
class Signature:
    """What a task takes: `arguments` by name with their annotations, those that `must` be given, and `contexts`."""

    task: str
    arguments: Mapping[str, Any]
    must: frozenset[str]
    contexts: Mapping[str, type[TaskContext]]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Self:
        """Read a function's signature. Raises `TypeError` for a parameter that no JSON could fill."""
        name = function.__name__
        hints = typing.get_type_hints(function)
        parameters = inspect.signature(function).parameters
        for each in parameters.values():
            _refuse_unfillable(f"{name}: the parameter {each.name!r}", each, hints.get(each.name, Any))
        contexts = {each: hints[each] for each in parameters if hints.get(each) in KINDS.values()}
        arguments = {each: hints.get(each, Any) for each in parameters if each not in contexts}
        must = frozenset(each for each in arguments if parameters[each].default is inspect.Parameter.empty)
        return cls(name, arguments, must, contexts)

    def check(self, given: Mapping[str, Any]) -> None:
        """Compare arguments with the annotations. Raises `BadArgument` with the name of the one that does not fit."""
        for name, value in given.items():
            if name not in self.arguments:
                raise BadArgument(f"{self.task} takes no argument {name!r}.", field=name)
            if (misfit := next(misfits(value, self.arguments[name], name), None)) is not None:
                raise BadArgument(f"{self.task}: {misfit}.", field=name)
        if missing := sorted(self.must - given.keys()):
            raise BadArgument(f"{self.task} needs the argument {missing[0]!r}.", field=missing[0])

    def filled(self, given: Mapping[str, Any], context: TaskContext | None) -> dict[str, Any]:
        """Give what to call the function with. Raises `BadArgument`, also for a lease or unit that there is not."""
        self.check(given)
        for name, kind in self.contexts.items():
            if not isinstance(context, kind):
                raise BadArgument(f"{self.task} runs for a {kind.__name__} ({name!r}), and has none.", field=name)
        return {**given, **dict.fromkeys(self.contexts, context)}


def misfits(value: Any, wanted: Any, at: str) -> Iterator[str]:
    """Say what keeps a value from being JSON of the `wanted` type, part by part; `at` names it."""
    if wanted is Any:
        yield from _not_json(value, at)
    elif get_origin(wanted) is Literal:
        if not any(value == each and type(value) is type(each) for each in get_args(wanted)):
            yield f"{at} must be one of {', '.join(map(repr, get_args(wanted)))}"
    elif _is_union(wanted):
        yield from _misfits_of_all(value, wanted, at)
    elif not _is_a(value, get_origin(wanted) or wanted):
        yield f"{at} must be {_named(wanted)}, not {_named(type(value))}"
    else:
        yield from _misfits_inside(value, wanted, at)


def _misfits_of_all(value: Any, union: Any, at: str) -> Iterator[str]:
    """Say nothing if one of a union's types fits; of one that fits but inside, say what does not."""
    failed = [(each, list(misfits(value, each, at))) for each in get_args(union)]
    if all(said for _, said in failed):
        near = (said for each, said in failed if (get_origin(each) or each) is type(value))
        yield from next(near, [f"{at} must be {_named(union)}, not {_named(type(value))}"])


def _is_a(value: Any, plain: type) -> bool:
    if plain is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is plain


def _misfits_inside(value: Any, wanted: Any, at: str) -> Iterator[str]:
    inner = get_args(wanted)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from misfits(item, inner[0] if inner else Any, f"{at}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                yield f"{at} has the key {name!r}, which is no str"
            yield from misfits(item, inner[1] if inner else Any, f"{at}.{name}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{at} is {value}, which JSON cannot say"


def _not_json(value: Any, at: str) -> Iterator[str]:
    if type(value) not in _SIMPLE:
        yield f"{at} is of type {type(value).__name__}, which JSON cannot say"
    else:
        yield from _misfits_inside(value, type(value), at)


def _refuse_unfillable(what: str, parameter: inspect.Parameter, wanted: Any) -> None:
    if parameter.kind not in _GIVEN_BY_NAME:
        raise TypeError(f"{what} cannot be given by name: arguments of a task travel as a JSON object")
    if wanted not in KINDS.values() and not _is_sayable(wanted):
        raise TypeError(f"{what} is a {_named(wanted)}: annotate it with JSON's types, or with a Lease or a Unit")


def _is_sayable(wanted: Any) -> bool:
    inner = get_args(wanted)
    if wanted is Any or wanted in _SIMPLE or get_origin(wanted) is Literal:
        return True
    if get_origin(wanted) is dict:
        return inner[0] is str and _is_sayable(inner[1])
    return (_is_union(wanted) or get_origin(wanted) is list) and all(map(_is_sayable, inner))


def _is_union(wanted: Any) -> bool:
    return get_origin(wanted) in (Union, types.UnionType)


def _named(wanted: Any) -> str:
    if wanted in _SIMPLE:
        return _SIMPLE[wanted]
    return str(wanted) if get_args(wanted) else str(getattr(wanted, "__name__", wanted))
