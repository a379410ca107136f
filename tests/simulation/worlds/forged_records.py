"""Worlds whose records an attacker rewrites: no task that the catalogue lacks may come out of any record.

Any function of a database may write all of its records, also those out of which other functions enqueue tasks:
records of the outbox, waits, units, calls, runs and their commands. Each seed runs another world, with its operations,
crashes and sweeps, and a forger (`forgeries.py`). That world's properties do not hold for forged records, so a seed
that violates one of them just ends.
"""

from collections.abc import Callable
from random import Random

from tests.simulation.forgeries import ForgedTask, forging
from tests.simulation.world import Violation
from tests.simulation.worlds import failures, rates, sections
from tests.simulation.worlds.batches import world as batches
from tests.simulation.worlds.flows import world as flows
from tests.simulation.worlds.notices import world as notices
from tests.simulation.worlds.objects import world as objects
from tests.simulation.worlds.semaphores import world as semaphores

FORGED = (batches.run, failures.run, flows.run, notices.run, objects.run, rates.run, sections.run, semaphores.run)


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world with a forger. Raises `Violation` when a forged name reaches the queue."""
    world = Random(f"forged {seed}").choice(FORGED)
    try:
        with forging(seed):
            world(seed, trace)
    except ForgedTask as error:
        raise Violation(str(error)) from error
    except (Violation, Exception) as error:  # noqa: BLE001 (of the world, which holds for honest records)
        if trace:
            trace(f"ends: {type(error).__name__}")
