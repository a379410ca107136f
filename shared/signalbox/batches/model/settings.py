"""The settings of a batch, as requests, its header, the Python API and the description of the HTTP API have them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Self

from signalbox.batches.limits import LIMITS
from signalbox.batches.problems import BadBatch
from signalbox.core.calls import Call
from signalbox.core.keys import valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.surface.field_rules import Described, Range, check_fields, key_schema, unchecked

NUMBER_MAX = 10**9
"""The largest number of a page, a unit, or tolerated failures: more than any batch contains."""

CALLS = ("task", "on_complete", "on_failure")
"""The settings that are calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """The settings that a batch keeps.

    Raises `BadBatch` naming the field that is wrong and its allowed values.
    """

    task: Call | None = None
    """The task that executes each unit; without one, units are completed from outside."""

    on_complete: Call | None = None
    """The call after every end of the batch."""

    failures_max: Annotated[int | None, Range(0, NUMBER_MAX)] = None
    """The batch ends early if more units than this have failed; by default it does not."""

    concurrency: Annotated[int | None, Range(1, lambda: LIMITS.concurrency_max)] = None
    """The number of units that run at once; the others wait, and nothing fails. For a batch with a `task`."""

    on_failure: Call | None = None
    """The call if this batch, or one that follows it without an `on_failure`, does not succeed."""

    semaphore: Annotated[str, Described(key_schema(CORE_LIMITS.key_bytes_max))] = ""
    """The semaphore under whose permits the units run, one permit for each unit. For a batch with a `task`."""

    per_task: Annotated[int | None, Range(2, lambda: LIMITS.page_units_max)] = None
    """The number of units that one task runs, one after another; `concurrency` then limits these tasks. Not with a
    `semaphore`."""

    rate: Annotated[str, Described(key_schema(CORE_LIMITS.key_bytes_max))] = ""
    """The rate whose permits each unit takes when it starts. For a batch with a `task`, without `semaphore`. With
    `per_task`, a task takes the permits of all its units, at most the burst."""

    weight: Annotated[int | str, Described({"minimum": 1, "maximum": CORE_LIMITS.burst_max, "minLength": 1})] = 1
    """The number of permits of the `rate` that each unit takes, or the name of the argument that has the number."""

    def __post_init__(self) -> None:
        check_fields(self, BadBatch)
        self._check_dispatch()
        self._check_rate()

    def _check_dispatch(self) -> None:
        if self.semaphore and not valid_key(self.semaphore):
            raise BadBatch("`semaphore` must be the name of a semaphore.", field="semaphore")
        for name in ("concurrency", "semaphore", "rate", "per_task"):
            if getattr(self, name) and self.task is None:
                raise BadBatch(f"`{name}` needs a `task`: without one, units are completed from outside.", field=name)
        if self.per_task and self.semaphore:
            raise BadBatch(
                "A permit is for one unit, and with `per_task` a task runs several. Leave one of the two out; "
                "`concurrency` also limits how many run at once.",
                field="per_task",
            )

    def _check_rate(self) -> None:
        if self.rate and not valid_key(self.rate):
            raise BadBatch("`rate` must be the name of a rate.", field="rate")
        if self.rate and self.semaphore:
            raise BadBatch(
                "A unit waits for a `rate` or for a `semaphore`, not for both. Leave one of the two out; `concurrency` "
                "also limits how many units run at once.",
                field="rate",
            )
        if not self.rate and self.weight != 1:
            raise BadBatch("`weight` is the number of permits of a `rate`: add one, or leave it out.", field="weight")
        if not isinstance(self.weight, str) or not self.weight:
            check_weight(self.weight, "weight")

    @property
    def kept(self) -> "BatchSettings":
        """These settings alone, as the batch's header holds them."""
        return unchecked(BatchSettings, {name: getattr(self, name) for name in NAMES})

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the settings in a header's record, which were checked before they were stored."""
        calls = {name: call and Call.from_record(call) for name in CALLS for call in [record.get(name)]}
        stored = {name: record.get(name, default) for name, default in _DEFAULTS.items()}
        return unchecked(cls, stored | calls)

    def to_record(self) -> dict[str, Any]:
        """Return the fields for a header's record. Only batches with a semaphore, a rate or groups have these."""
        stored = {name: getattr(self, name) for name in NAMES}
        calls = {name: call and call.to_record() for name in CALLS for call in [stored[name]]}
        absent = {name for name in ("semaphore", "per_task", "rate") if not stored[name]}
        absent |= set() if self.rate else {"weight"}
        return {name: value for name, value in (stored | calls).items() if name not in absent}


_DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(BatchSettings)}
NAMES = tuple(_DEFAULTS)


def check_weight(weight: Any, field: str) -> None:
    """Check the number of permits that a unit takes. Raises `BadBatch`."""
    if type(weight) is not int or not 1 <= weight <= CORE_LIMITS.burst_max:
        detail = f"must be an integer from 1 to {CORE_LIMITS.burst_max:,}: the permits that a unit takes of the `rate`"
        argument = ", or the name of the argument that has it" if field == "weight" else ""
        raise BadBatch(f"`{field}` {detail}{argument}.", field=field)
