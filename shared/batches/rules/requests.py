"""The requests on batches, as HTTP and the kit build them. Each type checks itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from shared.batches.rules.batch_spec import NUMBER_MAX, check_units
from shared.batches.rules.pages import cut, json_text
from shared.core.rules.calls import Call
from shared.core.rules.keys import valid_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadBatch, BadKey, TooLarge
from shared.core.rules.request_fields import RequestFields


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
        check_units(self.units, task, LIMITS.page_units_max)
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
