"""The tasks of units: the batch's call, with the payload that the unit's page holds."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.batches.rules.pages import Page, loaded
from shared.batches.rules.units import PlacedUnit
from shared.core.operations.ports import Snapshot
from shared.core.rules.effects import Effect


def unit_tasks(units: Sequence[PlacedUnit], read: Sequence[Snapshot], payload: Mapping[str, Any]) -> list[Effect]:
    """Return the units' tasks with the payloads of the pages that were read; units of other pages are left out.

    `payload` is merged over each unit's own.
    """
    pages = {one.path: page for one in read if isinstance(page := loaded(one.data), Page)}
    payloads = {path: page.payloads() for path, page in pages.items()}
    now = read[0].read_time
    return [
        unit.effect(call, {**payloads[unit.page_path][unit.offset], **payload}, now)
        for unit in units
        if (page := pages.get(unit.page_path)) and (call := page.call_of(unit.index))
    ]
