"""Every write of a document arrives here; what embeds it, or was embedded by it, is made to follow."""

from shared.adapters import runtime
from shared.adapters.http.events import document_written
from shared.core.operations.ports import DocumentEvent
from shared.links.operations import fan_out as links


@document_written("link_fan_out")
def link_fan_out(event: DocumentEvent) -> None:
    links.fan_out(runtime.ports(), event)
