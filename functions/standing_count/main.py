"""Count a yoke after each write of it, by any client of the database."""

from signalbox.adapters.http.event_deliveries import document_written
from signalbox.core.ports import DocumentEvent
from signalbox.standings.http import count_event


@document_written("standing_count")
def standing_count(event: DocumentEvent) -> None:
    count_event(event)
