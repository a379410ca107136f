"""A batch is removed, its id is used again, and tasks of the first run are delivered once more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from signalbox.batches.limits import LIMITS
from signalbox.batches.requests import BatchSpec
from signalbox.batches.sweep import sweep as sweep_batches
from signalbox.core.effects import Effect
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.worlds.batches.world import BatchesWorld


def run_again_after_removal(batches: BatchesWorld) -> None:
    """Remove the first run while its tasks are redelivered, and run the second to its end. Raises `Violation`."""
    world, checks = batches.world, batches.checks
    world.fault_rates.left = 3
    late = world.random.sample(batches.unit_tasks, min(2, len(batches.unit_tasks)))
    for task in late:
        batches.deliveries[task.name] = 0  # as if the queue had kept it all the time
    world.pass_time(LIMITS.batch_keep_seconds + LIMITS.batch_deadline_seconds)
    earlier = checks.header("b")
    spec = batches.callers.spec(world.random.randint(1, 4), sealed=True)
    checks.completion_tasks.clear()
    world.run(_removing(batches, late, spec))
    world.fault_rates.left = 0
    for _ in range(3):
        batches.sweep_later(LIMITS.batch_idle_seconds, sweep_batches)
    present = checks.header("b")
    if present is not None and earlier is not None and present.incarnation == earlier.incarnation:
        raise Violation("a batch that ended long ago was not removed")
    checks.check_no_earlier_run_left()
    world.fault_rates.left = 3
    batches.callers.populate(spec, "populates again")
    world.run(_delivering(batches, late))
    batches.come_to_rest()


def _removing(batches: BatchesWorld, late: list[Effect], spec: BatchSpec) -> list[Callable[[], None]]:
    """Return sweeps, deliveries of the first run, and a caller that uses the id again, in random order."""
    random = batches.world.random
    again = _delivering(batches, late)
    sweeps: list[Callable[[], None]] = [partial(_sweep_a_minute_later, batches)] * 3
    if random.random() < 0.5:
        return [*sweeps[:1], partial(batches.callers.populate_when_free, spec), *sweeps[1:], *again]
    return [*again, *sweeps] if random.random() < 0.5 else [*sweeps, *again]


def _delivering(batches: BatchesWorld, late: list[Effect]) -> list[Callable[[], None]]:
    return [partial(batches.world.tasks.append, task) for task in late]


def _sweep_a_minute_later(batches: BatchesWorld) -> None:
    batches.world.pass_time(LIMITS.batch_idle_seconds)
    batches.start_sweep(sweep_batches)
