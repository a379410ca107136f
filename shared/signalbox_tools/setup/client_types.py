"""Generate the types of answers that the client returns, `client/answer_types.py`, from openapi.yaml.

`make docs` writes them. Each is a `TypedDict` of the answer of a call, or of the items of a list in it. A type of
several answers, or of alternatives, requires the members that all of them require.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import signalbox
from signalbox_tools.setup.blocking_client import formatted
from signalbox_tools.setup.openapi_schemas import Json, alternatives_of, members_of, resolved

FILE = Path(signalbox.__path__[0]) / "client" / "answer_types.py"

HEADER = '''# Generated from openapi.yaml by `make docs`.
"""The types of answers. Times are RFC 3339."""

from typing import NotRequired, TypedDict

from signalbox.client.model import Json
'''

ANSWERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Lease": ("A granted permit.", ("post /semaphore-wait/{name} lease",)),
    "Waited": (
        "The answer to a wait: acquired, waiting, or (of a repeated id) ended.",
        ("post /semaphore-wait/{name}",),
    ),
    "FailureShown": ("A task that was given up, or that is being retried.", ("get /failures/{id}",)),
    "BatchShown": ("The state and the counts of a batch.", ("get /batches/{id}",)),
    "UnitShown": ("A unit that has ended.", ("get /batches/{id}/units units",)),
    "RunShown": ("The state of a run of a flow.", ("get /{function}/flows/{flow}/{id}",)),
    "StandingShown": (
        "The numbers of a standing.",
        ("get /standings/{kind}/{id}", "get /standings/{kind} standings"),
    ),
}
"""The docstring of each type, and the answers that have the type. An answer is a call, and perhaps a member of it."""

TEXT_WIDTH = 116
"""The width of a line with a sentence, without its indentation."""

PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def text(api: Json) -> str:
    """Return the text of the module, as ruff formats it."""
    schemas = {name: [_answer(api, address) for address in addresses] for name, (_, addresses) in ANSWERS.items()}
    named = {_reference(part): name for name, found in schemas.items() for each in found for part in _parts(each)}
    types = ("\n".join(_type(api, named, name, found)) for name, found in schemas.items())
    return formatted("\n\n".join([HEADER, *types]), FILE)


def _answer(api: Json, address: str) -> Json:
    """Return the schema of an answer, or of a member or of the items of a list in it."""
    method, path, *member = address.split()
    response = resolved(api, api["paths"][path][method]["responses"]["200"])
    schema: Json = response["content"]["application/json"]["schema"]
    if not member:
        return schema
    found: Json = members_of(api, schema)[0][member[0]]
    items: Json = resolved(api, found).get("items", found)
    return items


def _type(api: Json, named: Mapping[str, str], name: str, schemas: list[Json]) -> Iterator[str]:
    yield f'class {name}(TypedDict):\n    """{ANSWERS[name][0]}"""\n'
    found = [members_of(api, schema) for schema in schemas]
    required = set.intersection(*(musts for _, musts in found))
    for member, part in {each: part for members, _ in reversed(found) for each, part in members.items()}.items():
        kind = _kind(api, named, part)
        yield f"    {member}: {kind if member in required else f'NotRequired[{kind}]'}"
        if says := " ".join(part.get("description", "").split()):
            yield textwrap.indent(textwrap.fill(f'"""{says}"""', TEXT_WIDTH), "    ") + "\n"


def _kind(api: Json, named: Mapping[str, str], schema: Json) -> str:
    """Return the annotation of a value.

    The annotation of an object is its named type if it has one, else a dictionary.
    """
    names = {named.get(reference) for part in _parts(schema) if (reference := _reference(part))}
    if len(names) == 1 and (name := names.pop()):
        return name
    schema = resolved(api, schema)
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    of = partial(_kind, api, named)
    if kinds == ["array"]:
        return f"list[{of(schema.get('items', {}))}]"
    if kinds == ["object"] or "allOf" in schema:
        values = schema.get("additionalProperties")
        return f"dict[str, {of(values) if isinstance(values, dict) else 'Json'}]"
    return " | ".join(PLAIN[kind] for kind in kinds) if kinds and {*kinds} <= PLAIN.keys() else "Json"


def _parts(schema: Json) -> Sequence[Json]:
    """Return the alternatives of a schema, or the schema itself."""
    return alternatives_of(schema) or (schema,)


def _reference(schema: Json) -> str:
    return str(schema.get("$ref", ""))
