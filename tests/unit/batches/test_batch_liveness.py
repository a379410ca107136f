"""The cache of batches' liveness."""

from typing import Any

import pytest

from signalbox.adapters import runtime
from signalbox.batches.api import FRESH_SECONDS, is_live
from signalbox.batches.model.units import PlacedUnit
from signalbox.core.ports import Ports
from signalbox.testing.memory_store import MemoryStore


def test_the_liveness_of_a_batch_is_read_at_most_once_in_fresh_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    now = [1000.0]

    def answer(_: Ports, unit: PlacedUnit) -> bool:
        read.append(unit.index)
        return True

    quiet: Any = None
    runtime.bind(Ports(MemoryStore(lambda: quiet), quiet, quiet, quiet))
    monkeypatch.setattr("signalbox.batches.api.units.unit_is_live", answer)
    monkeypatch.setattr("signalbox.batches.api.time.monotonic", lambda: now[0])
    units = [PlacedUnit("fresh", "i", index, 0, 0, index, 9) for index in range(3)]
    assert all(map(is_live, units))
    now[0] += FRESH_SECONDS
    assert is_live(units[2])
    runtime.bind(None)
    assert read == [0, 2]
