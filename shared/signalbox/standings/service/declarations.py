"""Declare and remove kinds of standings. Each change starts a walk that counts all yokes again."""

from signalbox.core.effects import Decision
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Ports, Put, Snapshot
from signalbox.core.records.record_values import same
from signalbox.standings import machine
from signalbox.standings.model.declarations import Declaration, Declarations
from signalbox.standings.model.yokes import DECLARED, YOKES


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
