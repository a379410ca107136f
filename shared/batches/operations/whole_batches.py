"""Populate a batch with all of its units at once, however many they are."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from shared.batches.operations import batches, pages
from shared.batches.rules.batch_spec import BatchSpec
from shared.batches.rules.requests import SealRequest
from shared.batches.rules.status import BatchStatus
from shared.core.operations.ports import Ports
from shared.core.rules.limits import LIMITS


def populate_whole(ports: Ports, batch: str, spec: BatchSpec, units: Iterable[dict[str, Any]]) -> BatchStatus:
    """Load all units in one call where they fit, else page by page as they come; each call can be repeated.

    Raises `OtherBody` if the id is used with other units, `BadBatch` or `TooLarge` for what no batch can hold.
    """
    coming = iter(units)
    first = list(islice(coming, LIMITS.call_units_max + 1))
    if len(first) <= LIMITS.call_units_max:
        return batches.populate(ports, batch, replace(spec, units=first, sealed=True)).status
    batches.populate(ports, batch, spec)
    added = pages.add_units(ports, batch, 0, chain(first, coming))
    return batches.seal(ports, batch, SealRequest(added.page))
