"""Schemas of openapi.yaml, read through references, `allOf` and alternatives."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def resolved(api: Json, part: Json) -> Json:
    """Return a part of the description, or the component that it refers to."""
    reference = part.get("$ref")
    if reference is None:
        return part
    found: Any = api
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return resolved(api, found)


def members_of(api: Json, schema: Json) -> tuple[dict[str, Json], set[str]]:
    """Return the members of an object with their schemas, and the names of the required members.

    For alternatives, these are the members that at least one alternative has, and the names that all alternatives
    require.
    """
    schema = resolved(api, schema)
    members, required = dict(schema.get("properties", {})), set(schema.get("required", ()))
    for part in schema.get("allOf", ()):
        more, musts = members_of(api, part)
        members, required = members | more, required | musts
    alternatives = [members_of(api, each) for each in alternatives_of(schema)]
    if alternatives:
        members = {name: part for more, _ in alternatives for name, part in more.items()} | members
        required |= set.intersection(*(musts for _, musts in alternatives))
    return members, required


def alternatives_of(schema: Json) -> Sequence[Json]:
    """Return the alternatives of a schema, if it has some."""
    return schema.get("oneOf") or schema.get("anyOf") or ()
