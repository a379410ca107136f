"""Pydantic models. The configuration of a model determines the JSON that it writes and accepts."""

import dataclasses
import json
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, get_args, get_origin
from uuid import UUID

from signalbox.core.codec.json_forms import OBJECT, WrongValue, check, same_when_read, text_of_error
from signalbox.core.codec.json_forms import sorted_items as in_order
from signalbox.core.codec.json_types import type_name
from signalbox.core.codec.sorted_sets import SETS, SORTED

_WITHOUT_SETS = {bool, int, float, str, bytes, type(None), datetime, date, Decimal, UUID}
_SETS = (set, frozenset)


class Model:
    """The codec of a model."""

    kinds = OBJECT

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._sets: bool | None = None

    def encode(self, value: Any, at: str) -> Any:
        if type(value) is not self._kind:
            raise WrongValue(f"{at} must be {self._kind.__name__}, not {type_name(type(value))}")
        try:
            written: Any = value.model_dump(mode="json", by_alias=True)
        except Exception as error:  # a serializer is the user's code
            raise WrongValue(f"{at} cannot be written: {text_of_error(error)}") from error
        if self._has_sets:
            _sort(value, written)
        check(written, dict, at)
        same_when_read(partial(self._read, written, at), value, at)
        return written

    def decode(self, value: Any, at: str, stored: bool) -> Any:  # noqa: ARG002  the model decides
        check(value, dict, at)
        return self._read(value, at)

    def _read(self, value: Any, at: str) -> Any:
        try:
            read = self._kind.model_validate_json(json.dumps(value))
        except Exception as error:  # a validator is the user's code
            raise WrongValue(_place_of(error, at)) from error
        return _sorted(read) if self._has_sets else read

    @property
    def _has_sets(self) -> bool:
        """Whether a part of a value may be a set. It is known once the model is used, and all its types exist."""
        if self._sets is None:
            self._sets = _may_have_sets(self._kind, set())
        return self._sets


def _place_of(error: Exception, at: str) -> str:
    errors: Any = getattr(error, "errors", None)
    if errors is None:
        return f"{at}: {text_of_error(error)}"
    first = errors()[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    return f"{at}{place}: {first['msg']}"


def _may_have_sets(annotation: Any, seen: set[Any]) -> bool:
    if annotation in _WITHOUT_SETS or annotation in seen:
        return False
    if (fields := getattr(annotation, "model_fields", None)) is not None:
        seen.add(annotation)
        return any(_may_have_sets(field.annotation, seen) for field in fields.values())
    if (inner := get_args(annotation)) and get_origin(annotation) not in _SETS:
        return any(_may_have_sets(part, seen) for part in inner if not isinstance(part, str | int))
    return not (isinstance(annotation, type) and issubclass(annotation, Enum))


def _names(value: Any) -> list[tuple[str, str]]:
    """Return the fields of a dataclass or a model, by their names in the class and in the JSON."""
    if dataclasses.is_dataclass(value):
        return [(field.name, field.name) for field in dataclasses.fields(value)]
    fields = getattr(type(value), "model_fields", {})
    return [(name, field.serialization_alias or field.alias or name) for name, field in fields.items()]


def _sort(value: Any, written: Any) -> None:
    """Sort the lists in JSON that were written for sets: each process writes a set in another order."""
    if isinstance(written, list):
        if isinstance(value, _SETS):
            written[:] = in_order(written)
        elif isinstance(value, list | tuple):
            for item, part in zip(value, written, strict=False):
                _sort(item, part)
    elif isinstance(written, dict):
        if isinstance(value, dict):
            for item, part in zip(value.values(), written.values(), strict=False):
                _sort(item, part)
        for name, shown in _names(value):
            if shown in written:
                _sort(getattr(value, name), written[shown])


def _sorted(value: Any) -> Any:
    """Return a value whose sets iterate in the same order in every process."""
    if isinstance(value, SETS):
        return value if type(value) not in SORTED else SORTED[type(value)](value)
    if type(value) in (list, tuple):
        return type(value)(map(_sorted, value))
    if type(value) is dict:
        return {name: _sorted(item) for name, item in value.items()}
    for name, _ in _names(value):
        object.__setattr__(value, name, _sorted(getattr(value, name)))
    return value
