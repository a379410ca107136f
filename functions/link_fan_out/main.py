"""Every write of a document arrives here; the documents that embed it, and its own copies, are brought up to date."""

from shared.adapters import runtime
from shared.adapters.http.events import document_written
from shared.core.operations.ports import DocumentEvent
from shared.links.operations.fan_out import fan_out


@document_written("link_fan_out")
def link_fan_out(event: DocumentEvent) -> None:
    fan_out(runtime.ports(), event)
