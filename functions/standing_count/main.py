"""Every write of a yoke arrives here, whoever made it; its standings follow."""

from shared.adapters import runtime
from shared.adapters.http.events import document_written
from shared.core.operations.ports import DocumentEvent
from shared.standings.operations.counting import count_event


@document_written("standing_count")
def standing_count(event: DocumentEvent) -> None:
    count_event(runtime.ports(), event)
