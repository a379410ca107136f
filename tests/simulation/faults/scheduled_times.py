"""Faults to plant: planned times that wait, without one rule of their clause (docs/protocols/document-events.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from signalbox.core.effects import Decision
from signalbox.document_events import machine
from signalbox.document_events.machine import Turn
from signalbox.document_events.model import Begun, Waiting
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import scheduled_times

begin_or_wait = original("document_events.begin_or_wait")


def _times(without: str, point: str, instead: Any) -> Fault:
    return Fault("event-10", without, always((point, instead)), scheduled_times.run)


def _not_alone(begun: Begun | None, *rest: Any, **rules: Any) -> Decision[Begun, Turn]:
    return begin_or_wait(begun and replace(begun, holder="", waiting=()), *rest, **rules)


def _nothing(*_: Any) -> tuple[()]:
    return ()


def _acknowledged(begun: Begun | None, own: Waiting, holder: str, *rest: Any, **rules: Any) -> Decision[Begun, Turn]:
    if begun and begun.holder != holder and begun.holder.startswith(own.event):
        begun = replace(begun, holder=f"another {begun.holder}")
    return begin_or_wait(begun, own, holder, *rest, **rules)


def _whichever(begun: Begun | None, own: Waiting, *rest: Any, **rules: Any) -> Decision[Begun, Turn]:
    stored = next((each for each in begun.waiting if each.event == own.event), own) if begun else own
    return begin_or_wait(begun, replace(own, turn=stored.turn + 1), *rest, **rules)


def _unknown(begun: Begun, event: str, *, handled: bool) -> Begun:
    return machine.end(begun, event, handled=handled)


FAULTS = (
    _times("one time at a time", "document_events.begin_or_wait", _not_alone),
    _times("the end of a time enqueues the next", "document_events.hand_over", _nothing),
    _times("a time whose process died is delivered again", "document_events.begin_or_wait", _acknowledged),
    _times("only the task of its turn begins a time", "document_events.begin_or_wait", _whichever),
    _times("the times that have ended", "document_events.end_for_good", _unknown),
)
