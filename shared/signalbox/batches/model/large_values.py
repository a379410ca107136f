"""Large arguments and results of units: payloads at the place of their batch's run, with which they are removed.

    batches/{hash of the header}/{incarnation}/{sha256}

A page, a task or a unit's record that names a payload has the member `named`. If a page has one, all of its units'
arguments are as records contain them, so that its tasks are read in one way; other pages have them as they are.

The header of a batch names the units of batches that follow it, if they are large in all.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from signalbox.batches.limits import LIMITS
from signalbox.batches.model.pages import bytes_beside_unit
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit, UnitOutcome
from signalbox.core.calls import Call
from signalbox.core.json_values import json_text
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import are_payloads_stored
from signalbox.core.problems import TooLarge
from signalbox.payloads.model import Outgoing, Place, content_of, escaped, opened, payload_in, place_of


def place_of_batch(run: BatchRun) -> Place:
    """Return the place of all payloads of a run of a batch."""
    return place_of(run.header_path, run.incarnation)


def claimed_units(units: Sequence[Any], task: Call | None, place: Place, outgoing: Outgoing) -> Sequence[Any]:
    """Return the units of a page as its record contains them: as they are, unless one is large.

    `outgoing` collects the large arguments. Raises `TooLarge` if even their names do not fit.
    """
    room_bytes = CORE_LIMITS.task_bytes_max - bytes_beside_unit(task)
    if all(len(json_text(unit)) <= room_bytes for unit in units):
        return units
    if task is None:
        return [outgoing.claimed(unit, place, room_bytes) for unit in units]
    return [outgoing.claimed_members(unit, place, room_bytes) for unit in units]


def claimed_definition(definition: dict[str, Any], place: Place, outgoing: Outgoing) -> str:
    """Return the definition of a batch that follows as the header of the one before contains it.

    `outgoing` collects the units of one batch after another, the largest first, until the rest fits. Raises `TooLarge`.
    """
    text = json_text(definition)
    stages = _stages(definition) if are_payloads_stored() else ()
    for stage in sorted(stages, key=lambda stage: -len(json_text(stage["units"]))):
        if len(text) <= LIMITS.then_bytes_max:
            break
        stage["units"] = outgoing.named(content_of(stage["units"]), place)
        text = json_text(definition)
    if len(text) > LIMITS.then_bytes_max:
        limit = f"The batches that follow have at most {LIMITS.then_bytes_max:,} bytes, apart from their units"
        raise TooLarge(f"{limit}; these have {len(text):,}.", field="then")
    return text


def opened_definition(text: str) -> dict[str, Any]:
    """Return the definition of a batch that follows from the header of the one before. Raises `PayloadUnread`."""
    definition: dict[str, Any] = json.loads(text)
    for stage in _stages(definition):
        if payload_in(stage.get("units")):
            stage["units"] = opened(stage["units"])
    return definition


def _stages(definition: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    while definition is not None:
        yield definition
        definition = definition.get("then")


def claimed_outcome(unit: PlacedUnit, outcome: UnitOutcome, outgoing: Outgoing) -> UnitOutcome:
    """Return an outcome as the unit's record contains it: `outgoing` collects a large result."""
    if outcome.state == "failed" or outcome.is_named or len(outcome.text) <= CORE_LIMITS.result_bytes_max:
        return outcome
    named = outgoing.named(outcome.text.encode(), place_of_batch(unit.run))
    return replace(outcome, text=json.dumps(named), is_named=True)


def stored_result(outcome: UnitOutcome) -> Any:
    """Return the result of a unit as the records of other rooms contain it: the name of its payload, or the value."""
    value = json.loads(outcome.text)
    return value if outcome.is_named else escaped(value)
