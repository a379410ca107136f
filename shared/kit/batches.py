"""A batch, as a function of a user's own speaks of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import deployed
from shared.batches.operations import batches as operations
from shared.batches.rules.requests import Order, check_units, cut
from shared.core.operations.ports import Ports
from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadBatch

Status = Mapping[str, Any]
"""``{"id", "state", "size", "done", "failed"}``; `state` is open, sealed, completed or cancelled."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Units of work under one id, and one announcement when all are done."""

    id: str

    def populate(
        self,
        calls: Iterable[Call],
        *,
        on_complete: Call | None = None,
        failures_max: int | None = None,
        deadline_seconds: int = LIMITS.batch_deadline_seconds,
    ) -> Status:
        """Load a batch with a unit a call, all of one task, and say that there are no more.

        Said again with the same calls it changes nothing. Raises `OtherBody` if the id stands for another batch,
        `BadBatch` or `TooLarge` for calls that no batch can hold.
        """
        units = list(calls)
        order = Order(
            task=_task_of(units),
            on_complete=None if on_complete is None else deployed(on_complete, "on_complete"),
            failures_max=failures_max,
            deadline_seconds=deadline_seconds,
        )
        return _load(runtime.ports(), self.id, order, [dict(call.payload) for call in units])

    def status(self) -> Status:
        """Tell how far it is. Raises `NotFound`."""
        return operations.get(runtime.ports(), self.id).batch

    def cancel(self) -> Status:
        """End it as it is: what has not begun will not begin. Raises `NotFound`."""
        return operations.cancel(runtime.ports(), self.id).batch


def batch(id: str) -> Batch:  # noqa: A002  the word of the HTTP API
    """Return the batch of that id, which need not exist yet."""
    return Batch(id)


SubBatch = Order
"""What a unit's task returns whose result is to be that of units of its own."""


def sub_batch(calls: Iterable[Call], *, on_complete: Call | None = None, failures_max: int | None = None) -> SubBatch:
    """Give a unit units of its own: return this from its task, and it is done when they are.

    Its result is how that batch has ended. Raises `BadBatch` or `TooLarge` for calls that no batch can hold.
    """
    units = list(calls)
    order = Order(
        units=[dict(call.payload) for call in units],
        task=_task_of(units),
        on_complete=None if on_complete is None else deployed(on_complete, "on_complete"),
        sealed=True,
        failures_max=failures_max,
    )
    check_units(order.units, order.task)
    return order


def _task_of(units: list[Call]) -> Call | None:
    kinds = {(call.function, call.task, call.queue, call.delay_seconds) for call in units}
    if len(kinds) > 1:
        raise BadBatch("The units of a batch are calls of one task, through one queue.", field="units")
    return replace(deployed(units[0], "task"), payload={}) if units else None


def _load(ports: Ports, batch: str, order: Order, units: list[dict[str, Any]]) -> Status:
    """Send all in one call where it fits, else page by page: each of them can be repeated."""
    if len(units) <= LIMITS.call_units_max:
        return operations.populate(ports, batch, replace(order, units=units, sealed=True)).batch
    pages = cut(units)
    operations.populate(ports, batch, order)
    for number, page in enumerate(pages):
        operations.add_page(ports, batch, number, page)
    return operations.seal(ports, batch, len(pages)).batch
