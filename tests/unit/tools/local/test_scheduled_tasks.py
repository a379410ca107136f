"""A schedule of the catalogue enqueues a task with its arguments, once for each scheduled time."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from signalbox.catalogue.reading import Schedule
from signalbox.testing import Harness
from signalbox_tools import http_client
from signalbox_tools.local.scheduler import Caller

ROOT = Path(__file__).parents[4]
QUEUE = {
    "dispatches_per_second": 1,
    "concurrent_max": 1,
    "attempts_max": -1,
    "backoff_min_seconds": 1,
    "backoff_max_seconds": 1,
    "doublings_max": 1,
}
WEEKLY = {
    "function": "reports",
    "task": "send",
    "arguments": {"pages": 3},
    "cron": "0 0 * * 1",
    "local_every_seconds": 9,
}
CODE = """
from signalbox import Function, NotFound, documents

app = Function("reports")


@app.task
def send(pages: int) -> None:
    documents.put("report", {"pages": pages, "number": 1 + number()})


def number() -> int:
    try:
        return documents.get("report")["number"]
    except NotFound:
        return 0


reports = app.entry_point()
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    (tmp_path / "reports").mkdir()
    (tmp_path / "infra").mkdir()
    (tmp_path / "reports" / "main.py").write_text(CODE)
    functions = {
        "tasks": {"folder": str(ROOT / "functions/tasks"), "invoked_by": ["people", "schedule"], "enqueues": ["tasks"]},
        "documents": {"folder": str(ROOT / "functions/documents"), "invoked_by": ["people"]},
        "reports": {"folder": "reports", "invoked_by": ["queue"], "tasks": ["send"]},
    }
    content = {"functions": functions, "queues": {"links": QUEUE, "tasks": QUEUE}, "schedules": {"weekly": WEEKLY}}
    (tmp_path / "infra" / "catalogue.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "infra" / "catalogue.yaml"


def test_a_scheduled_time_runs_the_task_once_however_often_it_is_called(catalogue: Path) -> None:
    with Harness(catalogue) as harness:
        for _ in range(2):
            assert harness.run_schedule("weekly").status == 202
        assert [(task.function, task.payload) for task in harness.tasks] == [("reports", {"pages": 3})]
        harness.run()
        harness.advance(7 * 24 * 3600)
        harness.run_schedule("weekly")
        harness.run()
        assert harness.get("documents/report").json == {"key": "report", "pages": 3, "number": 2}


def test_the_local_scheduler_sends_what_cloud_scheduler_would(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, bytes, Any]] = []

    def send(method: str, url: str, *, content: bytes = b"", headers: Any, timeout_seconds: float) -> bytes:
        assert timeout_seconds
        sent.append((f"{method} {url}", content, headers.get("Content-Type")))
        return b"token"

    monkeypatch.setattr(http_client, "send", send)
    caller = Caller("http://h/", "scheduler@example.com", "http://h:1")
    caller.call(Schedule(name="weekly", **WEEKLY))  # type: ignore[arg-type]  # fields by name, of any type
    caller.call(Schedule(name="sweep", function="sweep", cron="* * * * *", local_every_seconds=1))
    assert [each for each in sent if each[0].startswith("POST")] == [
        (
            "POST http://h/tasks",
            b'{"function": "reports", "task": "send", "payload": {"pages": 3}}',
            "application/json",
        ),
        ("POST http://h/sweep", b"", None),
    ]
