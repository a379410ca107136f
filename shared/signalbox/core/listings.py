"""Lists in pages, and page tokens: an opaque cursor after the last record of a page, and a digest of its query.

Unlike an offset, a cursor stays valid when records are written in between: a record that did not move is returned once,
and no record that existed all along is skipped. A token of another query is refused.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from signalbox.core.keys import valid_id
from signalbox.core.problems import BadQuery

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


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list: at most `limit` records after `after`. `mark` names the list in its page tokens."""

    mark: str
    limit: int
    after: tuple[Any, ...] = ()

    @classmethod
    def from_request(cls, query: Mapping[str, str], mark: str, limit_max: int) -> Self:
        """Parse ``limit=`` and ``page_token=``. Raises `BadQuery` naming the parameter."""
        listing = cls(mark, parse_limit(query.get("limit", ""), limit_max, limit_max))
        page_token = query.get("page_token", "")
        return replace(listing, after=read_page_token(page_token, mark, 0)) if page_token else listing

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
