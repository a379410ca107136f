"""Strict parsing and exact rendering of JSON.

Python's parser accepts more than JSON (NaN, duplicate names, UTF-16) and raises various errors for some texts (deep
nesting, numbers of thousands of digits). This parser returns a JSON value or raises a `Problem`.
"""

import json
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from signalbox.core.effects import Json
from signalbox.core.problems import NotJson, TooDeep
from signalbox.core.times import rfc3339

DEPTH_MAX = 100
"""Nested lists and objects in a body: the kit walks values by recursion. A record has far fewer levels."""


def parse(raw: bytes) -> Json:
    """Parse a JSON text in UTF-8. Raises `NotJson` with the position, or `TooDeep`."""
    try:
        value: Json = _decoder.decode(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NotJson(f"Byte {error.start} of the body is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise NotJson(f"Line {error.lineno}, column {error.colno} of the body: {error.msg}") from error
    except RecursionError as error:
        raise TooDeep(_TOO_DEEP) from error
    _check_depth(value)
    return value


def render(value: object) -> bytes:
    """Render a value as JSON in UTF-8. Times are RFC 3339 in UTC; NaN and infinities, which JSON lacks, become null."""
    try:
        text = _encode(value)
    except ValueError:
        text = _encode(_without_non_numbers(value))
    # A lone surrogate is not UTF-8; its escape, which this error handler writes, is valid in a JSON string.
    return text.encode("utf-8", "backslashreplace")


_TOO_DEEP = f"Objects and lists nest at most {DEPTH_MAX} deep."


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # `add` returns None, so the name is added and not taken
    raise NotJson("An object has this name twice.", field=twice)


def _no_constant(name: str) -> None:
    raise NotJson(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NotJson(f"{digits[:40]} does not fit into a 64-bit number.")
    return number


def _integer(digits: str) -> int:
    # Every store refuses longer integers; Python refuses to parse the longest, with an error that is not about JSON.
    if len(digits) > 100:
        raise NotJson(f"An integer of {len(digits)} digits does not fit into 64 bits.")
    return int(digits)


_decoder = json.JSONDecoder(
    object_pairs_hook=_distinct, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
)


def _check_depth(value: Json) -> None:
    level = _nested([value])
    for _ in range(DEPTH_MAX):
        level = _nested(inner for outer in level for inner in _children(outer))
        if not level:
            return
    raise TooDeep(_TOO_DEEP)


def _nested(values: Iterable[Json]) -> list[dict[str, Any] | list[Any]]:
    return [value for value in values if isinstance(value, dict | list)]


def _children(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _encode(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return rfc3339(value)
    raise TypeError(f"a {type(value).__name__} cannot be rendered as JSON")


def _without_non_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_non_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_non_numbers(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
