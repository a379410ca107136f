"""Values of an exact size, whose JSON is not only plain letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.simulation.worlds.asked_payloads.model import Json, size

KINDS = ("text", "umlauts", "escapes", "surrogates", "items", "nested", "reference", "escaped")
NONE = "none"


@dataclass(frozen=True, slots=True)
class Value:
    """A value whose JSON has `bytes` bytes. Values of other seeds differ.

    The members of objects are sorted: the store loses another order of small values, and a hash counts the order.
    """

    kind: str
    bytes: int
    seed: int = 0

    @property
    def json(self) -> Json:
        return _made(self)

    def __str__(self) -> str:
        return f"{self.kind}/{self.bytes:_}/{self.seed}"


NULL = Value(NONE, 4)


@lru_cache(256)
def _made(value: Value) -> Json:
    if value.kind == NONE:
        return None
    made = _padded(_SHAPES[value.kind], value.seed, value.bytes)
    return made if size(made) == value.bytes else _padded(_SHAPES["text"], value.seed, value.bytes)


def _padded(shape: Callable[[int, int], Callable[[int], Json]], seed: int, bytes_: int) -> Json:
    """Fill the shape with letters up to the size."""
    filled = shape(seed, bytes_)
    return filled(max(0, bytes_ - size(filled(0))))


def _text(seed: int, _: int) -> Callable[[int], Json]:
    return lambda letters: f"{seed}" + "x" * letters


def _repeated(part: str, each: int) -> Callable[[int, int], Callable[[int], Json]]:
    def shape(seed: int, bytes_: int) -> Callable[[int], Json]:
        most = part * max(0, (bytes_ - 20) // each)
        return lambda letters: f"{seed}{most}" + "x" * letters

    return shape


def _items(seed: int, bytes_: int) -> Callable[[int], Json]:
    most = [1] * min(300, max(0, (bytes_ - 40) // 2))
    return lambda letters: [seed, *most, "x" * letters]


def _nested(seed: int, bytes_: int) -> Callable[[int], Json]:
    inner = {"$payload": {"bytes": bytes_, "sha256": "0" * 64}}
    return lambda letters: {"a": seed, "b": [None, inner, {"a": True}], "c": "x" * letters}


def _reference(seed: int, bytes_: int) -> Callable[[int], Json]:
    return lambda letters: {"$payload": {"bytes": bytes_, "more": "x" * letters, "sha256": f"{seed:064}"}}


def _escaped(seed: int, _: int) -> Callable[[int], Json]:
    return lambda letters: {"$payload": {"value": "x" * letters}, "seed": seed}


_SHAPES: Mapping[str, Callable[[int, int], Callable[[int], Json]]] = {
    "text": _text,
    "umlauts": _repeated("ü", 6),
    "escapes": _repeated('\n"', 4),
    "surrogates": _repeated("\ud800", 6),
    "items": _items,
    "nested": _nested,
    "reference": _reference,
    "escaped": _escaped,
}


def value_of(spec: Any) -> Json:
    """Return the value of a spec in JSON."""
    return Value(*spec).json
