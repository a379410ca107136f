"""The functions that the calls of a program reach: tasks, flows and a class that pass values on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signalbox import Function, Outcome, Problem, Transaction, flow, objects, send
from tests.simulation.worlds.asked_payloads.values import value_of

Json = Any
SHOP = "shop"
TAKEN: list[Json] = []
"""The values that tasks without a caller have received."""

MENDED: set[str] = set()
"""What no longer fails: `flow`, `step`, `task`."""

app = Function(SHOP)


def task(code: Any) -> Any:
    """Register a task. A type checker takes a first parameter of any type for one that the kit fills."""
    return app.task(code)


@task
def make(spec: Json) -> Json:
    return value_of(spec)


@task
def give(value: Json, other: Json = None, fails: bool = False) -> Json:
    if fails:
        raise Problem("It fails.")
    return value


@task
def take(value: Json, other: Json = None) -> None:
    TAKEN.append(value)


@task
def take_outcome(outcome: Outcome) -> None:
    TAKEN.append(outcome.result)


@task
def refuse(value: Json) -> None:
    if "task" not in MENDED:
        raise Problem("It fails.")
    TAKEN.append(value)


@app.flow
async def inner(value: Json) -> Json:
    return value


@app.flow
async def told(script: list[list[Json]], a: Json = None, b: Json = None) -> Json:
    held = {"a": a, "b": b}
    for at, op in enumerate(script):
        match op:
            case ["make", name, spec]:
                held[name] = await make.call(spec=spec)
            case ["step", name, value, other]:
                held[name] = await give.call(held[value], held[other])
            case ["inline", name, spec]:
                held[name] = await flow.run(value_of, spec)
            case ["sub", name, value]:
                held[name] = await inner.call(value=held[value])
            case ["echo", name, key, value]:
                held[name] = await objects("Box", key).echo(value=held[value])
            case ["put", key, value]:
                await objects("Box", key).put(value=held[value])
            case ["send", value]:
                flow.send(take.call(held[value]))
            case ["batch", *values]:
                await flow.batch([give.call(held[each]) for each in values])
            case ["event", name]:
                held[name] = await flow.event("told")
            case ["update", name, answer]:
                update = await flow.update("asked")
                held[name] = update.value
                update.answer(held[answer])
            case ["again", first, second]:
                return flow.continue_as_new(script=script[at + 1 :], a=held[first], b=held[second])
            case ["fail"] if "flow" not in MENDED:
                raise Problem("It fails.")
            case ["return", value]:
                return held[value]
    return None


@app.object
class Box:
    held: Json = None

    def put(self, value: Json) -> None:
        self.held = value

    def get(self) -> Json:
        return self.held

    def echo(self, value: Json, other: Json = None) -> Json:  # noqa: ARG002  only its size matters
        return value

    def tell(self, value: Json) -> None:
        send(take.call(value))

    def hand(self, key: str, value: Json) -> None:
        objects("Box", key).put(value=value)

    def refuse(self, value: Json) -> None:  # noqa: ARG002  only its size matters
        raise Problem("It fails.")


def transacted(arguments: Mapping[str, Json]) -> Any:
    """Return the code of a transaction that enqueues a task."""

    def code(changes: Transaction) -> None:
        changes.enqueue(take.call(**arguments))

    return code
