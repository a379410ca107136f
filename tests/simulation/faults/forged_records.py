"""Faults to plant: tasks out of records, without one check of their names (docs/protocols/outbox.md)."""

from __future__ import annotations

from dataclasses import replace

from signalbox.adapters.settings import Settings
from signalbox.core.effects import Effect
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import forged_records

undeliverable = original("adapters.undeliverable")


def _whatever_its_queue(known: Settings, effect: Effect) -> str:
    calling = known.calling_queues.get(effect.function, ("tasks",))
    reason: str = undeliverable(known, replace(effect, queue=next(iter(calling))))
    return reason


def _whatever_its_function(known: Settings, effect: Effect) -> str:
    named = effect.function in known.calling_queues
    reason: str = undeliverable(known, effect) if named else ""
    return reason


FAULTS = tuple(
    Fault("outbox-10", without, always(("adapters.undeliverable", instead)), forged_records.run)
    for without, instead in (
        ("the check of names in records", lambda *_: ""),
        ("the check that the queue calls the function", _whatever_its_queue),
        ("the check that the catalogue has the function", _whatever_its_function),
    )
)
