"""CPU time of the event of a refreshed copy, and time of the put of a document that many embed."""

import statistics
import time
from typing import Any

from google.events.cloud.firestore import DocumentEventData

from signalbox.adapters.cost_meter import Cost, measure, metered
from signalbox.adapters.firestore.values import fill_fields
from signalbox.adapters.http.event_deliveries import document_event
from signalbox.core.ports import Ports
from signalbox.documents.machine import links
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model import stamped_contents as model
from signalbox.links.service import refreshes
from tests.bench.bench_stack import TARGET, Stage, city, country, record
from tests.unit.operations_platform import OperationsPlatform

ATTRIBUTES = {"id": "event", "document": "documents/city"}


def event_microseconds(events: int) -> tuple[float, Cost]:
    """Handle the event of a refreshed copy so often; return the CPU time of one, in µs, and the cost of all."""
    body, ports = event_of_a_refresh(), metered(OperationsPlatform().ports)
    with measure() as cost:
        began = time.thread_time()
        for _ in range(events):
            handle(ports, body)
        seconds = time.thread_time() - began
    return seconds / events * 1e6, cost


def handle(ports: Ports, body: bytes) -> None:
    """Parse an event and run its handler, as the function does."""
    refreshes.fan_out(ports, document_event(ATTRIBUTES, body))


def event_of_a_refresh() -> bytes:
    """Return the event of a document that no other embeds and whose copy was just refreshed."""
    before = record("city", city(1), {TARGET: country(1)}, linked=False)
    document = model.Document.from_record(before)
    assert document is not None, "a record was just made"
    content = links.refresh_copies("city", document, Embedding({TARGET: country(2)}, {TARGET: None}))
    assert not isinstance(content, links.Refresh), "the copy follows"
    world = OperationsPlatform()
    after = model.stamped(document, content, "refresh", world.now, linked=False, hops=1)
    data: Any = DocumentEventData.pb()()
    encoded = after.to_record()
    for held, fields in ((data.old_value, before), (data.value, encoded)):
        held.name = "projects/p/databases/(default)/documents/documents/city"
        fill_fields(held.fields, fields)
    return bytes(data.SerializeToString())


def put_milliseconds(stage: Stage, linkers: int, puts: int) -> float:
    """Put a document that so many embed, again and again; return the median time of one.

    Its events are held back: what is measured is the put, not the fan-outs that would run during the next one.
    """
    with stage.events_held():
        stage.clear()
        stage.seed(country(0), linkers)
        taken = [_put_seconds(stage, number) for number in range(1, puts + 1)]
        stage.clear()
    return statistics.median(taken) * 1e3


def _put_seconds(stage: Stage, number: int) -> float:
    began = time.perf_counter()
    stage.put(TARGET, country(number))
    return time.perf_counter() - began
