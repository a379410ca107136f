"""The sweeper's part: it runs the admit runs whose task was lost.

A rate with waits has the time of its next admit run. A purge may also take the run that would have seen the first wait,
or that a cancel or a change of the limits made necessary before that time. So a rate is visited once an hour. Each run
moves `sweep_at`, the time of the visit, past now. So rates that are due are visited one after the other, the longest
due first.
"""

from signalbox.core.due_records import due_records, postpone
from signalbox.core.ports import Budget, Conflict, Ports, unlimited
from signalbox.core.problems import Problem, Unavailable
from signalbox.rates import service
from signalbox.rates.limits import LIMITS
from signalbox.rates.model import COLLECTION


def sweep(ports: Ports, budget: Budget = unlimited) -> int:
    """Run the admit runs that are due and have not run; return their number."""
    visits = 0
    for snapshot in due_records(ports.store, COLLECTION, "sweep_at", LIMITS.rates_page_max, budget()):
        try:
            service.admit(ports, snapshot.id)
        except (Conflict, Unavailable, Problem) as error:
            ports.log.info("rate left to a later sweep", rate=snapshot.id, reason=str(error))
        except Exception as error:  # noqa: BLE001  a record that cannot be read must not keep the sweeper from the others
            ports.log.error("rate cannot be swept", rate=snapshot.id, exception=error)
            postpone(ports, snapshot, "sweep_at")
        visits += 1
    return visits
