"""Faults to plant: events of documents without one clause of their protocol (docs/protocols/document-events.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import Any

from signalbox import DocumentEvent
from signalbox.adapters.http.event_deliveries import ReceivedEvent
from signalbox.core.document_patterns import CREATED, DELETED, UPDATED
from signalbox.core.effects import Decision, name_of
from signalbox.core.problems import Unavailable
from signalbox.core.times import microseconds
from signalbox.document_events.machine import Turn
from signalbox.document_events.model import Begun
from signalbox.function.document_handlers import DocumentHandler
from tests.simulation.faults.enqueues import _by_name_alone, _task_in_no_outbox
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always, original
from tests.simulation.worlds import document_events

begin, end, place_of = (original(f"document_events.{name}") for name in ("begin", "end", "place_of"))
receive = original("functions.receive")


def _events(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), document_events.run)


# --- receive ---


def _acknowledged_in_any_case(
    function: str, handlers: Mapping[str, DocumentHandler], name: str, event: ReceivedEvent
) -> None:
    with suppress(Unavailable):
        receive(function, handlers, name, event)


def _ids_of_deliveries() -> Iterable[Replacement]:
    numbers = count()
    return [("functions.name_of", lambda *parts: name_of(*parts, next(numbers)))]


def _one_for_all_handlers(*parts: object) -> str:
    return name_of(parts[-1])


class _Unknown(Exception):
    """An exception that nothing raises."""


def _any_path(handler: DocumentHandler, _: str, kind: str) -> bool:
    return handler.on in ("written", kind or handler.on)


def _any_kind(handler: DocumentHandler, path: str, _: str) -> bool:
    return handler.pattern.match(path) is not None


def _always_with_data(event: ReceivedEvent, bytes_max: int) -> dict[str, str]:
    return arguments(event, bytes_max + 20_000)


arguments = original("events.ReceivedEvent.arguments")


def _not_kept(*_: Any) -> None: ...


# --- what a handler is given ---


def _by_its_sides(event_type: str, data: Any) -> str:
    said = event_type.rpartition(".")[2]
    if said in (CREATED, UPDATED, DELETED):
        return said
    before, after = data.HasField("old_value"), data.HasField("value")
    return (UPDATED if before else CREATED) if after else DELETED if before else ""


def _without_both(event: DocumentEvent) -> bool:
    return event.before is None and event.after is None


def _first_part_only(pattern: Any, path: str) -> Any:
    parts = match(pattern, path)
    return parts and {name: value.partition("/")[0] for name, value in parts.items()}


match = original("document_patterns.DocumentPattern.match")


# --- in order ---


def _never_overtaken(begun: Begun | None, event: str, place: int, *rest: Any) -> Decision[Begun, Turn]:
    return begin(begun, event, max(place, begun.place) if begun else place, *rest)


def _not_alone(begun: Begun | None, *rest: Any) -> Decision[Begun, Turn]:
    return begin(begun and replace(begun, holder=""), *rest)


def _once_only(begun: Begun | None, event: str, *rest: Any) -> Decision[Begun, Turn]:
    if begun is not None and begun.event == event:
        return Decision(begun, Turn.HANDLED)
    return begin(begun, event, *rest)


def _left_out_anyway(
    begun: Begun | None, event: str, place: int, holder: str, now: datetime, seconds: float, each: Any = None
) -> Decision[Begun, Turn]:
    del each
    return begin(begun, event, place, holder, now, seconds)


def _by_versions(written_at: datetime | None, before: datetime | None) -> int | None:
    time = written_at or before
    return None if time is None else 2 * microseconds(time)


def _first(*_: Any) -> int:
    return 0


def _handled_in_any_case(begun: Begun, event: str, *, handled: bool) -> Begun:
    del handled
    return end(begun, event, handled=True)


def _forgotten_if_it_failed(begun: Begun, event: str, *, handled: bool) -> Begun:
    ended = end(begun, event, handled=handled)
    return ended if handled else replace(ended, place=0)


FAULTS = (
    _events("event-1", "acknowledging only what is enqueued", "functions.receive", _acknowledged_in_any_case),
    _events("event-1", "the task of an event in its receipt's commit", "tasks.by_id", _task_in_no_outbox),
    _events("event-1", "keeping an event that its handler refuses", "tasks.keep", _not_kept),
    Fault("event-2", "the event's id in that of its task", _ids_of_deliveries, document_events.run),
    _events("event-2", "the handler in the id of an event's task", "functions.name_of", _one_for_all_handlers),
    _events("event-2", "a receipt of an event's task", "tasks.by_id", _by_name_alone),
    _events("event-3", "a repeat may be encoded otherwise", "functions.OtherBody", _Unknown),
    _events(
        "event-3",
        "an event that is too large comes without its data",
        "events.ReceivedEvent.arguments",
        _always_with_data,
    ),
    _events("event-4", "only paths of the pattern", "functions.DocumentHandler.takes", _any_path),
    _events("event-4", "only events of the kind", "functions.DocumentHandler.takes", _any_kind),
    _events("event-4", "all segments of the rest", "document_patterns.DocumentPattern.match", _first_part_only),
    _events("event-5", "the creation time of an update", "events.kind_of", _by_its_sides),
    _events("event-5", "a missing side makes an event partial", "ports.DocumentEvent.partial", property(_without_both)),
    _events("event-6", "leaving out what was overtaken", "document_events.begin", _never_overtaken),
    _events("event-6", "the place of a deletion after its version", "document_events.place_of", _by_versions),
    _events("event-6", "the place of an event without times", "document_events.place_of_read", _first),
    _events("event-7", "one event of a document at a time", "document_events.begin", _not_alone),
    _events("event-9", "an event that came late is handled", "document_events.begin", _left_out_anyway),
    _events("event-8", "beginning again what was not handled", "document_events.begin", _once_only),
    _events("event-8", "handled only if the handler returned", "document_events.end", _handled_in_any_case),
    _events("event-8", "the place of what failed", "document_events.end", _forgotten_if_it_failed),
)
