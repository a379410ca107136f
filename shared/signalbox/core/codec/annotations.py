"""The codec of a type annotation: of arguments, results, events and the state of objects.

A type is compiled once. The values of most types are JSON already, and are only checked. A union is refused if the JSON
does not determine the member that a value belongs to, for instance ``datetime | str``.
"""

import dataclasses
import sys
import typing
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, ForwardRef, Literal, TypeVar, Union, cast, get_args, get_origin

from signalbox.core.codec.json_forms import (
    JSON,
    TEXTS,
    AnyOf,
    Codec,
    Items,
    Map,
    Member,
    Plain,
    Record,
    Text,
    Tuple,
    WrongValue,
    decode,
    is_plain,
    sorted_items,
    text_of_error,
)
from signalbox.core.codec.json_types import SCALARS, is_json_type, is_union, type_name
from signalbox.core.codec.models import Model
from signalbox.core.codec.sorted_sets import SETS
from signalbox.core.effects import Json
from signalbox.core.problems import BadArgument

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


_codecs: dict[Any, Codec] = {}
"""The codecs of the types that have been used, by annotation."""


def codec_of(annotation: Any, what: str) -> Codec:
    """Return the codec of a type.

    Raises `TypeError` for a type without a codec. The message names the annotated place, `what`, and a type to use
    instead.
    """
    try:
        known = _codecs.get(annotation)
    except TypeError:  # it has no hash, such as `[int]`
        raise TypeError(f"{what} is {annotation!r}, which is not a type: write one, such as `list[int]`") from None
    if known is not None:
        return known
    building: dict[Any, Codec] = {}
    try:
        codec = _build(annotation, what, building)
    except RecursionError:
        raise TypeError(f"{what} is annotated with {annotation!r}, which contains itself: write a dataclass") from None
    _codecs.update(building)
    return codec


# --- values that come without an annotation ---


def encode_unannotated(value: Any, at: str) -> Json:
    """Return a value as JSON by the value's own type, as only the receiver has an annotation. Raises `WrongValue`."""
    try:
        written: Json = _by_own_type(value, at)
    except RecursionError:
        raise WrongValue(f"{at} is nested too deeply") from None
    except WrongValue:
        raise
    except Exception as error:  # of the user's code, such as a serializer or a property
        raise WrongValue(f"{at} cannot be written: {text_of_error(error)}") from error
    return written


def _by_own_type(value: Any, at: str) -> Any:
    kind = type(value)
    if kind is str or kind is int:
        return value
    if kind in (list, tuple):
        return [_by_own_type(item, f"{at}[{index}]") for index, item in enumerate(value)]
    if kind in SETS:
        return sorted_items([_by_own_type(item, at) for item in value])
    if kind is dict:
        return {_own_key(name, at): _by_own_type(item, f"{at}.{name}") for name, item in value.items()}
    try:
        codec = JSON if kind in SCALARS else codec_of(datetime if isinstance(value, datetime) else kind, at)
    except TypeError as error:
        raise WrongValue(str(error)) from error
    return codec.encode(value, at)


def _own_key(name: Any, at: str) -> str:
    key = _by_own_type(name, at)
    if not isinstance(key, str):
        raise WrongValue(f"{at} has the key {name!r}, which is not a str")
    return key


def parse(value: Any, kind: "TypeForm[T]") -> T:
    """Return JSON as a value of a type: a dataclass, an enum, a datetime and so on.

    Use this function for values that arrive without a type, such as the result in an `Outcome`. Raises `BadArgument`
    naming the place of a wrong value, `TypeError` for a type that arguments and results cannot have.
    """
    try:
        return cast("T", decode(codec_of(kind, "the type"), value, "value"))
    except WrongValue as error:
        raise BadArgument(f"{error}.", field="value") from error


# --- compiled types ---

_ADVICE: Final[Mapping[Any, str]] = {
    time: "write a `str`",
    timedelta: "write the seconds as a `float`",
    complex: "write two `float`",
    bytearray: "write `bytes`",
}


def _build(annotation: Any, what: str, building: dict[Any, Codec]) -> Codec:
    """Return the codec of a type. A type that contains itself is already in `building`."""
    known = _codecs.get(annotation) or building.get(annotation)
    if known is None:
        known = building[annotation] = _new(annotation, what, building)
    return known


def _new(annotation: Any, what: str, building: dict[Any, Codec]) -> Codec:
    origin, inner = get_origin(annotation), get_args(annotation)
    if is_json_type(annotation):
        return Plain(annotation)
    if annotation in TEXTS:
        return TEXTS[annotation]
    if isinstance(annotation, typing.NewType):
        return _build(annotation.__supertype__, what, building)
    if hasattr(annotation, "__value__"):  # type X = …
        return _build(annotation.__value__, what, building)
    if origin is typing.Annotated:
        return _build(inner[0], what, building)
    if is_union(annotation):
        return _union(annotation, what, building)
    if origin is tuple and inner[1:] != (...,):
        return Tuple(tuple(_build(part, f"{what}, item {index}", building) for index, part in enumerate(inner)))
    if annotation is tuple or origin in (list, tuple, set, frozenset):
        return _items(origin or annotation, inner[0] if inner else Any, what, building)
    if origin is dict:
        return _map(inner, what, building)
    if isinstance(annotation, type):
        return _class(annotation, what, building)
    if dataclasses.is_dataclass(origin) or typing.is_typeddict(origin):
        raise _generic(annotation, what)
    raise _refused(annotation, what)


def _items(kind: type, item: Any, what: str, building: dict[Any, Codec]) -> Codec:
    codec = _build(item, f"{what}, its items", building)
    if kind in (set, frozenset) and (not codec.kinds <= SCALARS or isinstance(codec, AnyOf)):
        raise TypeError(f"{what}, a {kind.__name__} of {type_name(item)}, has no order in JSON: write a `list` of them")
    return Items(kind, codec)


def _map(inner: tuple[Any, ...], what: str, building: dict[Any, Codec]) -> Codec:
    key = _build(inner[0], f"{what}, its keys", building)
    if key.kinds != Text.kinds:
        raise TypeError(f"{what} has keys of {type_name(inner[0])}, which are not texts in JSON: write `dict[str, …]`")
    return Map(key, _build(inner[1], f"{what}, its values", building))


def _union(annotation: Any, what: str, building: dict[Any, Codec]) -> Codec:
    plain = tuple(member for member in get_args(annotation) if is_json_type(member))
    members: list[Codec] = [Plain(Union[plain])] if plain else []  # noqa: UP007  its members are known at run time
    members += [_build(member, what, building) for member in get_args(annotation) if not is_json_type(member)]
    tags: set[str] = set()
    for number, codec in enumerate(members):
        for other in members[:number]:
            if (both := codec.kinds & other.kinds) and not (is_plain(codec) and is_plain(other)):
                if not (found := _tags_of(codec, other)):
                    raise TypeError(_ambiguous(annotation, what, both))
                tags |= found
    return AnyOf(annotation, members, frozenset(tags))


def _tags_of(one: Codec, other: Codec) -> set[str]:
    """Return the fields whose values distinguish the objects of two classes."""
    if not isinstance(one, Record) or not isinstance(other, Record):
        return set()
    return {name for name in one.tags.keys() & other.tags.keys() if not one.tags[name] & other.tags[name]}


def _ambiguous(annotation: Any, what: str, kinds: frozenset[type]) -> str:
    shown = f"{what} is {type_name(annotation)}, and JSON does not say of which member a value is"
    if dict in kinds:
        return f'{shown}: give each class a field such as `kind: Literal["paid"] = "paid"`'
    return f"{shown}: write one of its members, or a dataclass for each"


def _class(kind: Any, what: str, building: dict[Any, Codec]) -> Codec:
    if issubclass(kind, Enum):
        if not all(type(member.value) in SCALARS - {type(None)} for member in kind) or not len(kind):
            raise TypeError(f"{what} is {kind.__name__}, an enum whose values are not JSON: give its members texts")
        return Member(kind)
    pydantic: Any = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(kind, pydantic.BaseModel):
        if getattr(kind, "__pydantic_root_model__", False):
            raise TypeError(f"{what} is {kind.__name__}, a RootModel: write its type itself, or a model with a field")
        return Model(kind)
    if typing.is_typeddict(kind) or dataclasses.is_dataclass(kind):
        record = building[kind] = Record(kind)
        return _filled(record, what, building)
    raise _refused(kind, what)


def _filled(record: Record, what: str, building: dict[Any, Codec]) -> Record:
    """Set the fields of a record, and return the record."""
    kind: Any = record.kind
    if getattr(kind, "__parameters__", ()):
        raise _generic(kind, what)
    hints = hints_of(kind, f"{what} is {kind.__name__}", include_extras=True)
    if typing.is_typeddict(kind):
        types, required = hints, frozenset(name for name in hints if _is_required(kind, name, hints[name]))
    else:
        if wrong := [name for name, hint in hints.items() if isinstance(hint, dataclasses.InitVar)]:
            raise TypeError(f"{what} is {kind.__name__}, whose {wrong[0]} is an InitVar: make it a field")
        fields = [field for field in dataclasses.fields(kind) if field.init]
        types = {field.name: hints[field.name] for field in fields}
        required = frozenset(field.name for field in fields if _has_no_default(field))
    types = {name: _bare(hint) for name, hint in types.items()}
    record.required = required
    record.tags = {
        name: frozenset((type(option), option) for option in get_args(hint))
        for name, hint in types.items()
        if get_origin(hint) is Literal
    }
    record.fields = {name: _build(hint, f"{what}, {kind.__name__}.{name}", building) for name, hint in types.items()}
    return record


def hints_of(code: Any, what: str, *, include_extras: bool = False) -> dict[str, Any]:
    """Return the annotations of a function or a class, which `what` names.

    Raises `TypeError` for a name that is not known at run time.
    """
    try:
        return typing.get_type_hints(code, include_extras=include_extras)
    except NameError as error:
        detail = f"{what}: {error} at run time. Define or import it in the module, not in a function"
        raise TypeError(f"{detail} and not under `if TYPE_CHECKING`") from error


def _has_no_default(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _is_required(kind: Any, name: str, hint: Any) -> bool:
    origin = get_origin(hint)
    return origin is typing.Required or (origin is not typing.NotRequired and name in kind.__required_keys__)


def _bare(hint: Any) -> Any:
    """Return a type without its qualifiers."""
    while get_origin(hint) in (typing.Annotated, typing.Required, typing.NotRequired, Final, typing.ClassVar):
        hint = get_args(hint)[0]
    return hint


def _generic(annotation: Any, what: str) -> TypeError:
    return TypeError(
        f"{what} is {type_name(annotation)}, which is generic: write a class whose fields have their types"
    )


def _refused(annotation: Any, what: str) -> TypeError:
    if isinstance(annotation, str | ForwardRef):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        return TypeError(f"{what} is the text {text!r}: write the type itself, without quotes")
    advice = _ADVICE.get(annotation) or _advice_of(annotation)
    return TypeError(f"{what} is a {type_name(annotation)}, which JSON does not have: {advice}")


def _advice_of(annotation: Any) -> str:
    origin = get_origin(annotation) or annotation
    name = str(getattr(origin, "__name__", ""))
    if hasattr(origin, "get_secret_value"):
        return "pass the secret's name, and read the secret where it is used"
    if name in ("Sequence", "MutableSequence", "Iterable", "Iterator", "Collection", "deque"):
        return "write `list[…]`"
    if name in ("Mapping", "MutableMapping", "defaultdict", "OrderedDict", "Counter"):
        return "write `dict[str, …]`"
    if name in ("Set", "MutableSet", "AbstractSet"):
        return "write `set[…]`"
    if isinstance(annotation, TypeVar):
        return "write the type itself"
    return "write a dataclass, a TypedDict or a JSON type"
