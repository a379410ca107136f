"""Whether units may still start, read from the store once every few seconds a process and batch, not once a unit.

So a unit costs no read. Units of a batch cancelled in those seconds may still run: harmless, since an outcome changes
nothing in a batch that has ended.
"""

import time
from threading import Lock

from shared.adapters import runtime
from shared.batches.operations import units as batch_units
from shared.batches.rules.units import PlacedUnit

FRESH_SECONDS = 5.0
"""How long an answer is used."""

BATCHES_MAX = 1_000
"""Entries of a process; one more clears the cache."""

_Key = tuple[str, str, bool]
_cache: dict[_Key, tuple[bool, float]] = {}
_lock = Lock()


def is_live(unit: PlacedUnit) -> bool:
    """Return whether a unit may start, as of the last few seconds. Raises `Unavailable`."""
    key = (unit.batch, unit.incarnation, unit.attempt > 0)
    with _lock:
        live, expires_at = _cache.get(key, (False, 0.0))
    return live if time.monotonic() < expires_at else _loaded(unit, key)


def _loaded(unit: PlacedUnit, key: _Key) -> bool:
    live = batch_units.unit_is_live(runtime.ports(), unit)
    with _lock:
        if len(_cache) >= BATCHES_MAX:
            _cache.clear()
        _cache[key] = (live, time.monotonic() + FRESH_SECONDS)
    return live
