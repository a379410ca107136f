"""The outcome of a call or a step: its result or its error, and the exception that its caller receives.

A stored error names the class of its problem by the slug. The caller's process raises the class that it has under that
slug, which can be a user's class. The attributes that the class has beyond those of `Problem` are stored as JSON by
their own types, and read by the annotations of the class or of its constructor. An attribute that JSON cannot contain
is not kept.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from functools import cache, lru_cache
from typing import Any, Self, get_type_hints

from signalbox.core.codec.annotations import codec_of, encode_unannotated
from signalbox.core.codec.json_forms import WrongValue, decode
from signalbox.core.effects import Json
from signalbox.core.error_notes import without_last_error
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import GaveUp, Problem, text_of
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.problems import MethodFailed

METHOD_FAILED_DETAIL = "The code of the method has failed."
"""What an open function shows instead of the text of a method's exception."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call or a step ended. `error` has the members of a problem; `object` is a result that is an object.

    A stored outcome has a JSON result. Inside a flow's turn the result can be any value, and `raised` is the exception
    that code of this process raised.
    """

    result: Any = None
    error: Mapping[str, Any] | None = None
    object: ObjectAddress | None = None
    raised: BaseException | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_problem(cls, problem: Problem) -> Self:
        """Return the outcome of code that raised. A long detail is cut, since a record contains it."""
        detail = text_of(problem.detail)[: CORE_LIMITS.error_letters_max]
        shown = {"type": problem.slug(), "title": problem.title, "status": problem.status, "detail": detail}
        named = {} if problem.field is None else {"field": problem.field[: CORE_LIMITS.error_letters_max]}
        own = _own_fields(problem)
        return cls(error={**shown, **named, **({"fields": own} if own else {})})

    @property
    def failed(self) -> bool:
        """Whether there is an error instead of a result."""
        return self.error is not None or self.raised is not None

    @property
    def value(self) -> Any:
        """The result, or the object that is the result."""
        return self.object or self.result

    def exception(self) -> BaseException | None:
        """Return the error as the exception that is raised in the code that waits for the outcome."""
        return self.problem() if self.raised is None else self.raised

    def problem(self) -> Problem | None:
        """Return the error as a problem of the class that was raised, if this process has that class."""
        if self.error is None:
            return None
        problem = _rebuilt(
            _problem_class(str(self.error.get("type")), Problem.CLASSES_DEFINED), str(self.error.get("detail"))
        )
        problem.status, problem.title = int(self.error["status"]), str(self.error["title"])
        problem.field = self.error.get("field")
        vars(problem).update(_read_fields(type(problem), self.error.get("fields", {})))
        return problem

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as callers and continuations receive it."""
        if self.error is not None:
            return {"error": dict(self.error)}
        return {"object": self.object.to_json()} if self.object else {"result": self.result}

    def to_text(self) -> str:
        """Return the outcome as records contain it."""
        return json.dumps(self.to_json())

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Undo `to_json`."""
        address = ObjectAddress.from_json(value["object"]) if "object" in value else None
        return cls(value.get("result"), value.get("error"), address)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Undo `to_text`."""
        return cls.from_json(json.loads(text))


def without_exception_text(outcome: CallOutcome) -> CallOutcome:
    """Return an outcome as an open function shows it: without the text of an exception that is not a `Problem`.

    Of the error of a task that was given up, the number of its starts remains.
    """
    if outcome.error is None or outcome.error["type"] not in (GaveUp.slug(), MethodFailed.slug()):
        return outcome
    error = {name: value for name, value in outcome.error.items() if name != "fields"}
    if error["type"] == MethodFailed.slug():
        return replace(outcome, error={**error, "detail": METHOD_FAILED_DETAIL})
    return replace(outcome, error={**error, "detail": without_last_error(str(error["detail"]))})


@lru_cache
def _problem_class(slug: str, _classes: int) -> type[Problem]:
    """Return the class of problems that has a slug, among the classes that this process has defined so far.

    If several classes have it, for instance the kit's `TooLarge` and one of a user, return a class that an `except` of
    each class catches.
    """
    kinds = [kind for kind in _problem_classes() if kind.slug() == slug]
    bases = {base for kind in kinds for base in kind.__mro__[1:]}
    narrowest = tuple(kind for kind in kinds if kind not in bases)
    return _joined(narrowest) if len(narrowest) > 1 else narrowest[0] if narrowest else MethodFailed


def _problem_classes() -> Iterator[type[Problem]]:
    """Iterate over all classes of problems, those of users' functions included."""
    pending = [Problem]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if kind not in _joined_classes:
            yield kind


_joined_classes: set[type[Problem]] = set()


@cache
def _joined(kinds: tuple[type[Problem], ...]) -> type[Problem]:
    joined = type(kinds[0].__name__, kinds, {})
    _joined_classes.add(joined)
    return joined


def _rebuilt(kind: type[Problem], detail: str) -> Problem:
    """Return a problem. A constructor of a user's class is not called, since its arguments are not known."""
    constructor: Any = kind.__init__
    if str(constructor.__module__).partition(".")[0] == __name__.partition(".")[0]:
        return kind(detail)
    problem: Problem = Problem.__new__(kind, detail)
    Problem.__init__(problem, detail)
    return problem


# --- the fields of a class of problems ---

FIELDS_BYTES_MAX = 10_000
"""The largest size of the fields of a problem, since the records of flows and objects contain it. Fields that do not
fit next to those before them are not kept.
"""

_OF_PROBLEM = {"detail", "field", "status", "title", "__notes__"}


def _own_fields(problem: Problem) -> dict[str, Json]:
    """Return the attributes of a problem as JSON, except those that every problem has."""
    fields: dict[str, Json] = {}
    left = FIELDS_BYTES_MAX
    kind: Any = type(problem)
    unchanged = _unchanged(kind)
    for name, value in vars(problem).items():
        if name in _OF_PROBLEM or name in kind.NOT_STORED or (name == "headers" and not value):
            continue
        if name in unchanged and unchanged[name] == value:
            continue
        with suppress(WrongValue, ValueError):
            written = encode_unannotated(value, name)
            size_bytes = len(json.dumps({name: written}))
            if size_bytes <= left:
                fields[name], left = written, left - size_bytes
    return fields


@cache
def _unchanged(kind: Any) -> Mapping[str, Any]:
    """Return the attributes that a class of the kit has without further arguments, so they need not be stored."""
    return vars(_rebuilt(kind, "")) if kind.__module__.partition(".")[0] == __name__.partition(".")[0] else {}


def _read_fields(kind: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored fields as values of their annotated types. A value without such a type is JSON."""
    annotations = _annotations(kind) if stored else {}
    fields = {}
    for name, value in stored.items():
        fields[name] = value
        with suppress(WrongValue, TypeError):
            fields[name] = decode(codec_of(annotations.get(name, Any), name), value, name, stored=True)
    return fields


@cache
def _annotations(kind: Any) -> dict[str, Any]:
    """Return the annotations of a class's constructor and fields, as far as they can be read at run time."""
    known: dict[str, Any] = {}
    for annotated in (kind.__init__, kind):
        with suppress(Exception):  # a name that only a type checker knows
            known |= get_type_hints(annotated)
    return known


@dataclass(frozen=True, slots=True)
class Outcome:
    """The context of a continuation: how the call `call` of an object ended; `called` is the object's class and key.

    It has either an `error`, with the members of a problem, or a `result`. A result that is an object is in `object`,
    by its class and key. For a flow, `called` is its name and id, and `call` its id.
    """

    called: Mapping[str, str]
    call: str
    result: Any = None
    error: Mapping[str, Any] | None = None
    object: Mapping[str, str] | None = None
