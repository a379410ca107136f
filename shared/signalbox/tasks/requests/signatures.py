"""The arguments and the result of a user's function: JSON by name, written and read by the function's annotations.

Arguments are checked twice: when a call is made (`encode`: the caller's code is wrong, a `TypeError`) and when it
arrives (`bind`: the request is wrong, a `Problem`; it may come over HTTP or from an older deployment). A parameter of a
type that a context has (`Lease`, `SectionRun`, `Unit`, `Completion`, `Outcome` or `TaskContext`) is not an argument:
`bind` fills it. What is not annotated is plain JSON.

A task with a parameter ``list[Unit]`` takes several units of a batch at once. Each unit's call passes lists of one
item, and the task receives them joined, in the order of the units.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Never, NoReturn, Self, Union, get_args, get_origin

from signalbox.batches.model.units import Unit
from signalbox.core.codec.annotations import codec_of, hints_of
from signalbox.core.codec.json_forms import JSON, Codec, PlainResult, WrongValue, decode, encode, is_plain
from signalbox.core.codec.json_types import is_union, type_name
from signalbox.core.flow_hooks import check_plain
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadArgument
from signalbox.tasks.model.attempts import TaskContext
from signalbox.tasks.model.contexts import SUBJECTS, TaskSubject

UNITS = list[Unit]
"""The annotation of a parameter that receives several units."""

_FILLED = (*SUBJECTS, TaskContext, UNITS)
_PASSED_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


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
    """The parameters of a function: `arguments`, those `required`, and those `filled` by the kit.

    `arguments` and `filled` have the annotations by name. `typed` are the arguments that are not JSON themselves.
    `result` is the codec of the function's result.
    """

    task: str
    arguments: Mapping[str, Any]
    required: frozenset[str]
    filled: Mapping[str, Any]
    typed: frozenset[str] = frozenset()
    result: Codec = JSON

    @classmethod
    def from_function(cls, function: Callable[..., Any], own: tuple[type, ...] = (), first: str = "") -> Self:
        """Inspect a function's signature, without the parameter `first`.

        The kit takes results of the classes `own` for itself. Raises `TypeError` for a parameter or a result of a type
        that has no codec; the message names a type to use instead.
        """
        name = function.__name__
        hints = hints_of(function, name)
        parameters = {each: one for each, one in inspect.signature(function).parameters.items() if each != first}
        for argument, parameter in parameters.items():
            _check_parameter(f"{name}: the parameter {argument!r}", parameter, hints.get(argument, Any))
        filled = {argument: hints[argument] for argument in parameters if hints.get(argument) in _FILLED}
        arguments = {argument: hints.get(argument, Any) for argument in parameters if argument not in filled}
        codecs = {
            argument: codec_of(annotation, f"{name}: the parameter {argument!r}")
            for argument, annotation in arguments.items()
        }
        empty = inspect.Parameter.empty
        required = frozenset(argument for argument in arguments if parameters[argument].default is empty)
        if UNITS in filled.values():
            _check_lists(name, arguments)
        typed = frozenset(argument for argument, codec in codecs.items() if not is_plain(codec))
        return cls(name, arguments, required, filled, typed, result_codec(function, hints, own))

    @classmethod
    def from_method(cls, function: Callable[..., Any], own: tuple[type, ...] = ()) -> Self:
        """Inspect a method's signature, without its first parameter. Raises `TypeError` as `from_function` does."""
        check_plain(function, "method")
        first, *_ = inspect.signature(function).parameters
        return cls.from_function(function, own, first)

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name. Raises `WrongArguments` for too many arguments, or a repeated one."""
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
        """The names of the arguments. Optional arguments have a question mark: ``["order", "size?"]``."""
        return [name if name in self.required else f"{name}?" for name in self.arguments]

    @property
    def takes_units(self) -> bool:
        """Whether the task takes several units at once."""
        return UNITS in self.filled.values()

    def encode(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a call as JSON. Raises `WrongArguments`."""
        self._check_names(values)
        written = {name: self._converted(encode, name, value) for name, value in values.items()}
        return written if self.typed else values

    def decode(self, payload: Mapping[str, Any], *, stored: bool = False) -> dict[str, Any]:
        """Return the arguments that JSON contains. Changing them does not change the JSON. Raises `WrongArguments`.

        Fields that a class in `stored` JSON does not have are ignored.
        """
        self._check_names(payload)
        read = partial(decode, stored=stored)
        return {name: self._converted(read, name, value) for name, value in payload.items()}

    def _converted(self, convert: Callable[[Codec, Any, str], Any], name: str, value: Any) -> Any:
        try:
            return convert(codec_of(self.arguments[name], name), value, name)
        except WrongValue as error:
            raise WrongArguments(f"{self.task}: {error}.", name) from error

    def _check_names(self, values: Mapping[str, Any]) -> None:
        for name in values:
            if name not in self.arguments:
                raise WrongArguments(f"{self.task} takes no argument {name!r}.", name)
        if missing := sorted(self.required - values.keys()):
            raise WrongArguments(f"{self.task} needs the argument {missing[0]!r}.", missing[0])

    def bind(
        self,
        payload: Mapping[str, Any],
        subject: TaskSubject | Sequence[Unit] | None,
        context: TaskContext | None = None,
        *,
        stored: bool = False,
    ) -> dict[str, Any]:
        """Return the function's arguments. Raises `BadArgument`, also if the function needs another kind of subject."""
        try:
            arguments = self.decode(payload, stored=stored)
        except WrongArguments as error:
            raise BadArgument(str(error), field=error.argument) from error
        filled = {name: _filled(kind, subject, context) for name, kind in self.filled.items()}
        for name, kind in self.filled.items():
            if filled[name] is None:
                raise BadArgument(
                    f"{self.task} needs a {type_name(kind)} ({name!r}), and this call has none.", field=name
                )
        if self.takes_units:
            self._check_items(arguments, len(next(filled[name] for name, kind in self.filled.items() if kind == UNITS)))
        return {**arguments, **filled}

    def _check_items(self, arguments: Mapping[str, Any], count: int) -> None:
        for name, items in arguments.items():
            if len(items) != count:
                raise BadArgument(
                    f"{self.task} takes several units at once, so each unit's call passes one item in {name!r}: "
                    f"`{self.task}.call({name}=[item])`. These have {len(items)} items for {count} units.",
                    field=name,
                )


def _filled(kind: Any, subject: TaskSubject | Sequence[Unit] | None, context: TaskContext | None) -> Any:
    """Return the value that a parameter of this type receives, or None if the kit has none."""
    if kind == UNITS:
        return [subject] if isinstance(subject, Unit) else subject if isinstance(subject, list) else None
    found = context if kind is TaskContext else subject
    return found if isinstance(found, kind) else None


def _check_lists(task: str, arguments: Mapping[str, Any]) -> None:
    for name, annotation in arguments.items():
        if get_origin(annotation) is not list:
            raise TypeError(f"{task} takes a list of units, so {name!r} must be a list, too: one item for each unit")


def _check_parameter(what: str, parameter: inspect.Parameter, annotation: Any) -> None:
    if parameter.kind not in _PASSED_BY_NAME:
        raise TypeError(f"{what} cannot be passed by name: arguments of a task travel as a JSON object")
    if annotation == UNITS:
        return
    if filled := [kind.__name__ for kind in get_args(annotation) if kind in _FILLED]:
        raise TypeError(
            f"{what} is a {type_name(annotation)}: the kit fills it if it is a {filled[0]} and nothing else"
        )


def result_codec(function: Callable[..., Any], hints: Mapping[str, Any], own: tuple[type, ...] = ()) -> Codec:
    """Return the codec of the results of a function with these annotations.

    The kit takes results of the classes `own` for itself. Raises `TypeError` for a type that has no codec.
    """
    annotation = hints.get("return", Any)
    parts = get_args(annotation) if is_union(annotation) else (annotation,)
    others = tuple(part for part in parts if not (isinstance(part, type) and issubclass(part, own)))
    if not others or annotation in (Never, NoReturn):
        return JSON
    name = getattr(function, "__name__", repr(function))
    codec = codec_of(Union[others], f"{name}: the result")  # noqa: UP007  its members are known at run time
    return plain_result(Union[others]) if is_plain(codec) else codec  # noqa: UP007  as above


def plain_result(annotation: Any) -> Codec:
    """Return the codec of the results of a type whose values are JSON themselves."""
    return JSON if annotation is Any else PlainResult(annotation)
