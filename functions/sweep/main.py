"""Once a minute: complete the work that crashed processes left."""

from contextlib import ExitStack, suppress

from signalbox.adapters.deployed_catalogue import read_parameters
from signalbox.adapters.http.task_deliveries import schedule_entry
from signalbox.adapters.settings import settings
from signalbox.adapters.system_clock import time_budget
from signalbox.batches import sweep as batches_sweep
from signalbox.core import outbox
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports
from signalbox.core.problems import Unavailable
from signalbox.critical_sections import sweep as sections_sweep
from signalbox.flows import sweep as flows_sweep
from signalbox.objects import sweep as objects_sweep
from signalbox.payloads import sweep as payloads_sweep
from signalbox.rates import sweep as rates_sweep
from signalbox.semaphores import sweep as semaphores_sweep

SWEEPS = {
    "batches": (batches_sweep.sweep,),
    "semaphores": (semaphores_sweep.sweep, rates_sweep.sweep, sections_sweep.sweep),
    "flows": (flows_sweep.sweep,),
}
"""The sweeps of the kit's parts that a project may lack (`signalbox.catalogue.parts`)."""


@schedule_entry("sweep")
def sweep(ports: Ports) -> None:
    budget = time_budget(LIMITS.sweep_part_seconds)
    with suppress(Unavailable):
        read_parameters()  # a batch at its deadline may notify a user's function
    deployed = settings().parts
    with ExitStack() as parts:  # all parts run, the last first, even if one raises
        if deployed is None or "objects" in deployed:
            parts.callback(objects_sweep.sweep, ports, settings().object_classes, budget)
        for name, sweeps in SWEEPS.items():
            for part in sweeps if deployed is None or name in deployed else ():
                parts.callback(part, ports, budget)
        parts.callback(payloads_sweep.sweep, ports, budget)
        parts.callback(outbox.sweep, ports, budget)
