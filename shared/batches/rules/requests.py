"""The requests on batches, as HTTP and the kit build them. Each type checks itself."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from shared.batches.rules.pages import cut, digest, json_text
from shared.core.rules.calls import Call
from shared.core.rules.keys import valid_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadBatch, BadKey, TooLarge
from shared.core.rules.request_fields import RequestFields

NUMBER_MAX = 10**9
"""Of a page, a unit, or a tolerated number of failures: more than any batch holds."""

_NUMBERS = ("failures_max", "deadline_seconds", "concurrency")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """What a batch is created with. `units` are payloads; without `task` they are completed from outside.

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

    def __post_init__(self) -> None:
        fields = RequestFields({one: getattr(self, one) for one in _NUMBERS}, BadBatch)
        fields.integer("failures_max", 0, NUMBER_MAX, default=None)
        fields.integer("deadline_seconds", 1, LIMITS.batch_deadline_seconds_max)
        fields.integer("concurrency", 1, LIMITS.concurrency_max, default=None)
        self._check_dispatch()
        _check_units(self.units, self.task, LIMITS.call_units_max)

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

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse the body of a call that creates a batch; its `id` is not part of it. Raises a `Problem`."""
        fields = RequestFields(body, BadBatch).only("id", "units", "task", "on_complete", "sealed", *_NUMBERS, "queues")
        return cls(
            units=fields.items("units", default=()),
            task=_call(fields, "task"),
            on_complete=_call(fields, "on_complete"),
            sealed=fields.flag("sealed"),
            failures_max=fields.value("failures_max", default=None),
            deadline_seconds=fields.value("deadline_seconds", default=LIMITS.batch_deadline_seconds),
            concurrency=fields.value("concurrency", default=None),
            queues=tuple(fields.items("queues", default=())),
        )

    def digest(self) -> str:
        """Return a hash of the whole: the same spec under the same id is a repeat."""
        calls = [_canonical(self.task), _canonical(self.on_complete)]
        options = {"concurrency": self.concurrency, "queues": list(self.queues)}
        chosen = [{name: value for name, value in options.items() if value}]
        numbers = [self.sealed, self.failures_max, self.deadline_seconds]
        return digest(list(self.units), *calls, *numbers, *filter(None, chosen))


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page to add. Raises `BadBatch` or `TooLarge` for units that are no page."""

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

    def check(self, task: Call | None) -> None:
        """Check that this task can execute the units, and that they fit one page. Raises `BadBatch` or `TooLarge`."""
        _check_units(self.units, task, LIMITS.page_units_max)
        if len(cut(self.units)) > 1:
            raise TooLarge(f"A page has at most {LIMITS.page_bytes_max:,} bytes. Split these units.", field="units")


@dataclass(frozen=True, slots=True)
class SealRequest:
    """The seal of a batch with so many pages."""

    pages: int

    def __post_init__(self) -> None:
        RequestFields({"pages": self.pages}, BadBatch).integer("pages", 0, NUMBER_MAX)

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse ``{"pages": n}``. Raises `BadBatch`."""
        return cls(RequestFields(body, BadBatch).only("pages").value("pages"))


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """The units to retry, by index; None: all that failed. Raises `BadBatch` or `TooLarge`.

    `payload` is merged over the payload of each, for this attempt.
    """

    units: Sequence[int] | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.units or ()) > LIMITS.retry_units_max:
            raise TooLarge(f"At most {LIMITS.retry_units_max:,} units; none means all that failed.", field="units")
        for index in self.units or ():
            RequestFields({"units": index}, BadBatch).integer("units", 0, NUMBER_MAX)
        if not isinstance(self.payload, dict):
            raise BadBatch("`payload` must be an object: the arguments that change.", field="payload")
        if len(json_text(self.payload)) > LIMITS.task_bytes_max:
            raise TooLarge(f"A payload has at most {LIMITS.task_bytes_max:,} bytes.", field="payload")

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse ``{"units"?: [index…], "payload"?: {…}}``. Raises `BadBatch` or `TooLarge`."""
        fields = RequestFields(body, BadBatch).only("units", "payload")
        return cls(fields.items("units", default=None), fields.value("payload", default={}))


def check_batch_id(batch: str) -> str:
    """Return the id. Raises `BadKey` if no batch can have it."""
    if not valid_key(batch):
        raise BadKey("Invalid batch id.", field="id")
    return batch


def requested_id(body: Mapping[str, Any], idempotency_key: str | None) -> str | None:
    """Return the id requested for a new batch: the body's, else the ``Idempotency-Key``. Raises `BadKey`."""
    if "id" not in body:
        return idempotency_key or None
    if not isinstance(body["id"], str):
        raise BadKey("`id` must be a string.", field="id")
    return check_batch_id(body["id"])


def _canonical(call: Call | None) -> dict[str, Any] | None:
    return None if call is None else {**asdict(call), "delay_seconds": float(call.delay_seconds)}


def _call(fields: RequestFields, name: str) -> Call | None:
    value = fields.value(name, default=None)
    return None if value is None else Call.from_request(value, name)


def _check_units(units: Sequence[Any], task: Call | None, units_max: int) -> None:
    if len(units) > units_max:
        raise TooLarge(f"At most {units_max:,} units; these are {len(units):,}.", field="units")
    task_bytes = 0 if task is None else len(json_text(task.payload))
    for index, unit in enumerate(units):
        if task is not None and not isinstance(unit, dict):
            raise BadBatch("A unit of a batch with a task must be an object: its arguments.", field=f"units[{index}]")
        if task_bytes + len(json_text(unit)) > LIMITS.task_bytes_max:
            raise TooLarge(f"A unit has at most {LIMITS.task_bytes_max:,} bytes.", field=f"units[{index}]")
