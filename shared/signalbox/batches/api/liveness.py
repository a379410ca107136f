"""A cache, for a few seconds in each process, of whether a batch's units should still run.

With it a unit costs no read. Units of a cancelled batch may start until their entry expires, which is harmless: an
ended batch ignores their outcomes. It is a part of its own, because every function with tasks needs it, with or without
batches.
"""

import time
from threading import Lock

from signalbox.adapters import runtime
from signalbox.batches.model.units import PlacedUnit
from signalbox.batches.service import units

FRESH_SECONDS = 5.0

BATCHES_MAX = 1_000
"""Entries of a process. The cache is cleared when it has more."""

_Key = tuple[str, str, bool]
_cache: dict[_Key, tuple[bool, float]] = {}
_lock = Lock()


def is_live(unit: PlacedUnit) -> bool:
    """Return whether a unit should run, as known at most `FRESH_SECONDS` ago. Raises `Unavailable`."""
    key = (unit.batch, unit.incarnation, unit.attempt > 0)
    with _lock:
        live, fresh_until = _cache.get(key, (False, 0.0))
    return live if time.monotonic() < fresh_until else _read(unit, key)


def clear() -> None:
    """Clear the cache. For tests whose clock differs from this machine's."""
    with _lock:
        _cache.clear()


def _read(unit: PlacedUnit, key: _Key) -> bool:
    live = units.unit_is_live(runtime.ports(), unit)
    with _lock:
        if len(_cache) >= BATCHES_MAX:
            _cache.clear()
        _cache[key] = (live, time.monotonic() + FRESH_SECONDS)
    return live
