"""Whether a batch's units are still wanted, asked of the store once in a few seconds a process and not once a unit.

So a unit costs no read, and a cancelled batch's units may go on for those seconds: harmless, since what an ended batch
is told changes nothing.
"""

import time
from threading import Lock

from shared.adapters import runtime
from shared.batches.operations import units as batch_units
from shared.batches.rules.identity import Unit

FRESH_SECONDS = 5.0
BATCHES_MAX = 1_000  # remembered by a process; beyond that it begins anew

_Key = tuple[str, str, bool]
_known: dict[_Key, tuple[bool, float]] = {}
_knowing = Lock()


def is_wanted(unit: Unit) -> bool:
    """Tell whether a unit's work should begin, as far as was known in the last few seconds. Raises `Unavailable`."""
    key = (unit.batch, unit.incarnation, unit.attempt > 0)
    with _knowing:
        wanted, until = _known.get(key, (False, 0.0))
    return wanted if time.monotonic() < until else _asked(unit, key)


def _asked(unit: Unit, key: _Key) -> bool:
    wanted = batch_units.unit_is_wanted(runtime.ports(), unit)
    with _knowing:
        if len(_known) >= BATCHES_MAX:
            _known.clear()
        _known[key] = (wanted, time.monotonic() + FRESH_SECONDS)
    return wanted
