"""Values of resources as Terraform sends them, and the walk through them along a schema.

A value is a dictionary of a block's attributes and nested blocks. What Terraform or the provider cannot know before
the resource exists is `UNKNOWN`.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgpack

from tests.infra.google_provider.protocol import message

UNKNOWN = msgpack.ExtType(0, b"\0")
NESTINGS = {"single": 1, "list": 2, "set": 3, "map": 4}

Block = dict[str, Any]
Value = dict[str, Any]
Path = tuple[str | int, ...]


def encoded(value: Value | None) -> Any:
    """Return the message that carries a value."""
    return message("DynamicValue", msgpack=msgpack.packb(value))


def decoded(carrier: Any) -> Any:
    """Read a message that carries a value."""
    if carrier.msgpack:
        return msgpack.unpackb(carrier.msgpack, ext_hook=lambda code, data: UNKNOWN, strict_map_key=False)  # noqa: ARG005  msgpack passes both by position
    return json.loads(carrier.json) if carrier.json else None


def attributes(block: Block) -> dict[str, Any]:
    """Return a block's attributes by name."""
    found: dict[str, Any] = block.get("attributes", {})
    return found


def nested(block: Block) -> dict[str, Any]:
    """Return the blocks within a block by name."""
    found: dict[str, Any] = block.get("block_types", {})
    return found


def schema_message(block: Block) -> Any:
    """Describe a block to Terraform."""
    return message("Schema", version=0, block=_block_message(block))


def _block_message(block: Block) -> Any:
    return message(
        "Block",
        attributes=[_attribute_message(name, attribute) for name, attribute in sorted(attributes(block).items())],
        block_types=[_nested_message(name, inner) for name, inner in sorted(nested(block).items())],
    )


def _attribute_message(name: str, attribute: dict[str, Any]) -> Any:
    kinds = {kind: attribute.get(kind, False) for kind in ("required", "optional", "computed")}
    return message("Attribute", name=name, type=json.dumps(attribute["type"]).encode(), **kinds)


def _nested_message(name: str, inner: dict[str, Any]) -> Any:
    counts = {bound: inner.get(bound, 0) for bound in ("min_items", "max_items")}
    nesting = NESTINGS[inner["nesting_mode"]]
    return message("NestedBlock", type_name=name, nesting=nesting, block=_block_message(inner["block"]), **counts)


def empty(block: Block) -> Value:
    """Return the value in which nothing is set."""
    inner: Value = {name: None if each["nesting_mode"] == "single" else [] for name, each in nested(block).items()}
    return dict.fromkeys(attributes(block)) | inner


def children(value: Value, block: Block) -> Iterator[tuple[Path, Block, Value]]:
    """Return the values of the blocks within a value, each with its path and its own block."""
    for name, inner in nested(block).items():
        held = value.get(name)
        if held is None or held == UNKNOWN:
            continue
        listed = [held] if inner["nesting_mode"] == "single" else held
        for place, each in enumerate(listed):
            path = (name, place) if inner["nesting_mode"] == "list" else (name,)
            yield path, inner["block"], each


def blocks(value: Value, block: Block, path: Path = ()) -> Iterator[tuple[Path, Block, Value]]:
    """Return a value and all that is within it."""
    yield path, block, value
    for below, inner, each in children(value, block):
        yield from blocks(each, inner, path + below)


def mark_unknown(value: Value, block: Block) -> None:
    """Mark what the service will compute because it is not set."""
    for name, attribute in attributes(block).items():
        if attribute.get("computed") and value.get(name) is None:
            value[name] = UNKNOWN
    for path, inner, each in children(value, block):
        if path[0] != "timeouts":
            mark_unknown(each, inner)
