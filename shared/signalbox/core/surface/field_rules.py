"""Rules of fields, as annotations. A bound is written once, for both the check of a request and its description.

    permits: Annotated[int, Range(1, lambda: LIMITS.permits_max)]
    lease_seconds: Annotated[float | None, Seconds(lambda: CORE_LIMITS.lease_seconds_max)] = None

A `RequestBody` checks its fields when it is made, and `from_request` makes one from a body. A field that is absent or
null takes its default; a field without a default is required. In an answer, a rule is only described.

Rules are plain classes: an `Annotated` hashes them, and a function's start would wait for the generated methods of a
dataclass. `adapters/http/description.py` describes fields by their types, rules and sentences. The sentence of a field
is the string below it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Protocol, Self, TypeVar, get_args

from signalbox.core.keys import valid_key
from signalbox.core.limits import LIMITS
from signalbox.core.problems import BadKey, Problem
from signalbox.core.surface.request_fields import REQUIRED, RequestFields

Schema = Mapping[str, Any]

T = TypeVar("T")

Kind = Callable[..., T]
"""A class of requests."""


class Mark(Enum):
    """Whether a body has a field, if its default does not determine that."""

    KIT_ONLY = "No body has the field: only the kit sets it."
    MAY_BE_ABSENT = "A body may leave the field out, although the request has no default: the handler adds it."


KIT_ONLY, MAY_BE_ABSENT = Mark.KIT_ONLY, Mark.MAY_BE_ABSENT


class Rule(Protocol):
    """The values that a field may have, in addition to its type."""

    def read(self, fields: RequestFields, name: str, default: Any) -> Any:
        """Return the value of a field, or its default if it is None. Raises the problem of `fields`."""
        ...

    def schema(self) -> Schema:
        """Return the rule as keywords of a JSON schema."""
        ...


Bound = float | Callable[[], float]
"""A bound, or a function that returns it: limits are read when they are needed."""


def _now(bound: Bound | None) -> Any:
    return bound() if callable(bound) else bound


def _maximum(most: Bound | None) -> dict[str, Any]:
    return {} if most is None else {"maximum": _now(most)}


class Range:
    """Integers from `least` to `most`. A range without `most` only describes an answer."""

    __slots__ = ("least", "most")

    def __init__(self, least: int, most: Bound | None = None) -> None:
        self.least = least
        self.most = most

    def read(self, fields: RequestFields, name: str, default: Any) -> Any:
        return fields.integer(name, self.least, _now(self.most), default)

    def schema(self) -> Schema:
        return {"minimum": self.least} | _maximum(self.most)


class Seconds:
    """Seconds above 0 (with `zero`, from 0) up to `most`, as a float. Without `most`, it only describes an answer."""

    __slots__ = ("most", "zero")

    def __init__(self, most: Bound | None = None, *, zero: bool = False) -> None:
        self.most = most
        self.zero = zero

    def read(self, fields: RequestFields, name: str, default: Any) -> Any:
        return fields.seconds(name, _now(self.most), default, zero=self.zero)

    def schema(self) -> Schema:
        return {"minimum" if self.zero else "exclusiveMinimum": 0} | _maximum(self.most)


class Text:
    """A string of at most `most` characters."""

    __slots__ = ("most",)

    def __init__(self, most: Callable[[], int]) -> None:
        self.most = most

    def read(self, fields: RequestFields, name: str, default: Any) -> Any:
        text = fields.text(name, default)
        if text is not default and len(text) > self.most():
            raise fields.refuse(name, f"`{name}` must be a string of at most {self.most():,} characters.")
        return text

    def schema(self) -> Schema:
        return {"maxLength": self.most()}


class Checked:
    """A value that a function checks: it returns the value to keep, or raises a problem. `schema` describes it."""

    __slots__ = ("check", "described")

    def __init__(self, check: Callable[[Any], Any], described: Schema) -> None:
        self.check = check
        self.described = described

    def read(self, fields: RequestFields, name: str, default: Any) -> Any:
        value = fields.value(name) if default is REQUIRED else fields.body[name]
        return self.check(value)

    def schema(self) -> Schema:
        return self.described


class Described:
    """Keywords of a JSON schema for a value that is only described, such as a member of an answer.

    With a name, the type and the keywords are a `component` of the description, to which others refer.
    """

    __slots__ = ("component", "described")

    def __init__(self, described: Schema, component: str = "") -> None:
        self.described = described
        self.component = component

    def read(self, fields: RequestFields, name: str, default: Any) -> Any:
        return fields.value(name, default)

    def schema(self) -> Schema:
        return self.described


class Name:
    """The name of a `subject` in an address: a key of at most `bytes_max` bytes."""

    __slots__ = ("bytes_max", "subject")

    def __init__(self, subject: str, bytes_max: int) -> None:
        self.subject = subject
        self.bytes_max = bytes_max

    def check(self, name: str) -> str:
        """Return the name. Raises `BadKey`."""
        if not valid_key(name) or len(name.encode()) > self.bytes_max:
            most = f"{self.bytes_max:,}"
            raise BadKey(f"A {self.subject}'s name is a key of 1 to {most} bytes of UTF-8, without '/'.", field="name")
        return name

    def read(self, fields: RequestFields, name: str, default: Any) -> Any:
        return self.check(fields.value(name, default))

    def schema(self) -> Schema:
        return key_schema(self.bytes_max)


def key_schema(bytes_max: int) -> Schema:
    """Return the schema of a key. The schema counts characters, so it permits some keys that have too many bytes."""
    return {"minLength": 1, "maxLength": bytes_max, "pattern": "^[^/\\u0000-\\u001f\\u007f]+$"}


KEY = Described(
    {
        **key_schema(LIMITS.key_bytes_max),
        "description": f"1 to {LIMITS.key_bytes_max:,} bytes of UTF-8 without `/` and control characters, "
        "percent-encoded in an address; not `.`, `..` or `__…__`.",
    },
    "Key",
)
"""A key that users choose, in an address or an answer. `check_key` checks it."""


# --- requests ---


class RequestBody:
    """A request that HTTP and Python callers both build. Its fields are checked when it is made."""

    __slots__ = ()

    problem: ClassVar[type[Problem]]
    """The problem of a field that is wrong."""

    def __post_init__(self) -> None:
        check_fields(self, self.problem)

    @classmethod
    def from_request(cls, body: Mapping[str, Any], **absent: Any) -> Self:
        """Parse a body. `absent` has values of fields that the body leaves out.

        Raises the class's `problem`; for a field that is a call, also `BadCall` or `TooLarge`.
        """
        return parsed(cls, body, cls.problem, absent)


def check_fields(request: Any, problem: type[Problem]) -> None:
    """Check each field of a request by its rule or its type, and keep the value that the check returns."""
    values: RequestFields | None = None
    readers = _readers(request.__class__)
    for name, read, default in readers:
        value = getattr(request, name)
        if value is default:
            continue
        if values is None:
            values = RequestFields({name: getattr(request, name) for name, _, _ in readers}, problem)
        if (kept := read(values, name, default)) is not value:
            object.__setattr__(request, name, kept)


def parsed(
    kind: Kind[T], body: Mapping[str, Any], problem: type[Problem], absent: Mapping[str, Any] | None = None
) -> T:
    """Return the request of a body. `absent` has values of fields that the body leaves out.

    If the class of a field has `from_request`, as that of calls has, this method parses the field. Raises `problem`, or
    the problem that `from_request` raises.
    """
    names = accepted_fields(kind)
    RequestFields(body, problem).only(*names)
    given = {name: value for name in names if (value := body.get(name)) is not None}
    inner = {name: parse(given[name], name) for name, parse in _nested(kind) if name in given}
    required = dict.fromkeys(name for name, _, default in _readers(kind) if default is REQUIRED)
    return kind(**{**required, **(absent or {}), **given, **inner})


@cache
def accepted_fields(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields that a body may have."""
    return tuple(field.name for field in fields(kind) if KIT_ONLY not in metadata_of(field.type))


def unchecked(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a request of stored values, without a check: a record may be older than a limit."""
    request = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(request, name, value)
    return request


def metadata_of(annotation: Any) -> tuple[Any, ...]:
    """Return the rules and marks of an annotation."""
    return getattr(annotation, "__metadata__", ())


def bare(annotation: Any) -> Any:
    """Return an annotation without its rules and marks."""
    return annotation.__origin__ if metadata_of(annotation) else annotation


def rules_of(annotation: Any) -> Iterator[Rule]:
    """Iterate over the rules of an annotation."""
    return (each for each in metadata_of(annotation) if not isinstance(each, Mark))


Reader = Callable[[RequestFields, str, Any], Any]


@cache
def _readers(kind: Any) -> tuple[tuple[str, Reader, Any], ...]:
    """Return the fields with a check: the name, the function that reads the value, and the default."""
    found = ((field, _reader(field.type)) for field in fields(kind) if KIT_ONLY not in metadata_of(field.type))
    return tuple((field.name, read, _default(field)) for field, read in found if read)


def _reader(annotation: Any) -> Reader | None:
    for rule in rules_of(annotation):
        return rule.read
    kind = bare(annotation)
    return RequestFields.value if hasattr(kind, "from_request") else _PLAIN.get(kind)


_PLAIN: Mapping[Any, Reader] = {
    bool: lambda fields, name, _: fields.flag(name),
    str: RequestFields.text,
}
"""The checks of types without a rule."""


@cache
def _nested(kind: Any) -> tuple[tuple[str, Callable[[Any, str], Any]], ...]:
    """Return the names of the fields whose classes have a `from_request`, each paired with that method."""
    found = ((field.name, each) for field in fields(kind) for each in (bare(field.type), *get_args(bare(field.type))))
    return tuple((name, each.from_request) for name, each in found if hasattr(each, "from_request"))


def _default(field: "Field[Any]") -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return REQUIRED if field.default is MISSING else field.default
