"""Random calls: what is drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from random import Random
from typing import Any

from tests.simulation.worlds.asked_payloads.model import (
    INLINE_MAX,
    STATE_MAX,
    is_large,
    size,
)
from tests.simulation.worlds.asked_payloads.values import KINDS, NULL, Value


@dataclass(frozen=True, slots=True)
class Act:
    """A call, or that everything is delivered. Values are specs; a flow's operations are `script`."""

    kind: str
    of: str = ""
    values: tuple[Value, ...] = ()
    script: tuple[tuple[Any, ...], ...] = ()
    how: str = ""

    def __str__(self) -> str:
        parts = [self.of, *map(str, self.values), *map(str, self.script), self.how]
        return " ".join((self.kind, *filter(None, parts)))


def listed(script: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return a script as JSON, with its specs as lists."""
    return [[[*astuple(part)] if isinstance(part, Value) else part for part in op] for op in script]


NAMES = ("a", "b", "c", "d")
KEYS = ("k", "l")


def drawn_value(rng: Random) -> Value:
    drawn = rng.random()
    if drawn < 0.05:
        return NULL
    bytes_ = (
        rng.randint(8, 90)
        if drawn < 0.35
        else rng.randint(48_000, 56_000)
        if drawn < 0.45
        else INLINE_MAX + rng.randint(-1, 1)
        if drawn < 0.7
        else INLINE_MAX - 10 + rng.randint(-1, 1)
        if drawn < 0.85
        else rng.choice((102_500, 150_000, 160_001))
        if drawn < 0.97
        else STATE_MAX - 34 + rng.randint(-1, 1)
    )
    return Value(rng.choice(KINDS), bytes_, rng.randint(0, 2))


OPS: Sequence[tuple[Callable[[Random], tuple[Any, ...]], float]] = (
    (lambda rng: ("make", rng.choice(NAMES), drawn_value(rng)), 2),
    (lambda rng: ("step", rng.choice(NAMES), rng.choice(NAMES), rng.choice(NAMES)), 2),
    (lambda rng: ("inline", rng.choice(NAMES), drawn_value(rng)), 1),
    (lambda rng: ("sub", rng.choice(NAMES), rng.choice(NAMES)), 1.5),
    (lambda rng: ("echo", rng.choice(NAMES), rng.choice(KEYS), rng.choice(NAMES)), 1),
    (lambda rng: ("put", rng.choice(KEYS), rng.choice(NAMES)), 0.5),
    (lambda rng: ("send", rng.choice(NAMES)), 1),
    (lambda rng: ("batch", *rng.choices(NAMES, k=rng.randint(1, 4))), 1),
    (lambda rng: ("event", rng.choice(NAMES)), 1.5),
    (lambda rng: ("update", rng.choice(NAMES), rng.choice(NAMES)), 1.5),
    (lambda rng: ("again", rng.choice(NAMES), rng.choice(NAMES)), 2),
    (lambda _: ("fail",), 0.3),
    (lambda rng: ("return", rng.choice(NAMES)), 0.5),
)


def drawn_script(rng: Random) -> tuple[tuple[Any, ...], ...]:
    drawers, weights = zip(*OPS, strict=True)
    ops = [draw(rng) for draw in rng.choices(drawers, weights, k=rng.randint(0, 6))]
    return (*[("make", name, NULL) for name in ("c", "d")][:0], *known(ops), ("return", rng.choice("ab")))


def known(ops: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the operations whose values have been received: those of `a` and `b` are arguments."""
    names, kept = {"a", "b"}, []
    for op in ops:
        sets = op[0] in ("make", "step", "inline", "sub", "echo", "event", "update")
        uses = op[2 if sets else 1 :]
        if op[0] == "echo":
            uses = op[3:]
        elif op[0] == "put":
            uses = op[2:]
        if all(name in names for name in uses if name in NAMES):
            kept.append(op)
            if op[0] == "again":
                names = {"a", "b"}
            elif sets:
                names.add(op[1])
    return kept


def filled(rng: Random, script: tuple[tuple[Any, ...], ...], a: Value, b: Value) -> Value:
    """Return `a` in a size with which the arguments of a start have about 100 KiB together."""
    others = size({"script": listed(script), "a": 0, "b": 0 if is_large(b.json, INLINE_MAX - 1_000) else b.json}) - 1
    return replace(a, bytes=max(80, INLINE_MAX + rng.randint(-1, 1) - others))


KINDS_OF_ACTS = {
    "start": 4,
    "message": 4,
    "retry": 0.5,
    "fork": 0.7,
    "cut": 0.5,
    "call": 5,
    "populate": 2,
    "chain": 1,
    "task": 2,
    "again": 1,
    "refused": 0.7,
    "delete": 0.5,
    "remove": 0.4,
    "settle": 1,
    "forget": 1,
}


def drawn_act(rng: Random, number: int) -> Act:
    kind = rng.choices(
        tuple(KINDS_OF_ACTS),
        tuple(KINDS_OF_ACTS.values()),
    )[0]
    one, two = drawn_value(rng), drawn_value(rng)
    match kind:
        case "start":
            script = drawn_script(rng)
            first = filled(rng, script, one, two) if rng.random() < 0.3 else one
            return Act(kind, f"r{number}", (first, two), script, rng.choice(("http", "")))
        case "message":
            return Act(kind, f"r{rng.randint(0, number)}", (one,), how=rng.choice(("event", "update")))
        case "call":
            how = rng.choice(
                ("echo http", "echo", "echo then", "put http", "put", "tell http", "tell", "hand", "refuse http")
            )
            return Act(kind, rng.choice(KEYS), (one, two)[: 1 + ("echo" in how)], how=how)
        case "populate":
            values = (one, *(drawn_value(rng) for _ in range(rng.randint(0, 3))))
            how = rng.choice(("http", "outside", "failing", "grouped", "made", ""))
            return Act(kind, f"b{number}", (two, *values) if how == "http" else values, how=how)
        case "again":
            return Act(kind, f"b{rng.randint(0, number)}", (one,))
        case "task":
            return Act(kind, "", (one, two)[: rng.randint(1, 2)], how=rng.choice(("http", "transaction", "")))
        case "cut":
            return Act(kind, f"c{number}", (one,))
        case "chain":
            return Act(kind, f"b{number}", tuple(drawn_value(rng) for _ in range(rng.choice((4, 5, 6)))))
        case "fork":
            return Act(kind, f"r{rng.randint(0, number)}")
        case "refused":
            return Act(kind, "", (one,))
        case "delete":
            return Act(kind, f"r{rng.randint(0, number)}")
        case "remove":
            return Act(kind, rng.choice(KEYS))
    return Act(kind)
