"""The fields of a request's JSON object, and its switches.

    fields = RequestFields(body, BadSemaphore).only("permits", "lease_seconds")
    permits = fields.integer("permits", 1, LIMITS.permits_max)
    seconds = fields.number("lease_seconds", LIMITS.lease_seconds_max, default=None)

A field that is absent or null takes its default; without a default it is required. Each refusal names the field and the
allowed values.
"""

import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadQuery, Problem


class _Required(Enum):
    REQUIRED = "no default"


REQUIRED = _Required.REQUIRED

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RequestFields:
    """An object in a request. `problem` is the class of its refusals; `at` is the object's place in the body."""

    body: Mapping[str, Any]
    problem: type[Problem]
    at: str = ""

    def only(self, *known: str) -> Self:
        """Return this object. Raises the problem if it has a field that is not `known`."""
        if unknown := sorted(self.body.keys() - set(known)):
            raise self.refuse(unknown[0], f"Unknown field `{unknown[0]}`. Known fields: {', '.join(known)}.")
        return self

    def value(self, name: str, default: Any = REQUIRED) -> Any:
        """Return a field of any type."""
        value = self.body.get(name)
        if value is not None:
            return value
        if default is REQUIRED:
            raise self.refuse(name, f"`{name}` is required.")
        return default

    def text(self, name: str, default: Any = REQUIRED) -> Any:
        """Return a string that can be stored: UTF-8 has no lone surrogates."""
        value = self.value(name, default)
        if value is not default and not isinstance(value, str):
            raise self.refuse(name, f"`{name}` must be a string.")
        if value is not default and _SURROGATE.search(value):
            raise self.refuse(name, f"`{name}` has a lone surrogate, which UTF-8 cannot encode.")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean; false by default."""
        value = self.value(name, default=False)
        if not isinstance(value, bool):
            raise self.refuse(name, f"`{name}` must be true or false.")
        return value

    def integer(self, name: str, least: int, most: int, default: Any = REQUIRED) -> Any:
        """Return an integer from `least` to `most`."""
        value = self.value(name, default)
        if value is not default and (type(value) is not int or not least <= value <= most):
            raise self.refuse(name, f"`{name}` must be an integer from {least:,} to {most:,}.")
        return value

    def seconds(self, name: str, most: float, default: Any = REQUIRED, *, zero: bool = False) -> Any:
        """Return a number of seconds up to `most`, as a float; above zero unless `zero` is allowed."""
        value = self.value(name, default)
        if value is default:
            return value
        is_number = type(value) in (int, float) and math.isfinite(value)
        if not is_number or not 0 <= value <= most or (value == 0 and not zero):
            raise self.refuse(name, f"`{name}` must be a number of seconds, {'0' if zero else 'above 0'} to {most:,}.")
        return float(value)

    def items(self, name: str, default: Any = REQUIRED) -> Any:
        """Return a list."""
        value = self.value(name, default)
        if value is not default and not isinstance(value, list):
            raise self.refuse(name, f"`{name}` must be a list.")
        return value

    def refuse(self, name: str, detail: str) -> Problem:
        """Return the problem that refuses a field."""
        return self.problem(detail, field=f"{self.at}.{name}" if self.at else name)


def wants(name: str, text: str) -> bool:
    """Return whether a parameter is set whose only allowed value is true. Raises `BadQuery`."""
    if text not in ("", "true"):
        raise BadQuery(f"`{name}` must be true.", field=name)
    return bool(text)
