"""The storage of archives in a simulated world of flows: it fails at times, or for years."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from signalbox.flows.limits import LIMITS
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.log import shown_entry
from signalbox.flows.model.retention import Keeping
from tests.simulation.fault_rates import ARCHIVE_FAILS_RATE
from tests.simulation.reached_counts import ARCHIVED, ARCHIVES_FAILED, REACHED
from tests.simulation.world import Violation, World
from tests.simulation.worlds.flows.observed_flows import FlowsHistory

PLACE = "gs://archive/of/flows"
ADDRESS = ("flow", "id", "number")
DAYS = (None, 32, 40, 90)


def keeping_of(random: Random) -> Keeping:
    """Return how the runs of a world are kept, with an archive."""
    return Keeping.checked(random.choice(DAYS), PLACE)


@dataclass
class Archive:
    """The archives that were written, by name. `failures_left` of the writes fail; `broken`: all do.

    One that exists is left as it is. Checked when a run is removed: its archive has the run and its whole log, and its
    retention is over, unless a person has removed it.
    """

    world: World
    history: FlowsHistory
    random: Random = field(default_factory=lambda: Random(0))
    failures_left: int = 0
    broken: bool = False
    written: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.history.removed = self.check_removed

    def write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write an archive as a whole, or fail before or after that."""
        content = list(rows)
        self.world.step(f"write {name}")
        fails = self.broken or (self.failures_left > 0 and self.random.random() < ARCHIVE_FAILS_RATE)
        self.failures_left -= fails
        REACHED[ARCHIVES_FAILED] += fails
        if fails and (self.broken or self.random.random() < 0.5):
            raise OSError("the storage is not there")
        self.written.setdefault(name, content)
        REACHED[ARCHIVED] += 1
        self.world.step(f"answer of {name}")
        if fails:
            raise OSError("the storage did not answer")

    def check_removed(self, header: FlowHeader, *, swept: bool) -> None:
        """Raise `Violation` if a run that was removed is lost, or was removed too early."""
        assert header.end is not None
        kept = timedelta(days=header.keeping.days or 0)
        usual = timedelta(seconds=LIMITS.flow_kept_seconds)
        if swept and self.history.inline.now() < header.end.at + max(kept, usual):
            raise Violation(f"{header.address.base} was removed though it has just ended")
        if not header.keeping.archive:
            return
        of_run = [rows for rows in self.written.values() if rows[0]["incarnation"] == header.incarnation]
        if not of_run:
            raise Violation(f"{header.address.base} was removed, and there is no archive of it")
        [[run, *entries]] = of_run
        if (run["state"], run["arguments"]) != (header.state, dict(header.arguments)):
            raise Violation(f"the archive of {header.address.base} says {run}")
        log = self.history.logs[header.address.base, header.execution_id]
        found = [{name: value for name, value in row.items() if name not in ADDRESS} for row in entries]
        if len(found) != header.log.length or any(
            known is not None and shown_entry(known) != row for known, row in zip(log, found, strict=False)
        ):
            raise Violation(f"the archive of {header.address.base} has {found}, and its log {log}")
