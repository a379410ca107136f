"""Each kind of type, and its form in JSON: how its values are written and read.

    JSON itself            None, bool, int, float, str, list, dict, Literal and unions of them: checked, and unchanged
    datetime, date         text (RFC 3339); a datetime has a time zone, and is written in UTC
    UUID, Decimal          text
    bytes                  text (base64url)
    Enum                   the value of the member
    tuple, set, frozenset  a list; that of a set is sorted, and the set that is read iterates sorted
    dataclass, TypedDict   an object, by the names of its fields
    pydantic model         the JSON that the model itself writes and accepts (`models`)

Code of the user that runs when a value is read (`__post_init__`, a model's validators) may refuse or change what was
written. Values of such classes are read back when they are written, so the error is raised where the value was made.

Values from a caller are checked strictly, because an unknown field may be a misspelt one. Values that the kit has
stored (`stored`) are read leniently, so that a field can be removed from the code.
"""

import base64
import json
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol
from uuid import UUID

from signalbox.core.codec.json_types import SCALARS, copied, json_kinds, type_errors, type_name
from signalbox.core.codec.read_back import difference
from signalbox.core.codec.sorted_sets import SORTED
from signalbox.core.problems import Problem, text_of
from signalbox.core.times import rfc3339
from signalbox.core.user_code import described, ends_process

_TEXT: frozenset[type] = frozenset({str})
_LIST: frozenset[type] = frozenset({list})
OBJECT: frozenset[type] = frozenset({dict})


class WrongValue(ValueError):
    """A value is not of its annotated type; the message names the place: ``order.lines[2].price must be float, …``."""


class Codec(Protocol):
    """The writer and reader of the values of a type. `kinds` are the types that these values have in JSON."""

    @property
    def kinds(self) -> frozenset[type]: ...

    def encode(self, value: Any, at: str) -> Any:
        """Return a value as JSON. Raises `WrongValue`."""
        ...

    def decode(self, value: Any, at: str, stored: bool) -> Any:
        """Return the value that JSON represents. Raises `WrongValue`; unknown fields of `stored` JSON are ignored."""
        ...


def is_plain(codec: Codec) -> bool:
    """Return whether the codec's values are JSON without conversion."""
    return isinstance(codec, Plain)


def encode(codec: Codec, value: Any, at: str) -> Any:
    """Return a value as JSON. Raises `WrongValue` naming the wrong part, whose place begins with `at`.

    Errors of the user's code that is called, such as a serializer or a property, are also a `WrongValue`.
    """
    try:
        return codec.encode(value, at)
    except RecursionError:
        raise WrongValue(f"{at} is nested too deeply") from None
    except WrongValue:
        raise
    except BaseException as error:  # validators and serializers are the user's code
        raise _error_of_code(error, f"{at} cannot be written") from error


def decode(codec: Codec, value: Any, at: str, *, stored: bool = False) -> Any:
    """Return the value that JSON represents. The value and the JSON share no mutable part.

    Raises `WrongValue` naming the wrong part, whose place begins with `at`. Fields of `stored` JSON that the type does
    not have are ignored.
    """
    try:
        return codec.decode(value, at, stored)
    except RecursionError:
        raise WrongValue(f"{at} is nested too deeply") from None
    except Exception:
        raise
    except BaseException as error:  # validators and serializers are the user's code
        raise _error_of_code(error, at) from error


def _error_of_code(error: BaseException, said: str) -> WrongValue:
    """Return the error of user code as a `WrongValue`. Raises an error that ends the process."""
    if ends_process(error):
        raise error
    return WrongValue(f"{said}: {described(error)}")


def check(value: Any, annotation: Any, at: str) -> None:
    """Raise `WrongValue` if a value is not JSON of the annotated type."""
    if (error := next(type_errors(value, annotation, at), None)) is not None:
        raise WrongValue(error)


class Plain:
    """A type whose values are JSON themselves."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        self._exact = annotation if annotation in (str, int, bool) else None
        self.kinds = json_kinds(annotation)

    def encode(self, value: Any, at: str) -> Any:
        if type(value) is not self._exact:
            check(value, self._annotation, at)
        return value

    def decode(self, value: Any, at: str, stored: bool) -> Any:  # noqa: ARG002  it has no fields
        if type(value) is not self._exact:
            check(value, self._annotation, at)
        return copied(value) if type(value) in (list, dict) else value


class PlainResult(Plain):
    """The type of a result whose values are JSON themselves.

    A result is checked when the code returns it. A stored result is not checked again: it may have been returned by
    code whose annotation was another one.
    """

    def decode(self, value: Any, at: str, stored: bool) -> Any:
        return copied(value) if stored else super().decode(value, at, stored)


JSON: Final[Codec] = Plain(Any)
"""The codec of any JSON, for values without an annotation."""


# --- single values ---


class Text:
    """A type whose values are texts in JSON. `form` describes the text, which `pattern` matches."""

    kinds = _TEXT

    def __init__(
        self,
        kind: type,
        form: str,
        pattern: str,
        write: Callable[[Any], str],
        read: Callable[[str], Any],
    ) -> None:
        self._kind, self._form, self._pattern = kind, form, re.compile(pattern, re.ASCII)
        self._write, self._read = write, read

    def encode(self, value: Any, at: str) -> Any:
        if not isinstance(value, self._kind) or (self._kind is date and isinstance(value, datetime)):
            raise WrongValue(f"{at} must be {self._kind.__name__}, not {type_name(type(value))}")
        try:
            text = self._write(value)
        except (ArithmeticError, ValueError) as error:
            raise WrongValue(f"{at} is {value}: {error}") from error
        if not self._pattern.fullmatch(text):
            raise WrongValue(f"{at} is {value}, which is not {self._form}")
        return text

    def decode(self, value: Any, at: str, stored: bool) -> Any:  # noqa: ARG002  it has no fields
        if type(value) is not str:
            raise WrongValue(f"{at} must be {self._form}, not {type_name(type(value))}")
        try:
            if self._pattern.fullmatch(value):
                return self._read(value)
        except (ArithmeticError, ValueError):
            pass  # it has the form, and no such value exists
        raise WrongValue(f"{at} must be {self._form}, not {_shown(value)}")


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN_MAX else f"{value[:_SHOWN_MAX]}…")


_SHOWN_MAX = 60


def _write_datetime(value: datetime) -> str:
    if value.utcoffset() is None:
        raise ValueError("it needs a time zone, as in `datetime.now(UTC)`")
    return rfc3339(value)


def _read_bytes(text: str) -> bytes:
    bare = text.rstrip("=")
    return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))


_DAY = r"\d{4}-\d\d-\d\d"
TEXTS: Final[Mapping[type, Text]] = {
    datetime: Text(
        datetime,
        "a time such as 2026-01-31T09:30:00Z",
        rf"{_DAY}[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)",
        _write_datetime,
        lambda text: datetime.fromisoformat(text.upper()),
    ),
    date: Text(date, "a date such as 2026-01-31", _DAY, date.isoformat, date.fromisoformat),
    UUID: Text(UUID, "a UUID", r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", str, UUID),
    Decimal: Text(
        Decimal, 'a decimal number as text, such as "9.90"', r"-?\d+(\.\d+)?([Ee][+-]?\d{1,6})?", str, Decimal
    ),
    bytes: Text(
        bytes,
        "base64url",
        r"[A-Za-z0-9_-]*={0,2}",
        lambda value: base64.urlsafe_b64encode(value).decode(),
        _read_bytes,
    ),
}


class Member:
    """An enum: in JSON, the value of the member."""

    def __init__(self, kind: type[Enum]) -> None:
        self._kind: Any = kind
        self.kinds: frozenset[type] = frozenset(type(member.value) for member in kind)

    def encode(self, value: Any, at: str) -> Any:
        if type(value) is not self._kind:
            raise WrongValue(f"{at} must be {self._kind.__name__}, not {type_name(type(value))}")
        return value.value

    def decode(self, value: Any, at: str, stored: bool) -> Any:  # noqa: ARG002  it has no fields
        if type(value) in self.kinds:
            with suppress(Exception):  # `_missing_` is the user's code
                return self._kind(value)
        known = ", ".join(repr(member.value) for member in self._kind)
        raise WrongValue(f"{at} must be one of {known}")


# --- several values ---


def _without_class(value: Any) -> Any:
    """Return a tuple of a subclass as a plain tuple. A named tuple stays: its names would be lost."""
    is_subclass = isinstance(value, tuple) and type(value) is not tuple and not hasattr(value, "_fields")
    return tuple(value) if is_subclass else value


class Items:
    """A list, a set or a tuple of any length: a list in JSON."""

    kinds = _LIST

    def __init__(self, kind: type, item: Codec) -> None:
        self._kind: Any = kind
        self._made: Any = SORTED.get(kind, kind)
        self._item = item

    def encode(self, value: Any, at: str) -> Any:
        value = _without_class(value)
        if type(value) is not self._kind and type(value) is not self._made:
            raise WrongValue(f"{at} must be {self._kind.__name__}, not {type_name(type(value))}")
        items = [self._item.encode(item, f"{at}[{index}]") for index, item in enumerate(value)]
        return sorted_items(items) if self._kind in (set, frozenset) else items

    def decode(self, value: Any, at: str, stored: bool) -> Any:
        if type(value) is not list:
            raise WrongValue(f"{at} must be list, not {type_name(type(value))}")
        return self._made(self._item.decode(item, f"{at}[{index}]", stored) for index, item in enumerate(value))


def sorted_items(items: list[Any]) -> list[Any]:
    """Return the items of a set in an order that is the same in every process."""
    return sorted(items, key=json.dumps)


class Tuple:
    """A tuple with a type for each item: a list in JSON."""

    kinds = _LIST

    def __init__(self, items: tuple[Codec, ...]) -> None:
        self._items = items

    def encode(self, value: Any, at: str) -> Any:
        value = _without_class(value)
        if type(value) is not tuple:
            raise WrongValue(f"{at} must be tuple, not {type_name(type(value))}")
        return [item.encode(part, f"{at}[{index}]") for index, (item, part) in self._paired(value, at)]

    def decode(self, value: Any, at: str, stored: bool) -> Any:
        if type(value) is not list:
            raise WrongValue(f"{at} must be list, not {type_name(type(value))}")
        return tuple(item.decode(part, f"{at}[{index}]", stored) for index, (item, part) in self._paired(value, at))

    def _paired(self, value: Any, at: str) -> Iterator[tuple[int, tuple[Codec, Any]]]:
        if len(value) != len(self._items):
            raise WrongValue(f"{at} must have {len(self._items)} items, not {len(value)}")
        return enumerate(zip(self._items, value, strict=True))


class Map:
    """A dict: an object in JSON, whose keys are texts."""

    kinds = OBJECT

    def __init__(self, key: Codec, item: Codec) -> None:
        self._key, self._item = key, item

    def encode(self, value: Any, at: str) -> Any:
        if type(value) is not dict:
            raise WrongValue(f"{at} must be dict, not {type_name(type(value))}")
        return {
            self._key.encode(name, f"the key {name!r} of {at}"): self._item.encode(item, f"{at}.{name}")
            for name, item in value.items()
        }

    def decode(self, value: Any, at: str, stored: bool) -> Any:
        if type(value) is not dict:
            raise WrongValue(f"{at} must be dict, not {type_name(type(value))}")
        return {
            self._key.decode(name, f"the key {name!r} of {at}", stored): self._item.decode(item, f"{at}.{name}", stored)
            for name, item in value.items()
        }


class Record:
    """A dataclass or a TypedDict: an object in JSON, with a member for each field."""

    kinds = OBJECT

    def __init__(self, kind: type) -> None:
        self.kind: Any = kind
        self.fields: dict[str, Codec] = {}
        self.required: frozenset[str] = frozenset()
        self.tags: dict[str, frozenset[Any]] = {}
        self._is_dict = typing.is_typeddict(kind)
        self._runs_code = not self._is_dict and _runs_code(kind)

    def encode(self, value: Any, at: str) -> Any:
        if type(value) is not (dict if self._is_dict else self.kind):
            raise WrongValue(f"{at} must be {self.kind.__name__}, not {type_name(type(value))}")
        if self._is_dict:
            self._check_names(value, at)
            return {name: self.fields[name].encode(item, f"{at}.{name}") for name, item in value.items()}
        written = {name: codec.encode(_field(value, name, at), f"{at}.{name}") for name, codec in self.fields.items()}
        if self._runs_code:
            same_when_read(partial(self.decode, written, at, stored=True), value, at)
        return written

    def decode(self, value: Any, at: str, stored: bool) -> Any:
        if type(value) is not dict:
            raise WrongValue(
                f"{at} must be an object with the fields of {self.kind.__name__}, not {type_name(type(value))}"
            )
        known = {name: item for name, item in value.items() if name in self.fields} if stored else value
        self._check_names(known, at)
        fields = {name: self.fields[name].decode(item, f"{at}.{name}", stored) for name, item in known.items()}
        if self._is_dict:
            return fields
        try:
            return self.kind(**fields)
        except Exception as error:  # a check in `__post_init__` is the user's code
            raise WrongValue(f"{at} is not a {self.kind.__name__}: {text_of_error(error)}") from error

    def _check_names(self, value: Mapping[Any, Any], at: str) -> None:
        if unknown := [name for name in value if name not in self.fields]:
            raise WrongValue(f"{at}.{unknown[0]} is not a field of {self.kind.__name__}")
        if missing := [name for name in self.fields if name in self.required and name not in value]:
            raise WrongValue(f"{at}.{missing[0]} is missing")


def _field(value: Any, name: str, at: str) -> Any:
    try:
        return getattr(value, name)
    except AttributeError:
        raise WrongValue(f"{at}.{name} is missing") from None


def text_of_error(error: Exception) -> str:
    """Return the text of an error of the user's code, or the name of its class."""
    return text_of(error.detail if isinstance(error, Problem) else error).rstrip(".") or type(error).__name__


def _runs_code(kind: Any) -> bool:
    """Return whether reading a dataclass does more than setting its fields to the values in the JSON."""
    generated = getattr(kind.__init__, "__code__", None)
    by_itself = generated is not None and generated.co_filename == "<string>"
    return not by_itself or hasattr(kind, "__post_init__")


def same_when_read(read: Callable[[], Any], value: Any, at: str) -> None:
    """Raise `WrongValue` if a receiver of a value's JSON could not `read` it, or would get another value."""
    try:
        back = read()
    except WrongValue as error:
        raise WrongValue(f"{at} could not be read again from the JSON that it writes ({error})") from error
    if differs := difference(value, back, at):
        raise WrongValue(differs)


class AnyOf:
    """A union. The kind of the JSON, or a `Literal` field in `tags`, determines the member that a value belongs to."""

    def __init__(self, annotation: Any, members: list[Codec], tags: frozenset[str]) -> None:
        self._name, self._members, self._tags = type_name(annotation), members, tags
        self.kinds = frozenset[type]().union(*(member.kinds for member in members))

    def encode(self, value: Any, at: str) -> Any:
        return self._first([partial(member.encode, value, at) for member in self._members], value, at)

    def decode(self, value: Any, at: str, stored: bool) -> Any:
        fitting = [member for member in self._members if type(value) in member.kinds and self._may_be(member, value)]
        return self._first([partial(member.decode, value, at, stored) for member in fitting], value, at)

    def _may_be(self, member: Codec, value: Any) -> bool:
        """Return whether an object has the tags of a member."""
        tags = member.tags if isinstance(member, Record) else {}
        return all(_has(value, name, tags[name]) for name in self._tags & tags.keys())

    def _first(self, attempts: list[Callable[[], Any]], value: Any, at: str) -> Any:
        """Return the first result. If all fail, raise an error about a part of the value, or else about the value."""
        errors = []
        for attempt in attempts:
            try:
                return attempt()
            except WrongValue as error:
                errors.append(error)
        inner = [error for error in errors if not str(error).startswith(f"{at} must be ")]
        own = f"{at} must be {self._name}, not {type_name(type(value))}"
        if self._tags and isinstance(value, dict) and not errors:
            own = f"{own} whose {' and '.join(sorted(self._tags))} is of none of them"
        raise inner[0] if inner else WrongValue(own)


def _has(value: dict[str, Any], name: str, options: frozenset[Any]) -> bool:
    return type(value.get(name)) in SCALARS and (type(value.get(name)), value.get(name)) in options
