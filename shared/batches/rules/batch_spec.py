"""What a batch is created with, and what follows it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from shared.batches.rules.pages import digest, json_text
from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadBatch, TooLarge
from shared.core.rules.request_fields import RequestFields

NUMBER_MAX = 10**9
"""Of a page, a unit, or a tolerated number of failures: more than any batch holds."""

_NUMBERS = ("failures_max", "deadline_seconds", "concurrency")
_CALLS = ("task", "on_complete", "on_failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """What a batch is created with. `units` are payloads; without `task` they are completed from outside.

    `then` is the batch that follows if this one succeeds; else `on_failure` is called, with how it ended. What follows
    has the same `on_failure`, unless it has its own.

    Raises `BadBatch` or `TooLarge` for what no batch can have.
    """

    units: Sequence[Any] = ()
    task: Call | None = None
    on_complete: Call | None = None
    sealed: bool = False
    failures_max: int | None = None
    deadline_seconds: int = LIMITS.batch_deadline_seconds
    concurrency: int | None = None
    queues: Sequence[str] = ()
    then: "BatchSpec | None" = None
    on_failure: Call | None = None

    def __post_init__(self) -> None:
        fields = RequestFields({one: getattr(self, one) for one in _NUMBERS}, BadBatch)
        fields.integer("failures_max", 0, NUMBER_MAX, default=None)
        fields.integer("deadline_seconds", 1, LIMITS.batch_deadline_seconds_max)
        fields.integer("concurrency", 1, LIMITS.concurrency_max, default=None)
        self._check_dispatch()
        self._check_then()
        check_units(self.units, self.task, LIMITS.call_units_max)

    def _check_dispatch(self) -> None:
        for name, value in (("concurrency", self.concurrency), ("queues", self.queues)):
            if value and self.task is None:
                raise BadBatch(f"`{name}` is for a batch with a task: others are completed from outside.", field=name)
        if len(self.queues) > LIMITS.batch_queues_max:
            raise BadBatch(f"A batch has at most {LIMITS.batch_queues_max} queues.", field="queues")
        for call in self.calls_by_queue():
            call.checked("queues")

    def calls_by_queue(self) -> list[Call]:
        """Return the call of a unit through each of `queues`. Raises `BadBatch` for what is no name."""
        if not all(isinstance(queue, str) for queue in self.queues):
            raise BadBatch("`queues` must be a list of names.", field="queues")
        return [] if self.task is None else [replace(self.task, queue=queue) for queue in self.queues]

    def _check_then(self) -> None:
        if self.then is None:
            return
        if not self.then.sealed:
            raise BadBatch("A batch that follows another is sealed.", field="then.sealed")
        size_bytes = len(json_text(self.then.to_request()))
        if size_bytes > LIMITS.then_bytes_max:
            limit = f"What follows has at most {LIMITS.then_bytes_max:,} bytes"
            raise TooLarge(f"{limit}; this has {size_bytes:,}.", field="then")

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse the body of a call that creates a batch; its `id` is not part of it. Raises a `Problem`."""
        if _stages(body) > LIMITS.then_stages_max:
            raise BadBatch(f"At most {LIMITS.then_stages_max} batches follow each other.", field="then")
        return cls._parse(body, "", "id", "sealed")

    @classmethod
    def _parse(cls, body: Mapping[str, Any], at: str, *more: str) -> Self:
        fields = RequestFields(body, BadBatch, at).only("units", *_CALLS, *_NUMBERS, "queues", "then", *more)
        then = fields.value("then", default=None)
        if not isinstance(then, dict | None):
            raise fields.refuse("then", "`then` must be an object: the batch that follows.")
        return cls(
            units=fields.items("units", default=()),
            task=_call(fields, "task"),
            on_complete=_call(fields, "on_complete"),
            sealed=fields.flag("sealed") if more else True,
            failures_max=fields.value("failures_max", default=None),
            deadline_seconds=fields.value("deadline_seconds", default=LIMITS.batch_deadline_seconds),
            concurrency=fields.value("concurrency", default=None),
            queues=tuple(fields.items("queues", default=())),
            then=None if then is None else cls._parse(then, f"{at}.then" if at else "then"),
            on_failure=_call(fields, "on_failure"),
        )

    @classmethod
    def from_then(cls, text: str) -> Self:
        """Read the batch that follows, as the header of the one before holds it."""
        return cls._parse(json.loads(text), "")

    def to_request(self) -> dict[str, Any]:
        """Return the body by which this batch follows another: it has no id, and is sealed."""
        calls = {name: asdict(call) for name in _CALLS if (call := getattr(self, name)) is not None}
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        then = {} if self.then is None else {"then": self.then.to_request()}
        return {"units": list(self.units), "queues": list(self.queues), **calls, **numbers, **then}

    def calls(self, at: str = "") -> dict[str, Call]:
        """Return the calls that it makes, and what follows it, each by its place in the request."""
        own = {f"{at}{name}": call for name in _CALLS if (call := getattr(self, name)) is not None}
        queued = {f"{at}queues[{number}]": call for number, call in enumerate(self.calls_by_queue())}
        return own | queued | (self.then.calls(f"{at}then.") if self.then else {})

    def digest(self) -> str:
        """Return a hash of the whole: the same spec under the same id is a repeat."""
        calls = [_canonical(self.task), _canonical(self.on_complete)]
        options = {
            "concurrency": self.concurrency,
            "queues": list(self.queues),
            "then": self.then and self.then.digest(),
            "on_failure": _canonical(self.on_failure),
        }
        chosen = [{name: value for name, value in options.items() if value}]
        numbers = [self.sealed, self.failures_max, self.deadline_seconds]
        return digest(list(self.units), *calls, *numbers, *filter(None, chosen))


def _stages(body: Mapping[str, Any]) -> int:
    """Return how many batches follow each other in a request, before any of them is parsed."""
    stages, follows = 0, body.get("then")
    while isinstance(follows, dict):
        stages, follows = stages + 1, follows.get("then")
    return stages


def _canonical(call: Call | None) -> dict[str, Any] | None:
    return None if call is None else {**asdict(call), "delay_seconds": float(call.delay_seconds)}


def _call(fields: RequestFields, name: str) -> Call | None:
    value = fields.value(name, default=None)
    return None if value is None else Call.from_request(value, f"{fields.at}.{name}" if fields.at else name)


def check_units(units: Sequence[Any], task: Call | None, units_max: int) -> None:
    if len(units) > units_max:
        raise TooLarge(f"At most {units_max:,} units; these are {len(units):,}.", field="units")
    task_bytes = 0 if task is None else len(json_text(task.payload))
    for index, unit in enumerate(units):
        if task is not None and not isinstance(unit, dict):
            raise BadBatch("A unit of a batch with a task must be an object: its arguments.", field=f"units[{index}]")
        if task_bytes + len(json_text(unit)) > LIMITS.task_bytes_max:
            raise TooLarge(f"A unit has at most {LIMITS.task_bytes_max:,} bytes.", field=f"units[{index}]")
