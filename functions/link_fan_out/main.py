"""Every write of a document arrives here; the kit updates the documents that embed it, and its own copies."""

from signalbox.adapters import runtime
from signalbox.adapters.http.event_deliveries import document_written
from signalbox.core.ports import DocumentEvent
from signalbox.links.service.refreshes import fan_out


@document_written("link_fan_out", rarely_calls_for_anything=True)
def link_fan_out(event: DocumentEvent) -> None:
    fan_out(runtime.ports(), event)
