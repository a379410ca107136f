"""Populate a batch with all of its units at once, however many they are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shared.batches.operations import batches, pages
from shared.batches.rules.pages import cut
from shared.batches.rules.requests import BatchSpec, PageRequest, SealRequest
from shared.batches.rules.status import BatchStatus
from shared.core.operations.ports import Ports
from shared.core.rules.limits import LIMITS


def populate_whole(ports: Ports, batch: str, spec: BatchSpec, units: Sequence[dict[str, Any]]) -> BatchStatus:
    """Load all units in one call where they fit, else page by page, and seal the batch; each call can be repeated.

    Raises `OtherBody` if the id is used with other units, `BadBatch` or `TooLarge` for what no batch can hold.
    """
    if len(units) <= LIMITS.call_units_max:
        return batches.populate(ports, batch, replace(spec, units=units, sealed=True)).status
    page_units = cut(units)
    batches.populate(ports, batch, spec)
    for number, page in enumerate(page_units):
        pages.add_page(ports, batch, PageRequest(number, page))
    return batches.seal(ports, batch, SealRequest(len(page_units)))
