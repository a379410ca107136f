"""Every write of a document arrives here; what embeds it, or was embedded by it, is made to follow."""

from shared.adapters import runtime
from shared.adapters.web.events import document_written
from shared.operations import links
from shared.operations.ports import DocumentEvent


@document_written("link_fan_out")
def link_fan_out(event: DocumentEvent) -> None:
    links.fan_out(runtime.ports(), event)
