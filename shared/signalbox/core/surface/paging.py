"""Lists in pages: page tokens, limits, and names with a prefix.

A page token is an opaque cursor after the last record of a page, and a digest of its query. Unlike an offset, a cursor
stays valid when records are written in between: a record that did not move is returned once, and no record that existed
all along is skipped. A token of another query is refused.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from signalbox.core.keys import valid_id
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadQuery
from signalbox.core.records.queries import ID, Condition
from signalbox.core.surface.request_fields import wants

_TIME_MARK = "__time__"
"""The name that marks a time, which only other clients store: no map in a record can have it."""


def write_page_token(mark: str, values: Sequence[Any], key: str) -> str:
    """Return the token of a cursor: the values that the query orders by, then the key."""
    text = json.dumps([mark, *values, key], default=lambda moment: {_TIME_MARK: moment.isoformat()})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_page_token(token: str, mark: str, values_count: int) -> tuple[Any, ...]:
    """Return the cursor of a token. Raises `BadQuery` if the token is not of this query."""
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
"""The parameters of a list that can be limited to the names with a prefix."""

LAST = "\U0010ffff"
"""A character that sorts after every other that may follow a prefix."""


def check_prefix(query: Mapping[str, str]) -> str:
    """Return the parameter ``prefix=``, the beginning of all names in a list. Raises `BadQuery`."""
    prefix = query.get("prefix", "")
    if prefix and not valid_id(f"{prefix}{LAST}"):
        raise BadQuery("`prefix` must be the beginning of a name: without '/', and not too long.", field="prefix")
    return prefix


def with_prefix(prefix: str, before: str = "") -> tuple[Condition, ...]:
    """Return the conditions that select ids beginning with `before + prefix`; no conditions for an empty prefix."""
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
