"""Whether a value that was read back from its own JSON is the value that was written."""

import dataclasses
from collections.abc import Iterator
from typing import Any


def difference(sent: Any, back: Any, at: str) -> str:
    """Return what a receiver of the JSON would get instead of the value, with its place, or "" if it is the same."""
    if type(sent) is type(back) and _is_equal(sent, back):
        return ""
    if hasattr(sent, "get_secret_value"):
        return f"{at} is a secret, which is written as asterisks: pass its name, and read the secret where it is used"
    parts = _parts(sent, back, at)
    if parts is not None:
        return next(filter(None, (difference(*part) for part in parts)), "")
    if _is_equal(sent, back):
        return ""
    if type(sent) is not type(back) and isinstance(sent, type(back)) and hasattr(sent, "__dict__"):
        kinds = f"{type(sent).__name__}, and would arrive as a {type(back).__name__}, without its own fields"
        return f"{at} is a {kinds}: annotate the field with {type(sent).__name__}, or with a union"
    return f"{at} would arrive as another value: {_ADVICE}"


_ADVICE = "the class does not read its own JSON as the same value"


def _is_equal(sent: Any, back: Any) -> bool:
    """Return whether two values are equal, or of a type whose values cannot be compared."""
    if all("__eq__" not in vars(kind) for kind in type(sent).__mro__[:-1]):
        return type(sent) is type(back)
    try:
        return bool(sent == back or sent != sent)  # a NaN differs from itself
    except Exception:  # noqa: BLE001  arrays have no truth value, for instance
        return type(sent) is type(back)


def _parts(sent: Any, back: Any, at: str) -> Iterator[tuple[Any, Any, str]] | None:
    """Return the parts of two values with their places, or None if the values have no such parts in common."""
    if isinstance(sent, list | tuple) and isinstance(back, list | tuple) and len(sent) == len(back):
        return ((was, read, f"{at}[{index}]") for index, (was, read) in enumerate(zip(sent, back, strict=True)))
    if isinstance(sent, dict) and isinstance(back, dict) and sent.keys() == back.keys():
        return ((item, back[name], f"{at}.{name}") for name, item in sent.items())
    if type(sent) is type(back) and (names := _fields(sent)) is not None:
        return ((getattr(sent, name, None), getattr(back, name, None), f"{at}.{name}") for name in names)
    return None


def _fields(value: Any) -> list[str] | None:
    """Return the names of the sent fields of a dataclass or of a pydantic model."""
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value) if field.init]
    fields = getattr(type(value), "model_fields", None)
    return None if fields is None else [*fields, *(getattr(value, "model_extra", None) or {})]
