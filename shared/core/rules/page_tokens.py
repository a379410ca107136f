"""Page tokens: an opaque cursor after the last document of a page, and a digest of its query.

Unlike an offset, a cursor stays valid whatever is written in between: a document that did not move is returned once. A
token of another query is refused.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from shared.core.rules.keys import valid_id
from shared.core.rules.problems import BadQuery

_TIME_MARK = "__time__"
"""The name that marks a time, which only other clients store: no map in a record can have it."""


def write(mark: str, values: Sequence[Any], key: str) -> str:
    """Return the token of a cursor: the values that the query orders by, then the key."""
    text = json.dumps([mark, *values, key], default=_time_as_json)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _time_as_json(moment: datetime) -> dict[str, str]:
    return {_TIME_MARK: moment.isoformat()}


def read(token: str, mark: str, values_count: int) -> tuple[Any, ...]:
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
