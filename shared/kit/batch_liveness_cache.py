"""Whether a batch's units should still run, remembered for a few seconds a process.

So a unit costs no read. Units of a cancelled batch may start for those seconds more, which is harmless: an ended batch
ignores their outcomes.
"""

import time
from threading import Lock

from shared.adapters import runtime
from shared.batches.operations import units as batch_units
from shared.batches.rules.units import PlacedUnit

FRESH_SECONDS = 5.0
BATCHES_MAX = 1_000
"""Batches remembered by a process; beyond that the cache is cleared."""

_Key = tuple[str, str, bool]
_cache: dict[_Key, tuple[bool, float]] = {}
_lock = Lock()


def is_live(unit: PlacedUnit) -> bool:
    """Return whether a unit should run; the value may be `FRESH_SECONDS` old. Raises `Unavailable`."""
    key = (unit.batch, unit.incarnation, unit.attempt > 0)
    with _lock:
        live, fresh_until = _cache.get(key, (False, 0.0))
    return live if time.monotonic() < fresh_until else _read(unit, key)


def clear() -> None:
    """Forget everything. For tests whose clock moves otherwise than this machine's."""
    with _lock:
        _cache.clear()


def _read(unit: PlacedUnit, key: _Key) -> bool:
    live = batch_units.unit_is_live(runtime.ports(), unit)
    with _lock:
        if len(_cache) >= BATCHES_MAX:
            _cache.clear()
        _cache[key] = (live, time.monotonic() + FRESH_SECONDS)
    return live
