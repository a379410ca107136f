"""Register triggers with the Firestore emulator, and find out which events it has sent and which tasks wait.

The emulator loses its triggers and its documents when it ends.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from signalbox.catalogue.reading import Trigger
from signalbox_tools import http_client
from signalbox_tools.local.event_bridge.markers import MARKER_DOCUMENT, MARKER_FIELD, MARKER_TRIGGER

RESPONSE_SECONDS_MAX = 10
MARKER = Trigger(
    name=MARKER_TRIGGER,
    function="none",
    event="google.cloud.firestore.document.v1.written",
    document=MARKER_DOCUMENT,
)


@dataclass(frozen=True, slots=True)
class EmulatorEvents:
    """The events side of an emulator at `host`, for one database of one project."""

    host: str
    project: str
    database: str = "(default)"

    def register(self, triggers: Iterable[Trigger]) -> None:
        """Register these triggers and the trigger of the markers. Raises `OSError`."""
        for trigger in (*triggers, MARKER):
            path = f"/emulator/v1/projects/{self.project}/eventarcTrigger?eventarcTriggerId={quote(trigger.name)}"
            document = {"value": trigger.document, "matchType": "PATH_PATTERN"}
            place = {"database": self.database, "namespace": "(default)"}
            self._send("POST", path, {"eventType": trigger.event, **place, "document": document})

    def mark(self, number: int) -> None:
        """Write marker `number`. When its event arrives, all events of earlier commits have arrived.

        Raises `OSError`.
        """
        path = f"/v1/projects/{self.project}/databases/{self.database}/documents/{MARKER_DOCUMENT}"
        self._send("PATCH", path, {"fields": {MARKER_FIELD: {"integerValue": str(number)}}})

    def is_empty(self, collection: str) -> bool:
        """Return whether a collection has no record. Raises `OSError`."""
        path = f"/v1/projects/{self.project}/databases/{self.database}/documents:runQuery"
        query = {"from": [{"collectionId": collection}], "limit": 1}
        return not any(
            "document" in found for found in json.loads(self._send("POST", path, {"structuredQuery": query}))
        )

    def _send(self, method: str, path: str, body: object) -> bytes:
        headers = {"Content-Type": "application/json", "Authorization": "Bearer owner"}
        url, content = f"http://{self.host}{path}", json.dumps(body).encode()
        return http_client.send(method, url, content=content, headers=headers, timeout_seconds=RESPONSE_SECONDS_MAX)
