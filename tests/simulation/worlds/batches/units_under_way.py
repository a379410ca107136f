"""The units of a batch that are under way: their code was started, and they have no outcome of that attempt."""

from __future__ import annotations

from signalbox.batches.model.headers import header_of_run
from signalbox.batches.model.units import PlacedUnit, Retries, UnitRecord
from signalbox.core.ports import Store
from tests.simulation.world import Violation

Started = dict[tuple[str, int], PlacedUnit]


class UnderWay:
    """Observes the units of the batch `b` that were started: first runs, and the retries of each call."""

    def __init__(self, store: Store, concurrency: int | None) -> None:
        self._store = store
        self._concurrency = concurrency
        self._started: dict[str, Started] = {}
        self._attempts: dict[tuple[str, str], int] = {}

    def begin(self, unit: PlacedUnit) -> None:
        """Note that a unit's code starts. Raises `Violation` if too many are under way then, or it has been retried."""
        if self._concurrency is None or unit.batch != "b":
            return
        call = unit.chain.call if isinstance(unit.chain, Retries) else ""
        self._check_retried_once(unit, call)
        started = self._started.setdefault(f"{unit.incarnation} {call}", {})
        started[unit.path, unit.attempt] = unit
        under_way = sorted(one.index for one in started.values() if not self._has_ended(one))
        if len(under_way) > self._concurrency:
            raise Violation(f"units {under_way} run at once, and only {self._concurrency} may")

    def _check_retried_once(self, unit: PlacedUnit, call: str) -> None:
        if self._attempts.setdefault((unit.path, call), unit.attempt) != unit.attempt:
            raise Violation(f"unit {unit.index} was retried twice for one call")

    def _has_ended(self, unit: PlacedUnit) -> bool:
        [read, header] = self._store.read(unit.path, unit.run.header_path)
        if header_of_run(header.data, unit.run) is None:
            return True
        return read.data is not None and UnitRecord.from_record(read.data).unit.attempt >= unit.attempt
