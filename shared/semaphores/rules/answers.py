"""Answers about semaphores as JSON has them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.core.rules.times import rfc3339


def as_json(value: Any) -> Any:
    """Write every time in an answer as RFC 3339."""
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list) else value
