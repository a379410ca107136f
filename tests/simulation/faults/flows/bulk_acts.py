"""Planted faults of one action on all runs that match (flow-39)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from signalbox.batches.model.headers import Header
from signalbox.core.effects import name_of
from signalbox.core.ports import Ports, Snapshot
from signalbox.core.times import EPOCH, rfc3339
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.service import messages
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always, original
from tests.simulation.worlds.flows import bulk_acts as bulk_world

actions: Mapping[str, Callable[..., None]] = original("flows.ACTIONS")
loaded = original("flows.loaded_last")
matches = original("flows.matches")


def in_bulk_acts(without: str, *replacements: Replacement) -> Fault:
    """Return a fault that the world of such requests must notice."""
    return Fault("flow-39", without, always(*replacements), bulk_world.run)


def _from_the_beginning(ports: Ports, batch: str) -> tuple[int, str]:
    """List the runs again from the first one, as the pages after those that the batch has."""
    page, _ = loaded(ports, batch)
    return page, ""


def _of_this_repeat(_: Header | None, read: Snapshot) -> str:
    return rfc3339(read.read_time)


def _whenever_it_was_started(header: FlowHeader, _: datetime | None, payload: Mapping[str, Any]) -> bool:
    return bool(matches(header, EPOCH, payload))


def _whatever_its_labels(header: FlowHeader, created_at: datetime | None, payload: Mapping[str, Any]) -> bool:
    return bool(matches(header, created_at, {**payload, "label": ""}))


def _under_any_id(ports: Ports, _: Any, run: Any, of: Mapping[str, Any]) -> None:
    messages.cancel(ports, run, of["reason"])


FAULTS = (
    in_bulk_acts("listing behind the last unit that is loaded", ("flows.loaded_last", _from_the_beginning)),
    in_bulk_acts("the time of the first request", ("flows.requested_at", _of_this_repeat)),
    in_bulk_acts("the request's key in the id of its batch", ("flows.batch_of", lambda *of: name_of("runs", *of[:2]))),
    in_bulk_acts("a run that was there at the request", ("flows.matches", _whenever_it_was_started)),
    in_bulk_acts("looking again whether a run matches", ("flows.matches", _whatever_its_labels)),
    in_bulk_acts("since when a run is in its state", ("flows.state_since", lambda _: None)),
    in_bulk_acts(
        "the batch and the run in the id of a cancel", ("flows.ACTIONS", {**actions, "cancel": _under_any_id})
    ),
)
