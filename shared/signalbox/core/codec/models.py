"""Pydantic models. The configuration of a model determines the JSON that it writes and accepts."""

import dataclasses
import json
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Annotated, Any, get_args, get_origin
from uuid import UUID

from signalbox.core.codec.json_forms import OBJECT, WrongValue, check, same_when_read, text_of_error
from signalbox.core.codec.json_forms import sorted_items as in_order
from signalbox.core.codec.json_types import type_name
from signalbox.core.codec.sorted_sets import SETS, SORTED

_WITHOUT_SETS = (bool, int, float, str, bytes, type(None), datetime, date, Decimal, UUID)
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


def _may_have_sets(annotation: Any, seen: set[int]) -> bool:
    if id(annotation) in seen or (isinstance(annotation, type) and annotation in _WITHOUT_SETS):
        return False
    if (fields := getattr(annotation, "model_fields", None)) is not None:
        seen.add(id(annotation))
        computed = [field.return_type for field in annotation.model_computed_fields.values()]
        types = [*(field.annotation for field in fields.values()), *computed]
        return annotation.model_config.get("extra") == "allow" or any(_may_have_sets(part, seen) for part in types)
    if (inner := get_args(annotation)) and get_origin(annotation) not in _SETS:
        parts = inner[:1] if get_origin(annotation) is Annotated else inner
        return any(_may_have_sets(part, seen) for part in parts if not isinstance(part, str | int))
    return annotation is not None and not (isinstance(annotation, type) and issubclass(annotation, Enum))


def _names(value: Any) -> list[tuple[str, str]]:
    """Return the fields of a dataclass or a model, by their names in the class and in the JSON."""
    if dataclasses.is_dataclass(value):
        return [(field.name, field.name) for field in dataclasses.fields(value)]
    fields = getattr(type(value), "model_fields", {})
    return [(name, field.serialization_alias or field.alias or name) for name, field in fields.items()]


def _written_names(value: Any) -> list[tuple[str, str]]:
    computed = getattr(type(value), "model_computed_fields", {})
    further = [
        *((name, field.alias or name) for name, field in computed.items()),
        *((name, name) for name in _extra(value)),
    ]
    return [*_names(value), *further]


def _extra(value: Any) -> dict[str, Any]:
    """Return the values that a model has beyond its fields, by name."""
    return getattr(value, "model_extra", None) or {}


def _sort(value: Any, written: Any) -> None:
    """Sort the lists in JSON that were written for sets: each process writes a set in another order."""
    if getattr(type(value), "__pydantic_root_model__", False):
        _sort(value.root, written)
    elif isinstance(written, list):
        if isinstance(value, list | tuple | set | frozenset):
            for item, part in zip(value, written, strict=False):
                _sort(item, part)
        if isinstance(value, _SETS):
            written[:] = in_order(written)
    elif isinstance(written, dict):
        if isinstance(value, dict):
            for item, part in zip(value.values(), written.values(), strict=False):
                _sort(item, part)
        for name, shown in _written_names(value):
            if isinstance(written.get(shown), list | dict):
                _sort(getattr(value, name), written[shown])


def _sorted(value: Any) -> Any:
    """Return a value whose sets iterate in the same order in every process."""
    kind: Any = type(value)
    if issubclass(kind, SETS):
        return SORTED.get(kind, kind)([_sorted(item) for item in value])
    if kind in (list, tuple):
        return kind([_sorted(item) for item in value])
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return kind._make([_sorted(item) for item in value])
    if kind is dict:
        return {name: _sorted(item) for name, item in value.items()}
    for name, _ in _names(value):
        object.__setattr__(value, name, _sorted(getattr(value, name)))
    for name, item in _extra(value).items():
        value.model_extra[name] = _sorted(item)
    return value
