"""Large arguments and results of units: payloads at the place of their batch's run, with which they are removed.

    batches/{hash of the header}/{incarnation}/{sha256}

A page, a task or a unit's record that names a payload has the format of payloads. If a page has one, all of its units'
arguments are as records contain them, so that its tasks are read in one way; other pages have them as they are.
"""

import json
from collections.abc import Sequence
from typing import Any

from signalbox.batches.model.pages import json_text
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit, UnitOutcome
from signalbox.core.calls import Call
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS
from signalbox.payloads.model import Outgoing, Place, escaped, place_of


def place_of_batch(run: BatchRun) -> Place:
    """Return the place of all payloads of a run of a batch."""
    return place_of(run.header_path, run.incarnation)


def claimed_units(units: Sequence[Any], task: Call | None, place: Place, outgoing: Outgoing) -> Sequence[Any]:
    """Return the units of a page as its record contains them: as they are, unless one is large.

    `outgoing` collects the large arguments. Raises `TooLarge` if even their names do not fit.
    """
    task_bytes = 0 if task is None else len(json_text(task.payload))
    room_bytes = LIMITS.task_bytes_max - task_bytes
    if all(len(json_text(unit)) <= room_bytes for unit in units):
        return units
    if task is None:
        return [outgoing.claimed(unit, place, room_bytes) for unit in units]
    return [outgoing.claimed_members(unit, place, room_bytes) for unit in units]


def claimed_outcome(unit: PlacedUnit, outcome: UnitOutcome, outgoing: Outgoing) -> UnitOutcome:
    """Return an outcome as the unit's record contains it: `outgoing` collects a large result."""
    if outcome.state == "failed" or outcome.is_named or len(outcome.text) <= LIMITS.result_bytes_max:
        return outcome
    named = outgoing.named(outcome.text.encode(), place_of_batch(unit.run))
    return replace(outcome, text=json.dumps(named), is_named=True)


def stored_result(outcome: UnitOutcome) -> Any:
    """Return the result of a unit as the records of other rooms contain it: the name of its payload, or the value."""
    value = json.loads(outcome.text)
    return value if outcome.is_named else escaped(value)
