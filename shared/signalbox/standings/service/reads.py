"""Read a standing, and begin walks and recounts."""

from signalbox.core.ports import Ports
from signalbox.standings import machine
from signalbox.standings.machine import RECOUNT_ATTEMPTS_MAX, recount_task
from signalbox.standings.model.aggregates import Standing, StandingView
from signalbox.standings.model.declarations import Declarations
from signalbox.standings.model.yokes import DECLARED, YOKES, StandingKey
from signalbox.standings.service.declarations import read_declarations
from signalbox.standings.storage import pending


def get_standing(ports: Ports, key: StandingKey) -> StandingView:
    """Return a standing, which is zero if nothing was counted. Raises `NoStanding` for an unknown kind.

    The pending adjustments are counted before the standing is read, so the standing includes all other adjustments.
    """
    behind = pending(ports.store, key)
    declared, read = ports.store.read(DECLARED, key.path)
    Declarations.from_record(declared.data).check(key.kind)
    return StandingView(key, Standing.from_record(read.data), behind)


def begin_walk(ports: Ports, run: str) -> None:
    """Enqueue a walk that counts all yokes, in case an event was lost, and then recounts all standings.

    A repeated call with the same run enqueues nothing.
    """
    ports.queue.create([machine.work_task("walk", run, collection=YOKES, cursor="", whole=True)])


def begin_recount(ports: Ports, run: str, key: StandingKey) -> None:
    """Enqueue a recount of one standing, even if its record cannot be read. Raises `NoStanding` for an unknown kind."""
    read_declarations(ports).check(key.kind)
    ports.queue.create([recount_task(run, key, "", RECOUNT_ATTEMPTS_MAX)])
