"""Members of a record, a request or an answer that may be absent."""

from typing import Any


def given(**members: object) -> dict[str, Any]:
    """Return the members that are not None. Pass ``labels or None`` to leave out an empty value."""
    return {name: value for name, value in members.items() if value is not None}
