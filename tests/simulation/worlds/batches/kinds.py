"""The kinds of worlds of batches, and their limits, so small that a dozen units make a tree with all levels."""

from __future__ import annotations

from dataclasses import dataclass

from signalbox.core.calls import Call
from tests.simulation.world import SWEEP_SECONDS

SMALL_LIMITS = {
    "counter_units_max": 2,
    "node_children_max": 2,
    "page_units_max": 3,
    "units_listed_max": 2,
    "clean_records_max": 4,
    "walk_nodes_max": 3,
    "look_again_seconds": 2 * SWEEP_SECONDS,  # so that the sweeper may run in between
}

SHORT_DEADLINE_SECONDS = 30

PAINT = Call("painter", "paint", {})
ANNOUNCE = Call("painter", "announce", {})
ALARM = Call("painter", "alarm", {})


@dataclass(frozen=True, slots=True)
class Kind:
    """The settings of a world; each kind makes other races likely.

    `paged` worlds load page by page, and race the seal. Units `from_outside` are completed by callers that do not retry
    a successful call. `failing` units fail at first and are retried. `cancelled` batches are cancelled at some time.
    `removed` ones are removed, and their id is used again while old tasks are still delivered. In `nested` worlds the
    first unit is a sub-batch. `hurried` ones reach their deadline, without some units or just with the last. In
    `walked` worlds the sweeper walks while units are completed.
    """

    units_max: int
    paged: bool = False
    from_outside: bool = False
    failing: bool = False
    cancelled: bool = False
    removed: bool = False
    nested: bool = False
    hurried: bool = False
    walked: bool = False
    failures_max: int | None = None

    @property
    def calm(self) -> bool:
        """Whether units run once each and the batch ends by its last one."""
        others = (self.failing, self.cancelled, self.removed, self.nested, self.hurried)
        return not (self.from_outside or any(others))


KINDS = (
    Kind(3),
    Kind(9),
    Kind(16),
    Kind(9, paged=True),
    Kind(6, paged=True, failing=True),
    Kind(5, from_outside=True),
    Kind(9, from_outside=True, paged=True),
    Kind(6, from_outside=True, hurried=True),
    Kind(4, hurried=True),
    Kind(9, walked=True),
    Kind(6, walked=True, failing=True, failures_max=1),
    Kind(6, failing=True),
    Kind(6, failing=True, failures_max=1),
    Kind(6, cancelled=True),
    Kind(4, removed=True),
    Kind(1, removed=True),
    Kind(1, removed=True),
    Kind(5, removed=True, cancelled=True),
    Kind(4, nested=True),
    Kind(3, nested=True, cancelled=True),
)
