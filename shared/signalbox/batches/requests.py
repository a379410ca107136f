"""The requests on batches, which HTTP and Python callers build alike. Each type checks itself when it is made."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Any, Self

from signalbox.batches.limits import LIMITS
from signalbox.batches.machine.pages import cut
from signalbox.batches.model.headers import Header
from signalbox.batches.model.pages import digest, json_text
from signalbox.batches.model.units import PlacedUnit
from signalbox.batches.problems import BadBatch
from signalbox.core.calls import Call, check_arguments, declared_parameters
from signalbox.core.given import given
from signalbox.core.keys import valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.paging import Listing
from signalbox.core.problems import BadKey, BadQuery, TooLarge
from signalbox.core.request_fields import RequestFields

NUMBER_MAX = 10**9
"""The largest number of a page, a unit, or tolerated failures: more than any batch contains."""

_NUMBERS = ("failures_max", "deadline_seconds", "concurrency")
_CALLS = ("task", "on_complete", "on_failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """The definition of a batch.

    - `units`: their payloads
    - `task`: the call that runs a unit; without it, units are completed from outside
    - `then`: the batch that follows if this one succeeds
    - `on_failure`: the call after any other end; also that of `then`, unless `then` names another one
    - `semaphore`: the name of a semaphore; each unit runs under one of its permits
    - `rate`: the name of a rate; each unit takes `weight` of its permits when it starts
    - `weight`: a number, or the name of the argument with the number
    - `per_task`: how many units one task runs, one after another

    Raises `BadBatch` or `TooLarge` if a field has a value that is not allowed.
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
    semaphore: str = ""
    per_task: int | None = None
    rate: str = ""
    weight: int | str = 1

    def __post_init__(self) -> None:
        fields = RequestFields({name: getattr(self, name) for name in (*_NUMBERS, "per_task")}, BadBatch)
        fields.integer("failures_max", 0, NUMBER_MAX, default=None)
        fields.integer("deadline_seconds", 1, LIMITS.batch_deadline_seconds_max)
        fields.integer("concurrency", 1, LIMITS.concurrency_max, default=None)
        fields.integer("per_task", 2, LIMITS.page_units_max, default=None)
        self._check_dispatch()
        self._check_rate()
        self._check_then()
        check_units(self.units, self.task, LIMITS.call_units_max)
        check_weights(self.units, self.task, self.rate, self.weight)

    def _check_dispatch(self) -> None:
        if self.semaphore and not valid_key(self.semaphore):
            raise BadBatch("`semaphore` must be the name of a semaphore.", field="semaphore")
        for name, value in (
            ("concurrency", self.concurrency),
            ("queues", self.queues),
            ("semaphore", self.semaphore),
            ("rate", self.rate),
            ("per_task", self.per_task),
        ):
            if value and self.task is None:
                raise BadBatch(f"`{name}` needs a `task`: without one, units are completed from outside.", field=name)
        if self.per_task and self.semaphore:
            raise BadBatch(
                "A permit is for one unit, and with `per_task` a task runs several. Leave one of the two out; "
                "`concurrency` also limits how many run at once.",
                field="per_task",
            )
        if len(self.queues) > LIMITS.batch_queues_max:
            raise BadBatch(f"A batch has at most {LIMITS.batch_queues_max} queues.", field="queues")
        for call in self.calls_by_queue():
            call.checked("queues")

    def _check_rate(self) -> None:
        if self.rate and not valid_key(self.rate):
            raise BadBatch("`rate` must be the name of a rate.", field="rate")
        if self.rate and self.per_task:
            raise BadBatch(
                "With `rate`, each unit starts when its permits are granted, and with `per_task` a task runs several. "
                "Leave one of the two out.",
                field="per_task",
            )
        if self.rate and self.semaphore:
            raise BadBatch(
                "A unit waits for a `rate` or for a `semaphore`, not for both. Leave one of the two out; `concurrency` "
                "also limits how many units run at once.",
                field="rate",
            )
        if not self.rate and self.weight != 1:
            raise BadBatch("`weight` is the number of permits of a `rate`: add one, or leave it out.", field="weight")
        if not isinstance(self.weight, str) or not self.weight:
            _check_weight(self.weight, "weight")

    def calls_by_queue(self) -> list[Call]:
        """Return the call of a unit through each of `queues`. Raises `BadBatch` if `queues` are not strings."""
        if not all(isinstance(queue, str) for queue in self.queues):
            raise BadBatch("`queues` must be a list of names of queues.", field="queues")
        return [] if self.task is None else [replace(self.task, queue=queue) for queue in self.queues]

    def _check_then(self) -> None:
        if self.then is None:
            return
        if not self.then.sealed:
            raise BadBatch("A batch that follows another must be sealed.", field="then.sealed")
        size_bytes = len(json_text(self.then.to_request()))
        if size_bytes > LIMITS.then_bytes_max:
            limit = f"The batches that follow have at most {LIMITS.then_bytes_max:,} bytes"
            raise TooLarge(f"{limit}; these have {size_bytes:,}.", field="then")

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse the body of a call that creates a batch, except for its `id`. Raises a `Problem`."""
        if _stages(body) > LIMITS.then_stages_max:
            raise BadBatch(f"At most {LIMITS.then_stages_max} batches follow each other.", field="then")
        return cls._parse(body, "", "id", "sealed")

    @classmethod
    def _parse(cls, body: Mapping[str, Any], at: str, *more: str) -> Self:
        fields = RequestFields(body, BadBatch, at).only(
            "units", *_CALLS, *_NUMBERS, "queues", "then", "semaphore", "per_task", "rate", "weight", *more
        )
        then = fields.value("then", default=None)
        if not isinstance(then, dict | None):
            raise fields.refuse("then", "`then` must be an object that defines the batch that follows.")
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
            semaphore=fields.text("semaphore", ""),
            per_task=fields.value("per_task", default=None),
            rate=fields.text("rate", ""),
            weight=fields.value("weight", default=1),
        )

    @classmethod
    def from_then(cls, text: str) -> Self:
        """Parse the batch that follows from the header of the one before."""
        return cls._parse(json.loads(text), "")

    def to_request(self) -> dict[str, Any]:
        """Return the body that defines this batch as one that follows: without an id, and sealed."""
        calls = {name: call.to_request() for name in _CALLS if (call := getattr(self, name)) is not None}
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        then = None if self.then is None else self.then.to_request()
        return {
            "units": list(self.units),
            "queues": list(self.queues),
            **calls,
            **numbers,
            **given(then=then, semaphore=self.semaphore or None, per_task=self.per_task or None),
            **({"rate": self.rate, "weight": self.weight} if self.rate else {}),
        }

    def calls(self, at: str = "") -> dict[str, Call]:
        """Return the calls at the end of this batch and of those that follow it, by their places in the request."""
        own = {f"{at}{name}": call for name in _CALLS[1:] if (call := getattr(self, name)) is not None}
        return own | (self.then.calls(f"{at}then.") if self.then else {})

    def unit_calls(self, at: str = "") -> dict[str, Call]:
        """Return the calls of the units of this batch and of those that follow it, by their places in the request."""
        own = {} if self.task is None else {f"{at}task": self.task}
        queued = {f"{at}queues[{number}]": call for number, call in enumerate(self.calls_by_queue())}
        return own | queued | (self.then.unit_calls(f"{at}then.") if self.then else {})

    def check_arguments(self, at: str = "") -> None:
        """Check the arguments of all units, those of the batches that follow too. Raises `BadArgument`."""
        check_unit_arguments(self.units, self.task, at)
        if self.then is not None:
            self.then.check_arguments(f"{at}then.")

    def header(self, incarnation: str, first_pages: int, parent: PlacedUnit | None, now: datetime) -> Header:
        """Return the header of a batch whose creating call loads `first_pages` pages; its work is that of `parent`."""
        deadline_at = now + timedelta(seconds=self.deadline_seconds)
        return Header(
            incarnation=incarnation,
            digest=self.digest(),
            deadline_at=deadline_at,
            due_at=deadline_at,
            first_pages=first_pages,
            task=self.task,
            on_complete=self.on_complete,
            failures_max=self.failures_max,
            parent=parent,
            concurrency=self.concurrency,
            queues=tuple(self.queues),
            then="" if self.then is None else json_text(self.then.to_request()),
            on_failure=self.on_failure,
            semaphore=self.semaphore,
            per_task=self.per_task,
            rate=self.rate,
            weight=self.weight,
        )

    def digest(self) -> str:
        """Return a hash of the definition. The same definition under the same id is a repeat."""
        calls = [_canonical(self.task), _canonical(self.on_complete)]
        options = {
            "concurrency": self.concurrency,
            "queues": list(self.queues),
            "then": self.then and self.then.digest(),
            "on_failure": _canonical(self.on_failure),
            "semaphore": self.semaphore,
            "per_task": self.per_task,
            "rate": [self.rate, self.weight] if self.rate else None,
        }
        chosen = [{name: value for name, value in options.items() if value}]
        numbers = [self.sealed, self.failures_max, self.deadline_seconds]
        return digest(list(self.units), *calls, *numbers, *filter(None, chosen))


def _stages(body: Mapping[str, Any]) -> int:
    """Count the batches that follow each other in a request, before any of them is parsed."""
    stages, follows = 0, body.get("then")
    while isinstance(follows, dict):
        stages, follows = stages + 1, follows.get("then")
    return stages


def _canonical(call: Call | None) -> dict[str, Any] | None:
    return None if call is None else {**call.to_request(), "delay_seconds": float(call.delay_seconds)}


def _call(fields: RequestFields, name: str) -> Call | None:
    value = fields.value(name, default=None)
    return None if value is None else Call.from_request(value, f"{fields.at}.{name}" if fields.at else name)


def check_units(units: Sequence[Any], task: Call | None, units_max: int) -> None:
    """Check that units are not too many or too large, and that the task can execute them. Raises a `Problem`."""
    if len(units) > units_max:
        raise TooLarge(f"At most {units_max:,} units are allowed; these are {len(units):,}.", field="units")
    task_bytes = 0 if task is None else len(json_text(task.payload))
    for index, unit in enumerate(units):
        if task is not None and not isinstance(unit, dict):
            raise BadBatch(
                "A unit of a batch with a task must be an object: the task's arguments.", field=f"units[{index}]"
            )
        if task_bytes + len(json_text(unit)) > CORE_LIMITS.task_bytes_max:
            raise TooLarge(f"A unit has at most {CORE_LIMITS.task_bytes_max:,} bytes.", field=f"units[{index}]")


def check_weights(units: Sequence[Any], task: Call | None, rate: str, weight: int | str) -> None:
    """Check the argument that has the number of permits of each unit, if there is one. Raises `BadBatch`."""
    if task is None or not rate or not isinstance(weight, str):
        return
    for index, unit in enumerate(units):
        _check_weight({**task.payload, **unit}.get(weight), f"units[{index}].{weight}")


def _check_weight(weight: Any, field: str) -> None:
    if type(weight) is not int or not 1 <= weight <= CORE_LIMITS.burst_max:
        detail = f"must be an integer from 1 to {CORE_LIMITS.burst_max:,}: the permits that a unit takes of the `rate`"
        argument = ", or the name of the argument that has it" if field == "weight" else ""
        raise BadBatch(f"`{field}` {detail}{argument}.", field=field)


def check_unit_arguments(units: Sequence[Any], task: Call | None, at: str = "") -> None:
    """Check the names of the arguments of units, if the catalogue has the task's. Raises `BadArgument`."""
    known = declared_parameters()
    if task is None or task.task not in known.get(task.function, ()):
        return
    for index, unit in enumerate(units):
        check_arguments(known, replace(task, payload={**task.payload, **unit}), f"{at}units[{index}]")


# --- requests on one batch ---


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page to add. Raises `BadBatch` if the number is invalid or the page has no unit."""

    page: int
    units: Sequence[Any]

    def __post_init__(self) -> None:
        RequestFields({"page": self.page}, BadBatch).integer("page", 0, NUMBER_MAX)
        if not self.units:
            raise BadBatch("A page has at least one unit.", field="units")

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse ``{"page": n, "units": [1…100]}``. Raises `BadBatch` or `TooLarge`."""
        fields = RequestFields(body, BadBatch).only("page", "units")
        return cls(fields.value("page"), fields.items("units"))

    def check(self, header: Header) -> None:
        """Check that the batch's task takes the units, and that they fit into a page.

        Raises `BadBatch`, `BadArgument` or `TooLarge`.
        """
        check_units(self.units, header.task, LIMITS.page_units_max)
        check_unit_arguments(self.units, header.task)
        check_weights(self.units, header.task, header.rate, header.weight)
        if len(cut(self.units)) > 1:
            raise TooLarge(f"A page has at most {LIMITS.page_bytes_max:,} bytes. Split these units.", field="units")


@dataclass(frozen=True, slots=True)
class SealRequest:
    """The seal of a batch at a number of pages. Raises `BadBatch`."""

    pages: int

    def __post_init__(self) -> None:
        RequestFields({"pages": self.pages}, BadBatch).integer("pages", 0, NUMBER_MAX)

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse ``{"pages": n}``. Raises `BadBatch`."""
        return cls(RequestFields(body, BadBatch).only("pages").value("pages"))


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """The indexes of the units to retry; None means all failed units. Raises `BadBatch` or `TooLarge`.

    `payload` is merged over the payload of each unit, for this attempt.
    """

    units: Sequence[int] | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.units or ()) > LIMITS.retry_units_max:
            limit = f"At most {LIMITS.retry_units_max:,} units can be named."
            raise TooLarge(f"{limit} Leave `units` out to retry all failed units.", field="units")
        for index in self.units or ():
            RequestFields({"units": index}, BadBatch).integer("units", 0, NUMBER_MAX)
        if not isinstance(self.payload, dict):
            raise BadBatch("`payload` must be an object: the arguments to change.", field="payload")
        if len(json_text(self.payload)) > CORE_LIMITS.task_bytes_max:
            raise TooLarge(f"A payload has at most {CORE_LIMITS.task_bytes_max:,} bytes.", field="payload")

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse ``{"units"?: [index…], "payload"?: {…}}``. Raises `BadBatch` or `TooLarge`."""
        fields = RequestFields(body, BadBatch).only("units", "payload")
        return cls(fields.items("units", default=None), fields.value("payload", default={}))


def check_batch_id(batch: str) -> str:
    """Return the id. Raises `BadKey` if no batch can have it."""
    if not valid_key(batch):
        limit = f"{CORE_LIMITS.key_bytes_max:,} bytes of UTF-8"
        raise BadKey(f"A batch's id is a key of 1 to {limit}, without '/'.", field="id")
    return batch


def requested_id(body: Mapping[str, Any], idempotency_key: str | None) -> str | None:
    """Return the id requested for a new batch: the body's, or else the ``Idempotency-Key``. Raises `BadKey`."""
    if body.get("id") is None:
        return idempotency_key or None
    if not isinstance(body["id"], str):
        raise BadKey("`id` must be a string.", field="id")
    return check_batch_id(body["id"])


# --- queries ---

STATES = ("open", "sealed", "completed", "cancelled")
"""The states that callers see. A batch that is being removed is not found."""


@dataclass(frozen=True, slots=True)
class BatchesQuery:
    """A query of one page of the batches, by id: those in `state`, or all."""

    state: str
    listing: Listing

    @classmethod
    def from_request(cls, query: Mapping[str, str]) -> Self:
        """Parse ``state=``, ``limit=`` and ``page_token=``. Raises `BadQuery`."""
        state = query.get("state", "")
        if state not in ("", *STATES):
            raise BadQuery(f"`state` must be one of {', '.join(STATES)}.", field="state")
        return cls(state, Listing.from_request(query, f"batches {state}", LIMITS.batches_listed_max))


@dataclass(frozen=True, slots=True)
class UnitsQuery:
    """A query of units with an outcome, in the order of their records' ids: those in `state`, or all.

    It begins after the unit with the index `after`, or with the first unit.
    """

    state: str = ""
    after: int | None = None

    @classmethod
    def from_request(cls, query: Mapping[str, str]) -> Self:
        """Parse ``state=`` and ``page_token=``. Raises `BadQuery`."""
        return cls(_state(query), _index(query, "page_token"))

    @classmethod
    def of_results(cls, query: Mapping[str, str]) -> Self:
        """Parse ``state=`` and ``after=``, the index of the last line received. Raises `BadQuery`."""
        return cls(_state(query), _index(query, "after"))


def first_page_of(query: Mapping[str, str]) -> int:
    """Parse ``page=``, the number of the first page to add. Raises `BadQuery`."""
    return _index(query, "page") or 0


def _state(query: Mapping[str, str]) -> str:
    state = query.get("state", "")
    if state not in ("", "succeeded", "failed"):
        raise BadQuery("`state` must be succeeded or failed.", field="state")
    return state


def _index(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadQuery(f"`{name}` must be a number of at most 9 digits.", field=name)
    return int(text) if text else None
