"""Page tokens: the place of the last document of a page, and a mark of the query it belongs to.

A place, unlike a number of documents to leave out, stays good whatever is written in between: a document that did not
move is shown once. People should not read a token, and one of another query is refused.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from shared.core.rules.keys import valid_key
from shared.core.rules.problems import BadQuery

_TIME_MARK = "__time__"
"""A time, which only other clients store, is marked in a way that no map in a record can look like."""


def write(mark: str, values: Sequence[Any], key: str) -> str:
    """Name a place: the values that the query orders by, then the key."""
    text = json.dumps([mark, *values, key], default=_time_as_json)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _time_as_json(moment: datetime) -> dict[str, str]:
    return {_TIME_MARK: moment.isoformat()}


def read(token: str, mark: str, values_count: int) -> tuple[Any, ...]:
    """Give the place that a token names. Raises `BadQuery` if it is no token of this query."""
    try:
        decoded = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        place = json.loads(decoded, object_hook=_time_from_json)
    except (ValueError, binascii.Error, RecursionError):
        place = None
    fits = isinstance(place, list) and len(place) == values_count + 2 and valid_key(place[-1])
    if not fits or place[0] != mark:
        raise BadQuery("This page_token is of another query.", field="page_token")
    return tuple(place[1:])


def _time_from_json(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(str(value[_TIME_MARK])) if value.keys() == {_TIME_MARK} else value
