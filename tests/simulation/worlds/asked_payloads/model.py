"""Which values are stored in the bucket, how they are shown, and for how long: a model of docs/payloads.md.

It uses nothing of the kit. A *place* is that for which a value is stored once: an execution of a run, the messages of
a run, the arguments or the result of a call, the state of an object, a batch, the tasks of a month or of a turn. Each
place has its term. Where the page leaves a choice open, the model raises `Open`, or the page is completed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from typing import Any

Json = Any
Place = tuple[Any, ...]

KIB = 1_024
INLINE_MAX = 100 * KIB
STATE_MAX = 900_000
THEN_MAX = 200 * KIB
THEN_STORED_MAX = 8 * KIB * KIB
AWAITED_MAX = 300_000
STORED_MAX = 32 * KIB * KIB

NAME_BYTES_MAX = 250
"""More than a name has that is left in the place of a stored argument."""

DAY = 86_400.0
MINUTES = 300.0
"""The time of the sweeper."""

TOO_LARGE = "too-large"


class Refused(Exception):
    """A value is refused: its only argument is the slug of the problem."""


class Open(Exception):
    """The page leaves open what is seen from here on."""


# --- sizes and forms ---


def text(value: Json) -> str:
    """Return the value's JSON, whose bytes are counted and hashed."""
    return json.dumps(value, separators=(",", ":"))


def size(value: Json) -> int:
    return len(text(value))


def digest(value: Json) -> str:
    return sha256(text(value).encode()).hexdigest()


def canonical(value: Json) -> str:
    """Return a hash that does not depend on the order of members, which small values lose."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def is_large(value: Json, more_than: int = INLINE_MAX) -> bool:
    return size(value) > more_than


def stored_arguments(arguments: Mapping[str, Json], others: int = 0) -> set[str]:
    """Return the names of the arguments that are stored: the largest, until the others fit."""
    left = dict(arguments)
    stored = set[str]()
    while left and size(left) + others > INLINE_MAX - NAME_BYTES_MAX * len(stored):
        if stored and size(left) + others <= INLINE_MAX:
            raise Open  # the names of those that are stored also have bytes
        largest = max(left, key=lambda name: size(left[name]))
        if any(size(value) == size(left[largest]) and value != left[largest] for value in left.values()):
            raise Open  # of those of one size, any may be the largest
        del left[largest]
        stored.add(largest)
    if stored and not left and others > INLINE_MAX - NAME_BYTES_MAX * len(stored):
        raise Open  # whether even the names fit
    return stored


def shown(value: Json, *, stored: bool) -> Json:
    """Return a value as HTTP shows it."""
    if stored:
        return {"$payload": {"bytes": size(value), "sha256": digest(value)}}
    if isinstance(value, dict) and isinstance(value.get("$payload"), dict):
        return {"$payload": {"value": value}}
    return value


def shown_arguments(arguments: Mapping[str, Json]) -> dict[str, Json]:
    stored = stored_arguments(arguments)
    return {name: shown(value, stored=name in stored) for name, value in arguments.items()}


def shown_result(value: Json) -> Json:
    return shown(value, stored=is_large(value))


# --- the bucket ---


@dataclass(slots=True)
class Bucket:
    """What is stored for each place. A place has a term: its values are kept until one time, and gone by another."""

    is_on: bool = True
    values: dict[Place, dict[str, int]] = field(default_factory=dict)
    terms: dict[Place, tuple[float, float]] = field(default_factory=dict)
    puts: int = 0
    """The values that were stored, counted again if they were there."""

    def arguments(self, place: Place, arguments: Mapping[str, Json], others: int = 0) -> None:
        for name in stored_arguments(arguments, others):
            self.store(place, arguments[name])

    def result(self, place: Place, value: Json, more_than: int = INLINE_MAX) -> None:
        if is_large(value, more_than):
            self.store(place, value)

    def store(self, place: Place, value: Json) -> None:
        """Store a large value. Raises `Refused` if the setting is off, or if it is larger than 32 MiB."""
        if not self.is_on or size(value) > STORED_MAX:
            if len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) <= INLINE_MAX:
                raise Open  # calls of tasks may have other letters than those of ASCII
            raise Refused(TOO_LARGE)
        self.puts += 1
        self.values.setdefault(place, {})[digest(value)] = size(value)

    def end(self, place: Place, kept_until: float, gone_by: float) -> None:
        self.terms[place] = (kept_until, gone_by)

    def least(self, now: float) -> Counter[str]:
        """Return the values that must be there now."""
        return self._of(now, 0)

    def most(self, now: float) -> Counter[str]:
        """Return the values that may be there now."""
        return self._of(now, 1)

    def _of(self, now: float, bound: int) -> Counter[str]:
        there = Counter[str]()
        for place, values in self.values.items():
            if now <= self.terms.get(place, (inf, inf))[bound]:
                there.update(dict.fromkeys(values, 1))
        return there


# --- owners ---

RUN_KEPT = 32 * DAY
RECEIPT_KEPT = 32 * DAY
RECEIPT_LEFT = 8 * DAY
BATCH_KEPT = 7 * DAY
TASKS_KEPT = 130 * DAY
LEFT = 8 * DAY


@dataclass(slots=True)
class Run:
    """A run of a flow. `arguments` and `log` are those of its present execution."""

    id: str
    bucket: Bucket
    arguments: dict[str, Json] = field(default_factory=dict)
    log: list[tuple[str, Json]] = field(default_factory=list)
    generation: int = 0
    turn: int = 0
    state: str = "running"
    result: Json = None
    answers: dict[str, Json] = field(default_factory=dict)
    kept: int = 0
    """The results of a fork that its code receives without a command."""
    is_fork: bool = False
    """Whether the code has not come to what a fork does anew: until then, it sends nothing."""

    @property
    def execution(self) -> Place:
        return "execution", self.id, self.generation

    @property
    def messages(self) -> Place:
        return "messages", self.id

    def begin(self, arguments: dict[str, Json]) -> None:
        self.bucket.arguments(self.execution, arguments)
        self.arguments, self.log = arguments, []

    def receive(self, kind: str, value: Json) -> Json:
        """Return a result that the code has awaited."""
        self.bucket.result(self.execution, value)
        self.log.append((kind, value))
        return value

    def message(self, value: Json) -> None:
        """Store the value of an event or an update, or an answer."""
        self.bucket.result(self.messages, value)

    def continue_as_new(self, arguments: dict[str, Json], now: float) -> None:
        before = self.execution
        self.generation += 1
        self.begin(arguments)
        self.bucket.end(before, now, now + MINUTES)

    def complete(self, result: Json, now: float) -> None:
        self.bucket.result(self.execution, result)
        self.end("completed", now)
        self.result = result

    def end(self, state: str, now: float) -> None:
        self.state = state
        for place in (self.execution, self.messages):
            self.bucket.end(place, now + RUN_KEPT, now + RUN_KEPT + MINUTES)

    def continue_again(self) -> None:
        """Continue after a retry in place."""
        self.state = "running"
        for place in (self.execution, self.messages):
            self.bucket.terms.pop(place, None)

    def delete(self, now: float) -> None:
        for place in (self.execution, self.messages):
            self.bucket.end(place, now, now + MINUTES)


@dataclass(slots=True)
class Thing:
    """An object with one field, whose state is stored if it is large."""

    key: str
    bucket: Bucket
    state: Json = None
    turns: int = 0
    calls: int = 0

    def call(self, arguments: dict[str, Json], result: Json, now: float, *, has_receipt: bool) -> None:
        """Store the arguments and the result of a call. One of a method has no receipt."""
        self.calls += 1
        kept_until = now + RECEIPT_KEPT if has_receipt else now
        for part in ("arguments", "result"):
            self.bucket.end((part, self.key, self.calls), kept_until, now + RECEIPT_KEPT + RECEIPT_LEFT)
        self.bucket.arguments(("arguments", self.key, self.calls), arguments)
        self.bucket.result(("result", self.key, self.calls), result)

    def change(self, state: Json, now: float) -> None:
        if is_large(state, STATE_MAX):
            self.bucket.store(("state", self.key, self.turns + 1), state)
        self.bucket.end(("state", self.key, self.turns), now, now + MINUTES)
        self.turns += 1
        self.state = state

    def delete(self, now: float) -> None:
        self.bucket.end(("state", self.key, self.turns), now, now + MINUTES)
        self.turns += 1
        self.state = None


@dataclass(slots=True)
class Units:
    """A batch. Its units have arguments, those of the batch's task in addition, and results or errors."""

    id: str
    bucket: Bucket
    common: dict[str, Json] = field(default_factory=dict)
    units: list[dict[str, Json]] = field(default_factory=list)
    results: dict[int, Json] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return "batch", self.id

    def add(self, units: list[Json], *, is_task: bool = True) -> None:
        """Add units, whose payloads are the arguments of a task, or any value."""
        others = size(self.common) - 1 if self.common else 0
        for unit in units:
            if is_task:
                self.bucket.arguments(self.place, unit, others)
            else:
                self.bucket.result(self.place, unit)
        self.units += units

    def succeed(self, index: int, result: Json) -> None:
        self.bucket.result(self.place, result)
        self.results[index] = result

    def retry(self, payload: dict[str, Json]) -> None:
        self.bucket.arguments(self.place, payload)

    def end(self, earliest: float, latest: float) -> None:
        self.bucket.end(self.place, earliest + BATCH_KEPT, latest + BATCH_KEPT + MINUTES)


def enqueue(bucket: Bucket, place: Place, arguments: dict[str, Json], now: float) -> None:
    """Store the arguments of a task of a month, or of a turn of a run."""
    bucket.arguments(place, arguments)
    if place not in bucket.terms:
        bucket.end(place, now + TASKS_KEPT, now + TASKS_KEPT + LEFT)
