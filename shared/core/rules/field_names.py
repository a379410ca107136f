"""Paths of fields inside a value: a tuple of field names and list indices, from the outside in."""

Path = tuple[str | int, ...]

CHARACTERS_MAX = 2_000


def field_name(place: Path) -> str:
    """Return a place as a problem's `field` names it: ``address.tags[2]``, cut to 2,000 characters.

    Lone surrogates are escaped, so that it can be sent.
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
    return text.encode("utf-8", "backslashreplace").decode()[:CHARACTERS_MAX]
