"""Read a standing, declare the kinds of standings, and begin walks and recounts."""

from typing import Any

from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Ports, Put, Snapshot
from signalbox.core.record_values import same
from signalbox.standings import machine
from signalbox.standings.machine import RECOUNT_ATTEMPTS_MAX, recount_task
from signalbox.standings.model.standings import Declaration, Declarations, Standing
from signalbox.standings.model.yokes import DECLARED, YOKES, StandingKey
from signalbox.standings.storage import pending


@dataclass(frozen=True, slots=True)
class ShownStanding:
    """A standing, and the number of its adjustments that are committed but not added yet. 0 means exact."""

    key: StandingKey
    standing: Standing
    pending: int

    def to_json(self) -> dict[str, Any]:
        """Return the standing as callers get it."""
        return self.standing.shown(self.key) | {"pending": self.pending}


def get_standing(ports: Ports, key: StandingKey) -> ShownStanding:
    """Return a standing, which is zero if nothing was counted. Raises `NoStanding` for an unknown kind.

    Adjustments are counted before the standing is read, so those that are not pending are included in it.
    """
    behind = pending(ports.store, key)
    declared, read = ports.store.read(DECLARED, key.path)
    Declarations.from_record(declared.data).check(key.kind)
    return ShownStanding(key, Standing.from_record(read.data), behind)


def begin_walk(ports: Ports, run: str) -> None:
    """Enqueue a walk that counts all yokes, in case an event was lost, and then recounts all standings.

    A repeated call with the same run enqueues nothing.
    """
    ports.queue.create([machine.work_task("walk", run, collection=YOKES, cursor="", whole=True)])


def begin_recount(ports: Ports, run: str, key: StandingKey) -> None:
    """Enqueue a recount of one standing, also of one that cannot be read. Raises `NoStanding` for an unknown kind."""
    read_declarations(ports).check(key.kind)
    ports.queue.create([recount_task(run, key, "", RECOUNT_ATTEMPTS_MAX)])


# --- kinds ---


def read_declarations(ports: Ports) -> Declarations:
    return Declarations.from_record(ports.store.read(DECLARED)[0].data)


def declare(ports: Ports, kind: str, declaration: Declaration) -> Declarations:
    """Declare a kind of standing, and count all yokes again if the declaration is new. Raises `BadStanding`."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Declarations]:
        current = Declarations.from_record(read[0].data)
        held = current.kinds.get(kind)
        if held is not None and same(held.to_record(), declaration.to_record()):
            return Decision((), current)
        return _redeclared(read[0], current.declare(kind, declaration))

    return perform(ports, [DECLARED], decide)[0]


def remove_kind(ports: Ports, kind: str) -> Declarations:
    """Remove a kind; a walk subtracts all yokes from its standings. Raises `NoStanding` or `BadStanding`."""
    return perform(
        ports,
        [DECLARED],
        lambda read: _redeclared(read[0], Declarations.from_record(read[0].data).remove(kind)),
    )[0]


def _redeclared(read: Snapshot, changed: Declarations) -> Decision[Writes, Declarations]:
    """Return the commit of changed declarations, with the walk that counts all yokes by them."""
    walk = machine.work_task("walk", f"revision {changed.revision}", collection=YOKES, cursor="")
    return Decision((Put(DECLARED, changed.to_record(), read.guard),), changed, (walk,))
