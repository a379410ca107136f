"""A handler of events that hangs occupies a thread of the local stack until its function's time-out, and not longer."""

from pathlib import Path

import yaml
from werkzeug.test import Client

from signalbox.adapters import settings as adapters_settings
from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox_tools.local.event_bridge.cloudevent import DOCUMENT_EVENT_DATA
from signalbox_tools.local.functions.server import mounted
from signalbox_tools.local.services.function_settings import settings_of

HANGING = """
import time
from signalbox import DocumentEvent, Function

app = Function("hanging")

@app.document_written("orders/{id}")
def written(event: DocumentEvent, id: str) -> None:
    for _ in range(30_000):
        time.sleep(0.001)

hanging = app.entry_point()
"""
HEADERS = {
    "ce-specversion": "1.0",
    "ce-type": "google.cloud.firestore.document.v1.written",
    "ce-source": "//firestore.googleapis.com/projects/demo/databases/(default)",
    "ce-id": "1",
    "ce-document": "orders/7",
    "content-type": "application/protobuf",
}


def test_a_handler_of_events_is_ended_at_its_time_out(tmp_path: Path) -> None:
    (tmp_path / "hanging").mkdir()
    (tmp_path / "hanging" / "main.py").write_text(HANGING)
    file = tmp_path / "infra" / "catalogue.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump({"functions": {"hanging": {"folder": "hanging", "timeout_seconds": 1}}}))
    catalogue = load(file)
    data = DOCUMENT_EVENT_DATA()
    data.value.name = "projects/demo/databases/(default)/documents/orders/7"
    with Harness():
        adapters_settings.bind(settings_of(catalogue))
        answer = Client(mounted(catalogue)).post("/hanging", headers=HEADERS, data=data.SerializeToString())
    assert answer.status_code == 500
