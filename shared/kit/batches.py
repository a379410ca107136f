"""Batches, for a user's own functions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import deployed
from shared.batches.operations import batches as operations
from shared.batches.operations.whole_batches import populate_whole
from shared.batches.rules.requests import BatchSpec
from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadBatch
from shared.tasks.operations import errors

Status = Mapping[str, Any]
"""``{"id", "state", "size", "succeeded", "failed", "remaining"}``; `state` is open, sealed, completed or cancelled."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Units of work under one id, and one completion task when all of them have an outcome."""

    id: str

    def populate(
        self,
        calls: Iterable[Call],
        *,
        on_complete: Call | None = None,
        failures_max: int | None = None,
        deadline_seconds: int = LIMITS.batch_deadline_seconds,
        concurrency: int | None = None,
        queues: Sequence[str] = (),
    ) -> Status:
        """Create the batch, sealed, with a unit for each call; all are calls of one task.

        At most `concurrency` units run at once; the others wait, at no cost. They go through
        `queues` in turn, if some are named.

        A repeat with the same calls is a no-op. Raises `OtherBody` if the id is used with other calls, `BadBatch` or
        `TooLarge` for calls that no batch can hold.
        """
        units = list(calls)
        spec = BatchSpec(
            task=_task_of(units, queues),
            on_complete=None if on_complete is None else deployed(on_complete, "on_complete"),
            failures_max=failures_max,
            deadline_seconds=deadline_seconds,
            concurrency=concurrency if units else None,
            queues=tuple(queues) if units else (),
        )
        return populate_whole(runtime.ports(), self.id, spec, _payloads(units)).to_json()

    def status(self) -> Status:
        """Return the state and counts; `last_error` while a unit that raised is being retried. Raises `NotFound`."""
        status = operations.get(runtime.ports(), self.id)
        return status.to_json() | (errors.of_batch(runtime.ports(), self.id) if status.runs else {})

    def cancel(self) -> Status:
        """End the batch: units that have not started do not run. Raises `NotFound`."""
        return operations.cancel(runtime.ports(), self.id).to_json()


def batch(id: str) -> Batch:  # noqa: A002  the word of the HTTP API
    """Return the batch of that id, which need not exist yet."""
    return Batch(id)


SubBatch = BatchSpec
"""What a unit's task returns to have units of its own: the unit's result is how they end."""


def sub_batch(
    calls: Iterable[Call],
    *,
    on_complete: Call | None = None,
    failures_max: int | None = None,
    concurrency: int | None = None,
) -> SubBatch:
    """Return the units of a unit: return this from its task, and it is completed when they are.

    Its result is the status of that batch. At most `concurrency` of them run at once. Raises `BadBatch` or `TooLarge`
    for calls that no batch can hold.
    """
    units = list(calls)
    return BatchSpec(
        units=_payloads(units),
        task=_task_of(units),
        concurrency=concurrency if units else None,
        on_complete=None if on_complete is None else deployed(on_complete, "on_complete"),
        sealed=True,
        failures_max=failures_max,
    )


def _payloads(calls: Sequence[Call]) -> list[dict[str, Any]]:
    return [dict(call.payload) for call in calls]


def _task_of(units: Sequence[Call], queues: Sequence[str] = ()) -> Call | None:
    kinds = {(call.function, call.task, call.queue, call.delay_seconds) for call in units}
    if len(kinds) > 1:
        raise BadBatch("All units of a batch must be calls of one task, through one queue.", field="units")
    for queue in queues if units else ():
        deployed(replace(units[0], queue=queue), "queues")
    return replace(deployed(units[0], "task"), payload={}) if units else None
