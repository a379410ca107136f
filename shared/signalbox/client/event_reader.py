"""Read a stream of server-sent events, and continue it after its last event."""

from dataclasses import field

from signalbox.client.answers import json_of
from signalbox.client.model import Event
from signalbox.core.lazy_dataclasses import dataclass


@dataclass(slots=True)
class EventReader:
    """Reads server-sent events line by line (WHATWG HTML, section 9.2).

    `last_id` is where a new stream continues: after what an empty line ended. `asked` is the request's method and path.
    """

    asked: str
    last_id: str = ""
    _id: str = ""
    _name: str = ""
    _data: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Begin another stream: forget what the last one left of an event that it did not end."""
        self._id, self._name, self._data = self.last_id, "", []

    def line(self, text: str) -> Event | None:
        """Take a line without its end. Returns the event that it completes."""
        if not text:
            return self._completed()
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id":
            self._id = value
        return None

    def _completed(self) -> Event | None:
        name, data, self._name, self._data = self._name, self._data, "", []
        self.last_id = self._id
        if not data:
            return None
        return {"event": name or "message", "id": self.last_id, "data": json_of(self.asked, 200, "\n".join(data))}
