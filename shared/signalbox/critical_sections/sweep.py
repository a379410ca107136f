"""The sweeper's part: it wakes critical sections whose task was lost.

While a section is in use, its record has `sweep_at`, the time at which the task that it waits for counts as lost. A
visit grants a run, which moves that time past now.
"""

from signalbox.core.due_records import due_records, postpone
from signalbox.core.ports import Budget, Conflict, Ports, unlimited
from signalbox.core.problems import Problem, Unavailable
from signalbox.critical_sections import service
from signalbox.critical_sections.limits import LIMITS
from signalbox.critical_sections.model import COLLECTION


def sweep(ports: Ports, budget: Budget = unlimited) -> int:
    """Wake the critical sections whose task is lost; return the number of visits."""
    visits = 0
    for snapshot in due_records(ports.store, COLLECTION, "sweep_at", LIMITS.sections_sweep_page, budget()):
        try:
            service.wake_lost(ports, snapshot.id)
        except (Conflict, Unavailable, Problem) as error:
            ports.log.info("critical section left to a later sweep", key=snapshot.id, reason=str(error))
        except Exception as error:  # noqa: BLE001  a record that cannot be read must not keep the sweeper from the others
            ports.log.error("critical section cannot be swept", key=snapshot.id, exception=error)
            postpone(ports, snapshot, "sweep_at")
        visits += 1
    return visits
