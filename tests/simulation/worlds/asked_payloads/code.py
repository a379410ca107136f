"""The code of the functions in `shop.py` as the model runs it: what it stores, and what its callers receive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.worlds.asked_payloads.kit import SETTLED_FAULTY_SECONDS
from tests.simulation.worlds.asked_payloads.model import (
    AWAITED_MAX,
    LEFT,
    TASKS_KEPT,
    THEN_MAX,
    TOO_LARGE,
    Bucket,
    Json,
    Open,
    Refused,
    Run,
    Thing,
    Units,
    canonical,
    digest,
    enqueue,
    is_large,
    size,
)
from tests.simulation.worlds.asked_payloads.shop import MENDED
from tests.simulation.worlds.asked_payloads.values import value_of

UNNAMED = "unnamed "
"""Of values whose JSON the page does not name: units of batches that are stored as one."""


@dataclass(slots=True)
class Model:
    """All that the calls of a program have stored, and what callers may see of it."""

    bucket: Bucket
    now: float = 0
    runs: dict[str, Run] = field(default_factory=dict)
    codes: dict[str, Any] = field(default_factory=dict)
    things: dict[str, Thing] = field(default_factory=dict)
    batches: dict[str, Units] = field(default_factory=dict)
    inbox: dict[str, list[tuple[str, str, Json]]] = field(default_factory=dict)
    taken: Counter[str] = field(default_factory=Counter)
    failures: list[Json] = field(default_factory=list)
    unnamed: int = 0

    def thing(self, key: str) -> Thing:
        return self.things.setdefault(key, Thing(key, self.bucket))

    def call(self, key: str, method: str, arguments: dict[str, Json], *, by: str = "caller") -> Json:
        """Apply a call of an object by a caller, a flow or a method, and return its result."""
        thing = self.thing(key)
        result = arguments["value"] if method == "echo" else None
        thing.call(arguments, result, self.now, has_receipt=by != "method")
        if by == "flow":
            self.follow(result)
        if method == "put":
            thing.change({"version": 1, "fields": {"held": arguments["value"]}}, self.now)
        elif method == "tell":
            self.send(("month",), {"value": arguments["value"]})
        elif method == "hand":
            self.call(arguments["key"], "put", {"value": arguments["value"]}, by="method")
        if thing.state is None and method != "refuse":
            thing.change({"version": 1, "fields": {"held": None}}, self.now)
        return result

    def send(self, place: tuple[Any, ...], arguments: dict[str, Json]) -> None:
        enqueue(self.bucket, place, arguments, self.now)
        self.taken[canonical(arguments["value"])] += 1

    def follow(self, result: Json) -> None:
        """Store the result of a call for the task that follows it."""
        if is_large(result):
            self.bucket.store(("month",), result)
            self.bucket.terms.setdefault(("month",), (self.now + TASKS_KEPT, self.now + TASKS_KEPT + LEFT))

    # --- flows ---

    def start(self, id_: str, arguments: dict[str, Json], kept: int = -1) -> None:
        """Start a run. It is a fork if some of its results, or none, are `kept`."""
        run = Run(id_, self.bucket, kept=max(0, kept), is_fork=kept >= 0)
        run.begin(arguments)
        self.runs[id_] = run
        self.inbox[id_] = []
        self._run(run)

    def _run(self, run: Run) -> None:
        """Run the code until it waits for a message."""
        self.codes[run.id] = self._code(run, **run.arguments)
        self.advance(run)

    def advance(self, run: Run) -> None:
        """Run the code on. Raises `Open` if it is refused a value, so that it fails or is stuck."""
        try:
            next(self.codes[run.id], None)
        except Refused as refused:
            raise Open from refused

    def _code(self, run: Run, script: list[list[Any]], a: Json = None, b: Json = None) -> Iterator[None]:
        held = {"a": a, "b": b}
        sent: list[str] = []
        is_unsure = False
        for at, op in enumerate(script):
            if op[0] == "send" and run.is_fork:
                continue
            if run.kept:
                if op[0] not in ("make", "step", "inline", "sub", "echo"):
                    raise Open
                run.kept -= 1
                value = value_of(op[2]) if op[0] in ("make", "inline") else held[op[3 if op[0] == "echo" else 2]]
                held[op[1]] = run.receive("done", value)
                continue
            run.is_fork = False
            match op:
                case ["make", name, spec]:
                    held[name] = run.receive("done", value_of(spec))
                case ["step", name, value, other]:
                    self.bucket.arguments(run.execution, {"value": held[value], "other": held[other]})
                    held[name] = run.receive("done", held[value])
                case ["inline", name, spec]:
                    held[name] = run.receive("done", value_of(spec))
                case ["sub", name, value]:
                    child = Run(f"{run.id}/{run.generation}/{at}", self.bucket)
                    child.begin({"value": held[value]})
                    child.complete(held[value], self.now)
                    held[name] = run.receive("done", held[value])
                case ["echo", name, key, value]:
                    held[name] = run.receive("done", self.call(key, "echo", {"value": held[value]}, by="flow"))
                case ["put", key, value]:
                    run.receive("done", self.call(key, "put", {"value": held[value]}, by="flow"))
                case ["send", value]:
                    what = digest(held[value])
                    if what in sent and is_unsure:
                        raise Open  # whether it is the same turn
                    sent.append(what)
                    self.send(("turn", run.id, run.generation, run.turn), {"value": held[value]})
                case ["batch", *values]:
                    self._batch(run, f"{run.id}/{run.generation}/{at}", [held[each] for each in values])
                case ["event", name]:
                    held[name] = yield from self._receive(run, "event")
                case ["update", name, answer]:
                    held[name] = yield from self._receive(run, "update")
                    run.message(held[answer])
                    run.answers[self.answered] = held[answer]
                case ["again", first, second]:
                    arguments = {"script": script[at + 1 :], "a": held[first], "b": held[second]}
                    run.continue_as_new(arguments, self.now)
                    yield from self._code(run, **arguments)
                    return
                case ["fail"] if "flow" not in MENDED:
                    run.end("failed", self.now)
                    yield
                case ["return", value]:
                    run.complete(held[value], self.now)
                    return
            if op[0] in ("make", "step", "sub", "echo", "put", "batch"):
                run.turn += 1
                sent.clear()
                is_unsure = False
            is_unsure = is_unsure or op[0] in ("inline", "event", "update")
        run.complete(None, self.now)

    answered: str = ""
    """The id of the update that the code has received last."""

    def _receive(self, run: Run, kind: str) -> Generator[None, None, Json]:
        while not (found := next((each for each in self.inbox[run.id] if each[0] == kind), None)):
            yield
        self.inbox[run.id].remove(found)
        self.answered = found[1]
        run.log.append((kind, found[2]))
        return found[2]

    def _batch(self, run: Run, id_: str, values: list[Json]) -> None:
        together = sum(size({"value": value}) for value in values)
        if abs(together - AWAITED_MAX) < 3_000:
            raise Open
        if together > AWAITED_MAX:
            self.unnamed += 1
            self.bucket.values.setdefault(run.execution, {})[f"{UNNAMED}{self.unnamed}"] = together
            self.bucket.puts += 1
        units = Units(id_, self.bucket)
        units.add([{"value": value} for value in values])
        for index, value in enumerate(values):
            units.succeed(index, value)
        units.end(self.now, self.now + 2 * SETTLED_FAULTY_SECONDS)

    def chain(self, id_: str, stages: Sequence[list[dict[str, Json]]]) -> None:
        """Store the units of batches that follow one another, and those of what each one still has before it."""
        sizes = [size(stage) for stage in stages]
        for number, stage in enumerate(stages):
            units = Units(f"{id_} {number}", self.bucket)
            units.add(stage)
            for index, unit in enumerate(stage):
                units.succeed(index, unit["value"])
            left = sorted(sizes[number + 1 :])
            if len(set(left)) < len(left) or any(abs(sum(left[: n + 1]) - THEN_MAX) < 3_000 for n in range(len(left))):
                raise Open
            while sum(left) > THEN_MAX:
                if not self.bucket.is_on:
                    raise Refused(TOO_LARGE)
                self.unnamed += 1
                self.bucket.values.setdefault(units.place, {})[f"{UNNAMED}{self.unnamed}"] = left.pop()
                self.bucket.puts += 1

    def message(self, id_: str, kind: str, key: str, value: Json) -> None:
        run = self.runs[id_]
        if run.state != "running":
            raise Refused("flow-ended")
        run.message(value)
        self.inbox[id_].append((kind, key, value))
        self.advance(run)
