"""`signalbox status`: what a deployment and a local stack report, and that a part that fails hides no other."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from signalbox.catalogue.reading import load
from signalbox.core.times import rfc3339
from signalbox.objects.model import method_call
from signalbox_tools.cli.main import main
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import Outcome
from signalbox_tools.local.folder.running_stack import NoStack, RunningStack
from signalbox_tools.local.scheduler import PAUSED_FILE
from signalbox_tools.status import local_status
from signalbox_tools.status.cloud_status import CloudQueues, CloudSchedules, CloudSource
from signalbox_tools.status.local_status import LocalSource
from signalbox_tools.status.status_lines import Objects, QueueNow, lines_of, schedules
from tests.unit.objects.accounts import Objects as ObjectsInMemory
from tests.unit.operations_platform import OperationsPlatform

TARGET = Target("demo-project", "dev", "us-central1", {"prefix": "dev"})


def test_a_shard_that_the_catalogue_no_longer_has_is_shown_with_its_tasks() -> None:
    """Its queue was given fewer shards: it stays until it is deleted, and may have tasks."""
    names = ("dev-links", "dev-links-3", "links-3", "dev-another")
    listed = [{"name": f"p/queues/{name}", "state": "RUNNING"} for name in names]
    left = {"tasks queues list": listed, "tasks list --queue=dev-links": [{}]}
    source = CloudSource(TARGET, Gcloud(**left), CloudTasks(*listed))
    assert [(each.name, each.waiting) for each in source.queues()] == [("dev-links", 1), ("dev-links-3", 1)]
    assert [each.name for each in source.queues_now()] == ["links", "links-3"]


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def deployed(name: str) -> dict[str, str]:
    return {"name": f"projects/p/locations/us-central1/functions/dev-{name.replace('_', '-')}", "state": "ACTIVE"}


def answers() -> dict[str, Any]:
    """Return gcloud's current output, by the beginning of its command."""
    return {
        "functions list": [deployed(name) for name in load().functions if name != "sweep"] + [deployed("../prod")],
        "tasks queues list": [
            {"name": "projects/p/locations/r/queues/dev-tasks", "state": "RUNNING"},
            {"name": "projects/p/locations/r/queues/dev-links", "state": "PAUSED"},
            {"name": "projects/p/locations/r/queues/tasks", "state": "RUNNING"},
        ],
        "tasks list --queue=dev-tasks": [{}] * 3,
        "tasks list --queue=dev-links": [{}] * 1_000,
        "auth print-access-token": "a-token",
        "scheduler jobs describe dev-sweep": {"lastAttemptTime": ago(130), "status": {}},
        "logging read": [
            {"jsonPayload": {"message": "newest", "function": "albums"}, "severity": "ERROR", "timestamp": ago(1)},
            {"textPayload": "plain\n", "resource": {"labels": {"service_name": "dev-albums"}}, "timestamp": ago(2)},
        ],
    }


class Gcloud:
    """Answers commands by how they begin; None fails."""

    def __init__(self, **changes: Any) -> None:
        self.answers = answers() | changes
        self.calls: list[str] = []

    def __call__(self, command: Sequence[str], **_: Any) -> Outcome:
        call = " ".join(command[1:])
        self.calls.append(call)
        answer = next(answer for begin, answer in self.answers.items() if call.startswith(begin))
        if answer is None:
            return Outcome(1, error=f"ERROR: {call}")
        return Outcome(0, answer if isinstance(answer, str) else json.dumps(answer))


DOCUMENTS = "projects/demo-project/databases/dev/documents"


def failure(task: str, problem: str) -> dict[str, Any]:
    call = {"task": {"stringValue": task}, "delay_seconds": {"integerValue": "0"}}
    fields: dict[str, Any] = {"call": {"mapValue": {"fields": call}}, "problem": {"stringValue": problem}}
    return {"fields": fields}


class Firestore:
    """Answers queries by their collection, and counts by the record that they are below."""

    def __init__(self, **records: Sequence[Mapping[str, Any]]) -> None:
        self._records = records
        self.waiting: dict[str, int] = {}

    def __call__(self, url: str, _: str, body: Mapping[str, Any]) -> Any:
        if url.endswith(":runAggregationQuery"):
            below = url.partition("/documents/")[2].partition(":")[0]
            return [{"result": {"aggregateFields": {"n": {"integerValue": str(self.waiting[below])}}}}]
        [source] = body["structuredQuery"]["from"]
        found: list[Any] = [{"document": each} for each in self._records.get(source["collectionId"], ())]
        return found or [{"readTime": ago(0)}]


class Monitoring:
    """Answers Cloud Monitoring's lists of time series, one series a page."""

    def __init__(self, *series: tuple[str, str, Mapping[int, int]]) -> None:
        self._series = series
        self.asked: list[Mapping[str, list[str]]] = []

    def __call__(self, url: str, _: str, body: Mapping[str, Any]) -> Any:
        assert body == {}
        at = urlsplit(url)
        assert f"{at.netloc}{at.path}" == "monitoring.googleapis.com/v3/projects/demo-project/timeSeries"
        asked = parse_qs(at.query)
        self.asked.append(asked)
        if not self._series:
            return {}
        page = int(asked.get("pageToken", ["0"])[0])
        service, kind, counts = self._series[page]
        until = datetime.fromisoformat(asked["interval.endTime"][0])
        points = [
            {"interval": {"endTime": rfc3339(until - timedelta(minutes=ago))}, "value": {"int64Value": str(count)}}
            for ago, count in counts.items()
        ]
        labels = {
            "resource": {"labels": {"service_name": service}},
            "metric": {"labels": {"response_code_class": kind}},
        }
        more = {"nextPageToken": str(page + 1)} if page + 1 < len(self._series) else {}
        return {"timeSeries": [{**labels, "points": points}], **more}


def test_the_requests_of_the_last_hour_are_read_from_monitoring_by_function_and_minute() -> None:
    monitoring = Monitoring(
        ("dev-documents", "2xx", {0: 5, 2: 1, 60: 9}), ("dev-documents", "5xx", {0: 2}), ("dev-sweep", "2xx", {59: 1})
    )
    minutes = CloudSource(TARGET, Gcloud(), monitoring).minutes()
    documents, sweep = minutes["functions"]
    assert (documents["function"], documents["requests"][-3:]) == ("documents", [1, 0, 7])
    assert (sum(documents["requests"]), documents["failed"][-3:], sum(documents["failed"])) == (8, [0, 0, 2], 2)
    assert (sweep["function"], sweep["requests"]) == ("sweep", [1] + 59 * [0])
    assert minutes["until"] % 60 == 0
    [first, *_] = monitoring.asked
    assert first["aggregation.groupByFields"] == ["resource.label.service_name", "metric.label.response_code_class"]
    [services] = re.findall(r"service_name=one_of\((.+)\)$", first["filter"][0])
    assert '"dev-documents"' in services.split(",")
    assert CloudSource(TARGET, Gcloud(), Monitoring()).minutes()["functions"] == []


def test_the_filter_of_many_functions_stays_under_the_limit_of_cloud_monitoring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalogue = TARGET.catalogue
    own = {f"own_function_number_{n:03}": catalogue.functions["tasks"] for n in range(200)}
    many = dataclasses.replace(catalogue, functions={**catalogue.functions, **own})
    monkeypatch.setattr(type(TARGET), "catalogue", property(lambda _: many))
    CloudSource(TARGET, Gcloud(), monitoring := Monitoring()).minutes()
    filters = [each["filter"][0] for each in monitoring.asked]
    assert max(map(len, filters)) <= 2_048
    assert all(f'"dev-{name.replace("_", "-")}"' in " ".join(filters) for name in many.functions)


class CloudTasks:
    """Answers Cloud Tasks' list of queues with their statistics, one queue a page."""

    def __init__(self, *queues: Mapping[str, Any]) -> None:
        self._queues = queues

    def __call__(self, url: str, token: str, body: Mapping[str, Any]) -> Any:
        at, asked = urlsplit(url), parse_qs(urlsplit(url).query)
        where = "cloudtasks.googleapis.com/v2beta3/projects/demo-project/locations/us-central1/queues"
        assert (f"{at.netloc}{at.path}", token, body) == (where, "a-token", {})
        assert asked["readMask"] == ["name,state,stats"]
        page = int(asked.get("pageToken", ["0"])[0])
        more = {"nextPageToken": str(page + 1)} if page + 1 < len(self._queues) else {}
        return {"queues": self._queues[page : page + 1], **more}


def test_the_schedules_that_are_paused_are_read_and_one_is_resumed() -> None:
    asked: list[str] = []

    def fetch(url: str, *_: Any) -> Any:
        asked.append(urlsplit(url).path)
        jobs = [{"name": "p/jobs/dev-sweep", "state": "PAUSED"}, {"name": "p/jobs/sweep", "state": "PAUSED"}]
        return {"jobs": [*jobs, {"name": "p/jobs/dev-other", "state": "ENABLED"}]}

    gcloud = Gcloud(**{"scheduler jobs resume": ""})
    schedules = CloudSchedules(lambda: CloudSource(TARGET, gcloud, fetch))
    assert schedules.paused() == ["sweep"]
    assert asked == ["/v1/projects/demo-project/locations/us-central1/jobs"]
    schedules.resume("sweep")
    assert gcloud.calls[-1].startswith("scheduler jobs resume dev-sweep --location=us-central1")
    paused = {line.name: (line.text, line.well) for line in lines_of(CloudSource(TARGET, gcloud, fetch))}
    assert paused["schedule sweep"] == ("paused", False)


def test_queues_are_read_with_their_depth_their_rate_and_since_when_the_oldest_task_is_due() -> None:
    stats = {"tasksCount": "12", "concurrentDispatchesCount": "2", "executedLastMinuteCount": "90"}
    stats["oldestEstimatedArrivalTime"] = ago(5)
    queues = CloudQueues(
        lambda: CloudSource(
            TARGET,
            Gcloud(),
            CloudTasks(
                {
                    "name": "p/queues/dev-tasks",
                    "state": "RUNNING",
                    "stats": stats | {"oldestEstimatedArrivalTime": ago(5)},
                },
                {"name": "p/queues/dev-links", "state": "PAUSED", "stats": {"oldestEstimatedArrivalTime": ago(-9)}},
                {"name": "p/queues/tasks", "state": "RUNNING"},  # of another environment
            ),
        )
    )
    links, tasks = queues.now()
    assert links == QueueNow("links", 0, 0, None, 0, "paused")
    assert (tasks.name, tasks.tasks, tasks.running, tasks.per_minute, tasks.state) == ("tasks", 12, 2, 90, "running")
    assert tasks.oldest_seconds is not None
    assert 5 <= tasks.oldest_seconds < 60


def test_a_queue_is_paused_and_resumed_by_its_name_in_the_cloud() -> None:
    gcloud = Gcloud(**{"tasks queues pause": "", "tasks queues resume": ""})
    queues = CloudQueues(lambda: CloudSource(TARGET, gcloud))
    queues.pause("tasks")
    queues.resume("tasks")
    assert gcloud.calls == [
        f"tasks queues {change} dev-tasks --quiet --location=us-central1 --project=demo-project"
        for change in ("pause", "resume")
    ]


def lines_by_name(gcloud: Gcloud, firestore: Firestore) -> dict[str, tuple[str, bool]]:
    return {line.name: (line.text, line.well) for line in lines_of(CloudSource(TARGET, gcloud, firestore))}


def shown(gcloud: Gcloud, *ages: float) -> dict[str, tuple[str, bool]]:
    return lines_by_name(gcloud, Firestore(outbox=[{"createTime": ago(age)} for age in ages]))


def stuck_flows(*ids: str) -> tuple[str, bool]:
    cards = [{"name": f"{DOCUMENTS}/flows/{each}"} for each in ids]
    return lines_by_name(Gcloud(), Firestore(flows=cards))["stuck flows"]


def test_flows_that_are_stuck_are_counted_and_the_first_are_named() -> None:
    assert stuck_flows() == ("none", True)
    assert stuck_flows("checkout~7") == ("1: checkout/7", False)
    many = [f"checkout~{number}" for number in range(5)]
    assert stuck_flows(*many) == ("5: checkout/0, checkout/1, checkout/2, …", False)


def test_a_deployment_shows_its_functions_queues_outbox_sweep_and_errors() -> None:
    lines = shown(Gcloud(), 5, 400)
    assert lines["dev-documents"] == ("active", True)
    assert lines["dev-sweep"] == ("not deployed", False)
    assert lines["queue dev-tasks"] == ("3 waiting", True)
    assert lines["queue dev-links"] == ("1,000+ waiting, paused", False)
    assert "queue tasks" not in lines
    assert lines["outbox"] == ("2 records, the oldest 7 min old", False)
    assert lines["last sweep"] == ("2 min ago", True)
    assert lines["recent errors"] == ("2", False)


def test_what_is_well_is_shown_as_such() -> None:
    failing = {"lastAttemptTime": ago(30), "status": {"code": 13}}
    assert shown(Gcloud())["outbox"] == ("empty", True)
    assert shown(Gcloud(**{"logging read": []}))["recent errors"] == ("none", True)
    assert shown(Gcloud(**{"scheduler jobs describe dev-sweep": failing}))["last sweep"][1] is False


def test_a_part_that_cannot_be_read_says_why_and_hides_no_other() -> None:
    lines = shown(Gcloud(**{"tasks queues list": None}))
    assert "cannot be read: ERROR: tasks queues list" in lines["queues"][0]
    assert lines["last sweep"] == ("2 min ago", True)


def test_waiting_calls_of_objects_are_counted_and_those_given_up_are_not_well() -> None:
    cards = [{"name": f"{DOCUMENTS}/objects/Account~{key}"} for key in ("a", "b c")]
    given_up = [failure("call_object", "gave-up"), failure("call_object", "not-found"), failure("send", "gave-up")]
    firestore = Firestore(objects=cards, failures=given_up)
    firestore.waiting = {"objects/Account~a": 3, "objects/Account~b%20c": 4}
    assert lines_by_name(Gcloud(), firestore)["objects"] == ("2, 7 calls wait at them, 1 given up", False)
    assert shown(Gcloud())["objects"] == ("none", True)
    firestore = Firestore(objects=cards[:1] * 50)
    firestore.waiting = {"objects/Account~a": 0}
    assert lines_by_name(Gcloud(), firestore)["objects"] == ("50+, 0 calls wait at them, 0 given up", True)


def test_a_local_stack_counts_waiting_calls_of_objects_in_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = ObjectsInMemory(OperationsPlatform())
    monkeypatch.setattr(local_status, "local_store", lambda *_: objects.ports.store)
    source = LocalSource(RunningStack("", 1, "http://127.0.0.1:9/", "sqlite", "", "", {}))
    assert source.objects() == Objects(0, 0, 0)
    for key in ("a", "b"):
        objects.call(key, "c", "add", who="x")
    objects.post("a", "p", method_call("add", {"who": "y"}))
    objects.post("b", "p", method_call("add", {"who": "y"}), delay_seconds=60)
    assert source.objects() == Objects(2, 2, 0)


def test_the_log_of_a_deployment_is_of_its_functions_and_the_newest_comes_last() -> None:
    gcloud = Gcloud()
    entries = CloudSource(TARGET, gcloud).log("severity>=ERROR", 7)
    assert [entry.get("text", entry["message"]) for entry in entries] == ["plain", "newest"]
    assert entries[0]["function"] == "dev-albums"
    assert 'resource.labels.service_name=("dev-accounts" OR ' in gcloud.calls[0]
    assert "--limit=7" in gcloud.calls[0]


def test_the_paused_schedules_of_a_local_stack_are_lines_of_its_status(tmp_path: Path) -> None:
    source = LocalSource(RunningStack(str(tmp_path), 1, "http://127.0.0.1:9/", "sqlite", "", "", {}))
    assert list(schedules(source)) == []
    for name in ("shop-tick", "shop-tock"):
        (tmp_path / PAUSED_FILE.format(name)).touch()
    assert [(line.name, line.text, line.well) for line in schedules(source)] == [
        ("schedule shop-tick", "paused", False),
        ("schedule shop-tock", "paused", False),
    ]


def test_a_stack_that_has_ended_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NoStack, match="signalbox dev"):
        RunningStack.of(tmp_path)


def test_the_log_of_a_local_stack_shows_the_last_sweep_and_errors(tmp_path: Path) -> None:
    lines = [
        {"message": "handled", "function": "sweep", "status": 204, "time": ago(10)},
        {"message": "unhandled exception", "severity": "ERROR", "function": "albums", "time": ago(5)},
    ]
    (tmp_path / "functions.log").write_text("noise\n" + "".join(json.dumps(line) + "\n" for line in lines))
    source = LocalSource(RunningStack(str(tmp_path), 1, "http://127.0.0.1:9/", "sqlite", "", "", {}))
    last = source.last_sweep()
    assert last is not None
    assert 5 < (last.seconds_ago or 0) < 60
    without = RunningStack(str(tmp_path), 1, "http://127.0.0.1:9/", "sqlite", "", "", {"SIGNALBOX_PARTS": "[]"})
    assert LocalSource(without).last_sweep() is None
    assert [entry["function"] for entry in source.errors()] == ["albums"]


@pytest.mark.parametrize("command", [["status"], ["logs"], ["console"], ["flow", "checkout/order-7"]], ids=" ".join)
@pytest.mark.parametrize(
    ("installed", "said"),
    [
        (True, "gcloud has no active account. Run `gcloud auth login`, then this command again.\n"),
        (False, "gcloud is not on the PATH. Install it: https://cloud.google.com/sdk/docs/install\n"),
    ],
    ids=["no account", "no gcloud"],
)
def test_without_a_login_each_command_says_in_one_line_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    installed: bool,
    said: str,
) -> None:
    if installed:  # it lists no account, as `gcloud auth list` does after a new installation
        (tmp_path / "gcloud").write_text("#!/bin/sh\n")
        (tmp_path / "gcloud").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*command, "--project=my-project"]) == 1
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", said)
