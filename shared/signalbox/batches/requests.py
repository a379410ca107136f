"""The requests on batches, which HTTP and Python callers build alike. Each type checks itself when it is made."""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from datetime import datetime, timedelta
from typing import Annotated, Any, Self, get_args

from signalbox.batches.limits import LIMITS
from signalbox.batches.machine.pages import cut
from signalbox.batches.model.headers import Header, ShownState
from signalbox.batches.model.large_values import claimed_definition, opened_definition
from signalbox.batches.model.pages import bytes_beside_unit, digest
from signalbox.batches.model.settings import CALLS, NUMBER_MAX, BatchSettings, check_weight
from signalbox.batches.model.tree import BATCH_IDS
from signalbox.batches.model.units import PlacedUnit
from signalbox.batches.problems import BadBatch, BatchSealed
from signalbox.core.calls import Call, check_arguments, declared_parameters
from signalbox.core.given import given
from signalbox.core.json_values import json_text
from signalbox.core.keys import valid_key
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import are_payloads_stored, larger_values, value_bytes_max
from signalbox.core.problems import BadKey, BadQuery, NewerFormat, Problem, TooLarge
from signalbox.core.surface.field_rules import KEY, Checked, Described, Range, RequestBody, check_fields
from signalbox.core.surface.paging import Listing
from signalbox.core.surface.request_fields import RequestFields
from signalbox.payloads.model import Outgoing, Place

OF_UNITS = (
    "Any JSON of at most 100 KiB, or 32 MiB with `payloads: true`; an object, its arguments, if the batch has a task."
)

UnitPayload = Annotated[Any, Described({"description": OF_UNITS})]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFollowing(BatchSettings):
    """A batch that follows another, sealed; at most 20 follow each other, with 200 KiB in all.

    With `payloads: true` they have 8 MiB in all.

    Raises `BadBatch` or `TooLarge` if a field has a value that is not allowed.
    """

    units: Annotated[Sequence[UnitPayload], Described({"maxItems": LIMITS.call_units_max})] = ()
    """The payloads of the units."""

    deadline_seconds: Annotated[int, Range(1, lambda: LIMITS.batch_deadline_seconds_max)] = (
        LIMITS.batch_deadline_seconds
    )
    """The time after which the batch ends, even if units have no outcome."""

    then: "BatchFollowing | None" = None
    """The batch that follows if this one is completed and no unit failed, or no more than `failures_max`."""

    def __post_init__(self) -> None:
        BatchSettings.__post_init__(self)
        self._check_then()
        check_units(self.units, self.task, LIMITS.call_units_max)
        check_weights(self.units, self.task, self.rate, self.weight)

    @property
    def sealed(self) -> bool:
        """Whether no page follows."""
        return True

    def _check_then(self) -> None:
        if self.then is None:
            return
        if not self.then.sealed:
            raise BadBatch("A batch that follows another must be sealed.", field="then.sealed")
        size_bytes = len(json_text(self.then.to_request()))
        bytes_max = LIMITS.then_payload_bytes_max if are_payloads_stored() else LIMITS.then_bytes_max
        if size_bytes > bytes_max:
            limit = f"The batches that follow have at most {bytes_max:,} bytes"
            raise TooLarge(f"{limit}; these have {size_bytes:,}.{larger_values()}", field="then")

    @classmethod
    def parse(cls, body: Mapping[str, Any], at: str = "") -> Self:
        """Parse the definition at a place in a request. Raises a `Problem`."""
        request = RequestFields(body, BadBatch, at).only(*(field.name for field in fields(cls)))
        then = request.value("then", default=None)
        if not isinstance(then, dict | None):
            raise request.refuse("then", "`then` must be an object that defines the batch that follows.")
        request.items("units", default=())
        for name in ("semaphore", "rate"):
            request.text(name, "")
        before = f"{at}." if at else ""
        values = {name: value for name, value in body.items() if value is not None}
        calls = {name: Call.from_request(values[name], f"{before}{name}") for name in CALLS if name in values}
        follows = {} if then is None else {"then": BatchFollowing.parse(then, f"{before}then")}
        return cls(**values | calls | follows)

    @staticmethod
    def from_then(text: str) -> "BatchFollowing":
        """Parse the batch that follows from the header of the one before.

        Raises `NewerFormat` for one that this release refuses: the release that stored it had accepted it. Raises
        `PayloadUnread` if its units cannot be read.
        """
        definition = opened_definition(text)
        try:
            return BatchFollowing.parse(definition)
        except Problem as refused:
            detail = f"Another release of signalbox stored the batch that follows: {refused.detail}"
            raise NewerFormat(f"{detail} Deploy that release to batch_expand, too.") from refused

    def to_request(self) -> dict[str, Any]:
        """Return the body that defines this batch as one that follows: without an id, and sealed."""
        calls = {name: call.to_request() for name in CALLS if (call := getattr(self, name)) is not None}
        numbers = {name: getattr(self, name) for name in ("failures_max", "deadline_seconds", "concurrency")}
        then = None if self.then is None else self.then.to_request()
        return {
            "units": list(self.units),
            **calls,
            **numbers,
            **given(then=then, semaphore=self.semaphore or None, per_task=self.per_task or None),
            **({"rate": self.rate, "weight": self.weight} if self.rate else {}),
        }

    def calls(self, at: str = "") -> dict[str, Call]:
        """Return the calls at the end of this batch and of those that follow it, by their places in the request."""
        own = {f"{at}{name}": call for name in CALLS[1:] if (call := getattr(self, name)) is not None}
        return own | (self.then.calls(f"{at}then.") if self.then else {})

    def unit_calls(self, at: str = "") -> dict[str, Call]:
        """Return the calls of the units of this batch and of those that follow it, by their places in the request."""
        own = {} if self.task is None else {f"{at}task": self.task}
        return own | (self.then.unit_calls(f"{at}then.") if self.then else {})

    def check_arguments(self, at: str = "") -> None:
        """Check the arguments of all units of this batch and of those that follow it. Raises `BadArgument`."""
        check_unit_arguments(self.units, self.task, at)
        if self.then is not None:
            self.then.check_arguments(f"{at}then.")

    def stored_then(self, place: Place, outgoing: Outgoing) -> str:
        """Return the batch that follows as the header contains it. `outgoing` collects large units.

        Raises `TooLarge`.
        """
        return "" if self.then is None else claimed_definition(self.then.to_request(), place, outgoing)

    def header(
        self, incarnation: str, first_pages: int, parent: PlacedUnit | None, now: datetime, then: str = ""
    ) -> Header:
        """Return the header of a batch whose creating call loads `first_pages` pages; its work is the unit `parent`.

        `then` is the result of `stored_then`.
        """
        deadline_at = now + timedelta(seconds=self.deadline_seconds)
        idle_at = now + timedelta(seconds=LIMITS.batch_idle_seconds)
        return Header(
            incarnation=incarnation,
            digest=self.digest(),
            deadline_at=deadline_at,
            due_at=deadline_at if parent is None else min(deadline_at, idle_at),
            first_pages=first_pages,
            settings=self.kept,
            then=then,
            parent=parent,
        )

    def digest(self) -> str:
        """Return a hash of the definition. The same definition under the same id is a repeat."""
        calls = [_canonical(self.task), _canonical(self.on_complete)]
        options = {
            "concurrency": self.concurrency,
            "then": self.then and self.then.digest(),
            "on_failure": _canonical(self.on_failure),
            "semaphore": self.semaphore,
            "per_task": self.per_task,
            "rate": [self.rate, self.weight] if self.rate else None,
        }
        chosen = [{name: value for name, value in options.items() if value}]
        numbers = [self.sealed, self.failures_max, self.deadline_seconds]
        return digest(list(self.units), *calls, *numbers, *filter(None, chosen))


def check_batch_id(batch: str) -> str:
    """Return the id. Raises `BadKey` if no batch can have it."""
    if not valid_key(batch):
        limit = f"{CORE_LIMITS.key_bytes_max:,} bytes of UTF-8"
        raise BadKey(f"A batch's id is a key of 1 to {limit}, without '/'.", field="id")
    return batch


def check_chosen_id(batch: str) -> str:
    """Return the id that a caller chooses for a new batch. Raises `BadKey`, also for an id that only the kit makes."""
    return BATCH_IDS.check_chosen(check_batch_id(batch))


def check_is_of_callers(batch: str) -> str:
    """Return the id of a batch to which callers may add pages. Raises `BatchSealed` for one that the kit makes."""
    if BATCH_IDS.is_derived(batch):
        raise BatchSealed(f"The kit makes {batch!r} with all of its units, and seals it.", field="id")
    return batch


def _check_requested_id(id_: Any) -> str:
    if not isinstance(id_, str):
        raise BadKey("`id` must be a string.", field="id")
    return check_chosen_id(id_)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec(BatchFollowing):
    """The definition of a batch. `units` are payloads; without `task` they are completed from outside."""

    id: Annotated[str | None, Checked(_check_requested_id, KEY.schema())] = field(default=None, compare=False)
    """The id of the batch. Without one, it is the `Idempotency-Key`, or a new one."""

    sealed: bool = False
    """No page follows."""

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse the body of a call that creates a batch. Raises a `Problem`."""
        if _stages(body) > LIMITS.then_stages_max:
            raise BadBatch(f"At most {LIMITS.then_stages_max} batches follow each other.", field="then")
        return cls.parse(body)


def _stages(body: Mapping[str, Any]) -> int:
    """Count the batches that follow each other in a request, before any of them is parsed."""
    stages, follows = 0, body.get("then")
    while isinstance(follows, dict):
        stages, follows = stages + 1, follows.get("then")
    return stages


def _canonical(call: Call | None) -> dict[str, Any] | None:
    return None if call is None else {**call.to_request(), "delay_seconds": float(call.delay_seconds)}


def check_units(units: Sequence[Any], task: Call | None, units_max: int) -> None:
    """Check that units are not too many or too large, and that the task can execute them. Raises a `Problem`."""
    if len(units) > units_max:
        raise TooLarge(f"At most {units_max:,} units are allowed; these are {len(units):,}.", field="units")
    task_bytes = bytes_beside_unit(task)
    for index, unit in enumerate(units):
        if task is not None and not isinstance(unit, dict):
            raise BadBatch(
                "A unit of a batch with a task must be an object: the task's arguments.", field=f"units[{index}]"
            )
        if task_bytes + len(json_text(unit)) > (bytes_max := value_bytes_max(CORE_LIMITS.task_bytes_max)):
            limit = f"A unit has at most {bytes_max:,} bytes.{larger_values()}"
            raise TooLarge(limit, field=f"units[{index}]")


def check_weights(units: Sequence[Any], task: Call | None, rate: str, weight: int | str) -> None:
    """Check the argument of each unit that has its number of permits, if `weight` names one. Raises `BadBatch`."""
    if task is None or not rate or not isinstance(weight, str):
        return
    for index, unit in enumerate(units):
        check_weight({**task.payload, **unit}.get(weight), f"units[{index}].{weight}")


def check_unit_arguments(units: Sequence[Any], task: Call | None, at: str = "") -> None:
    """Check the names of units' arguments, if the catalogue has the arguments of the task. Raises `BadArgument`."""
    known = declared_parameters()
    if task is None or task.task not in known.get(task.function, ()):
        return
    for index, unit in enumerate(units):
        check_arguments(known, replace(task, payload={**task.payload, **unit}), f"{at}units[{index}]")


# --- requests on one batch ---


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page to add. Raises `BadBatch` if the number is invalid or the page has no unit."""

    page: Annotated[int, Range(0, NUMBER_MAX)]

    units: Annotated[Sequence[UnitPayload], Described({"minItems": 1, "maxItems": LIMITS.page_units_max})]

    def __post_init__(self) -> None:
        check_fields(self, BadBatch)
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
        settings = header.settings
        check_units(self.units, settings.task, LIMITS.page_units_max)
        check_unit_arguments(self.units, settings.task)
        check_weights(self.units, settings.task, settings.rate, settings.weight)
        if len(cut(self.units)) > 1:
            raise TooLarge(f"A page has at most {LIMITS.page_bytes_max:,} bytes. Split these units.", field="units")


@dataclass(frozen=True, slots=True)
class SealRequest(RequestBody):
    """The seal of a batch at a number of pages. Raises `BadBatch`."""

    problem = BadBatch

    pages: Annotated[int, Range(0, NUMBER_MAX)]


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """The failed units to retry. Raises `BadBatch` or `TooLarge`."""

    units: Annotated[
        Sequence[Annotated[int, Range(0, NUMBER_MAX)]] | None, Described({"maxItems": LIMITS.retry_units_max})
    ] = None
    """The indexes of the units; by default all failed units."""

    payload: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that change, merged over those of each unit, for this attempt.

    They have at most 100 KiB, or 32 MiB with `payloads: true`.
    """

    def __post_init__(self) -> None:
        if len(self.units or ()) > LIMITS.retry_units_max:
            limit = f"At most {LIMITS.retry_units_max:,} units can be named."
            raise TooLarge(f"{limit} Leave `units` out to retry all failed units.", field="units")
        for index in self.units or ():
            RequestFields({"units": index}, BadBatch).integer("units", 0, NUMBER_MAX)
        if not isinstance(self.payload, dict):
            raise BadBatch("`payload` must be an object: the arguments to change.", field="payload")
        if len(json_text(self.payload)) > (bytes_max := value_bytes_max(CORE_LIMITS.task_bytes_max)):
            raise TooLarge(f"A payload has at most {bytes_max:,} bytes.{larger_values()}", field="payload")

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse ``{"units"?: [index…], "payload"?: {…}}``. Raises `BadBatch` or `TooLarge`."""
        fields = RequestFields(body, BadBatch).only("units", "payload")
        return cls(fields.items("units", default=None), fields.value("payload", default={}))


# --- queries ---

STATES = get_args(ShownState)


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
