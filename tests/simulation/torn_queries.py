"""Queries as Firestore's emulator answers them: not at one instant, so a header may be newer than the messages."""

from __future__ import annotations

from dataclasses import replace

from signalbox.core.ports import Query, Snapshot
from signalbox.mailboxes.model.messages import HEADER
from tests.simulation.faulty_ports import SimulatedStore


class TornStore(SimulatedStore):
    """A store whose queries read a mailbox's header behind its messages."""

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        """Return the result of a query, with the header of a later time."""
        found = super().query(query)
        if not found or found[0].id != HEADER:
            return found
        [later] = self.read(found[0].path)
        return (replace(later, read_time=found[0].read_time), *found[1:])
