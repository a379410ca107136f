"""A schedule of the catalogue enqueues a task with its arguments, once for each scheduled time."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from signalbox import Function, TaskContext
from signalbox.catalogue.derived_keys import usage_of
from signalbox.catalogue.reading import Schedule
from signalbox.core.times import rfc3339
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
    return written(tmp_path)


def written(tmp_path: Path) -> Path:
    (tmp_path / "reports").mkdir()
    (tmp_path / "infra").mkdir()
    (tmp_path / "reports" / "main.py").write_text(CODE)
    functions = {
        "tasks": {"folder": str(ROOT / "functions/tasks"), "invoked_by": ["people", "schedule"], "enqueues": ["tasks"]},
        "documents": {"folder": str(ROOT / "functions/documents"), "invoked_by": ["people"]},
        "failures": {"folder": str(ROOT / "functions/failures"), "invoked_by": ["people"], "enqueues": ["tasks"]},
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


def test_a_task_reads_its_planned_time_in_each_attempt_and_after_a_retry_by_hand(tmp_path: Path) -> None:
    seen: list[Any] = []
    app = Function("reports")

    @app.task(attempts_max=2)
    def send(context: TaskContext, pages: int) -> None:
        seen.append((context.scheduled_at, context.now()))
        if len(seen) < 3:
            raise ValueError(pages)

    catalogue = written(tmp_path)
    with Harness(catalogue) as harness:
        harness.add(app)
        planned = harness.clock.now
        harness.run_schedule("weekly")
        harness.advance(90)
        harness.run(raise_errors=False)
        [failure] = harness.get("failures").json["failures"]
        harness.advance(86_400)
        harness.post(f"failures/{failure['id']}/retry")
        harness.run()
        assert [at for at, _ in seen] == [planned] * 3
        assert seen[2][1] - planned > timedelta(days=1)
        send.call(pages=3).enqueue()
        harness.run()
        assert seen[3][0] is None


def press(overlap: Any) -> tuple[Function, list[Any], list[Callable[[], None]]]:
    """Return a function whose scheduled task does `meanwhile` once, and notes its planned times."""
    app, seen, meanwhile = Function("reports"), list[Any](), list[Callable[[], None]]()

    @app.schedule("0 0 * * 1", overlap=overlap)
    @app.task
    def send(context: TaskContext, pages: int) -> None:
        if meanwhile:
            meanwhile.pop()()
        seen.append(context.scheduled_at)

    return app, seen, meanwhile


@pytest.mark.parametrize(
    ("overlap", "statuses", "times"), [("allow", [204], 2), ("queue", [503], 2), ("skip", [204], 1)]
)
def test_the_task_of_a_time_overlaps_waits_or_is_left_out_while_that_of_another_runs(
    tmp_path: Path, overlap: str, statuses: list[int], times: int
) -> None:
    app, seen, meanwhile = press(overlap)
    with Harness(written(tmp_path)) as harness:
        harness.add(app)
        planned = harness.clock.now
        harness.run_schedule("weekly")
        first = harness.take("send")
        harness.advance(600)
        harness.run_schedule("weekly")
        second, found = harness.take("send"), list[int]()
        meanwhile.append(lambda: found.append(harness.deliver_task(second).status))
        assert harness.deliver_task(first).status == 204
        assert found == statuses
        if found == [503]:
            assert harness.deliver_task(second).status == 204
        assert sorted(seen) == [planned, planned + timedelta(seconds=600)][:times]
        harness.advance(600)
        harness.run_schedule("weekly")
        harness.run()
        assert len(seen) == times + 1, "later times run again"


def test_a_rule_for_overlaps_is_one_of_three_and_the_same_for_all_schedules_of_a_task() -> None:
    app, _, _ = press("skip")
    with pytest.raises(ValueError, match="write one of allow, queue, skip"):
        app.schedule("0 0 * * 1", overlap="wait")  # type: ignore[arg-type]  # a typo
    with pytest.raises(ValueError, match="several rules for an overlap"):
        app.schedule("0 1 * * 1", name="another", overlap="queue")(app.tasks["send"])

    @app.flow
    async def order() -> None: ...

    with pytest.raises(ValueError, match="overlap is for the schedule of a task"):
        app.schedule("0 1 * * 1", overlap="queue")(order)
    source = b"from signalbox import Function\napp = Function('a')\n@app.schedule('0 6 * * 1', overlap='skip')\n"
    usage = usage_of({"main.py": source + b"@app.task\ndef send(): ..."})
    assert usage.schedules["send"][1] == {"task": "send", "cron": "0 6 * * 1"}


def test_a_missed_time_is_made_up_for_once_and_one_that_ran_is_not(catalogue: Path) -> None:
    call = {"function": "reports", "task": "send", "payload": {"pages": 3}, "schedule": "weekly"}
    with Harness(catalogue) as harness:
        ran = harness.clock.now
        harness.run_schedule("weekly")
        missed = ran - timedelta(days=7)
        for at in (ran, missed, missed):
            assert harness.post("tasks", json=call | {"scheduled_at": at.isoformat()}).status == 202
        assert [task.context for task in harness.tasks] == [{"scheduled": rfc3339(at)} for at in (ran, missed)]


def test_the_time_of_a_schedule_has_one_form_and_the_name_of_the_catalogue(catalogue: Path) -> None:
    job = {"X-CloudScheduler-JobName": "projects/p/locations/l/jobs/weekly"}
    body = {"function": "reports", "task": "send", "payload": {"pages": 3}}
    with Harness(catalogue) as harness:
        for time in ("2026-01-05T00:00:00Z", "2026-01-05T01:00:00+01:00"):
            headers = job | {"X-CloudScheduler-ScheduleTime": time}
            assert harness.post("tasks", json=body, headers=headers).status == 202
        assert len(harness.tasks) == 1


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"schedule": "weekly"}, "schedule"),
        ({"schedule": "weekly", "scheduled_at": "2026-01-05T00:00:00Z", "id": "x"}, "schedule"),
        ({"scheduled_at": "monday"}, "scheduled_at"),
    ],
)
def test_a_backfill_without_a_time_or_with_an_id_is_refused(catalogue: Path, wrong: dict[str, str], field: str) -> None:
    with Harness(catalogue) as harness:
        answer = harness.post("tasks", json={"function": "reports", "task": "send", "payload": {"pages": 3}} | wrong)
        assert (answer.status, answer.json["field"]) == (400, field)


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
