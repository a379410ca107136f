"""What the requests of all subjects have in common: fields of a JSON object, and lists in pages.

    fields = RequestFields(body, BadSemaphore).only("permits", "lease_seconds")
    permits = fields.integer("permits", 1, LIMITS.permits_max)
    seconds = fields.number("lease_seconds", LIMITS.lease_seconds_max, default=None)

A field that is absent or null takes its default; without a default it is required. Each refusal names the field and the
allowed values.

A page token is an opaque cursor after the last record of a page, and a digest of its query. Unlike an offset, a cursor
stays valid when records are written in between: a record that did not move is returned once, and no record that existed
all along is skipped. A token of another query is refused.
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Self

from signalbox.core.keys import valid_id
from signalbox.core.problems import BadQuery, Problem
from signalbox.core.queries import ID, Condition


class _Required(Enum):
    REQUIRED = "no default"


REQUIRED = _Required.REQUIRED


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
        """Return a string."""
        value = self.value(name, default)
        if value is not default and not isinstance(value, str):
            raise self.refuse(name, f"`{name}` must be a string.")
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


_TIME_MARK = "__time__"
"""The name that marks a time, which only other clients store: no map in a record can have it."""


def write_page_token(mark: str, values: Sequence[Any], key: str) -> str:
    """Return the token of a cursor: the values that the query orders by, then the key."""
    text = json.dumps([mark, *values, key], default=_time_as_json)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _time_as_json(moment: datetime) -> dict[str, str]:
    return {_TIME_MARK: moment.isoformat()}


def read_page_token(token: str, mark: str, values_count: int) -> tuple[Any, ...]:
    """Return the cursor of a token. Raises `BadQuery` if it is not one of this query."""
    try:
        decoded = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        place = json.loads(decoded, object_hook=_time_from_json)
    except (ValueError, binascii.Error, RecursionError):
        place = None
    fits = isinstance(place, list) and len(place) == values_count + 2 and isinstance(place[-1], str)
    if not fits or place[0] != mark or not valid_id(place[-1]):
        raise BadQuery("Invalid page_token: it belongs to another query.", field="page_token")
    return tuple(place[1:])


def _time_from_json(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(str(value[_TIME_MARK])) if value.keys() == {_TIME_MARK} else value


PARAMETERS = ("limit", "page_token")
OF_NAMES = (*PARAMETERS, "prefix")
"""Of a list that can be one of the names with a prefix."""

LAST = "\U0010ffff"
"""Behind all that may follow a prefix."""


def check_prefix(query: Mapping[str, str]) -> str:
    """Return the parameter ``prefix=``: what the names of a list begin with. Raises `BadQuery`."""
    prefix = query.get("prefix", "")
    if prefix and not valid_id(f"{prefix}{LAST}"):
        raise BadQuery("`prefix` must be the beginning of a name: without '/', and not too long.", field="prefix")
    return prefix


def with_prefix(prefix: str, before: str = "") -> tuple[Condition, ...]:
    """Return the conditions of records whose ids begin with `before` and a prefix; none for an empty prefix."""
    if not prefix:
        return ()
    return (Condition(ID, ">=", f"{before}{prefix}"), Condition(ID, "<=", f"{before}{prefix}{LAST}"))


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list: at most `limit` records after `after`, whose names begin with `prefix`.

    `mark` names the list in its page tokens.
    """

    mark: str
    limit: int
    after: tuple[Any, ...] = ()
    prefix: str = ""

    @classmethod
    def from_request(cls, query: Mapping[str, str], mark: str, limit_max: int) -> Self:
        """Parse ``limit=``, ``page_token=`` and ``prefix=``. Raises `BadQuery` naming the parameter."""
        prefix, page_token = check_prefix(query), query.get("page_token", "")
        of_prefix = f"{mark} {prefix}" if prefix else mark
        after = read_page_token(page_token, of_prefix, 0) if page_token else ()
        return cls(of_prefix, parse_limit(query.get("limit", ""), limit_max, limit_max), after, prefix)

    def next_page(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the next page's token as a member of the response; an empty mapping after the last page."""
        return {"next_page_token": write_page_token(self.mark, [], ids[-1])} if len(ids) == self.limit else {}


def parse_limit(text: str, default: int, most: int) -> int:
    """Parse the parameter `limit`. Raises `BadQuery`."""
    if not text:
        return default
    if not (text.isdecimal() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise BadQuery(f"`limit` must be an integer from 1 to {most:,}.", field="limit")
    return int(text)


def wants_count(text: str) -> bool:
    """Return whether the parameter `count` requests a count. Raises `BadQuery`."""
    return wants("count", text)


def wants(name: str, text: str) -> bool:
    """Return whether a parameter is given, whose only value is true. Raises `BadQuery`."""
    if text not in ("", "true"):
        raise BadQuery(f"`{name}` must be true.", field=name)
    return bool(text)
