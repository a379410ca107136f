"""A function that is open and has tasks, served in two parts: people reach no task, and tasks reach nothing else."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest
import yaml
from werkzeug.test import Client

from signalbox import Function
from signalbox.adapters import runtime
from signalbox.adapters import settings as adapters_settings
from signalbox.adapters.cloud_tasks import QueueRefused, task_request
from signalbox.adapters.http import caller_auth, task_deliveries
from signalbox.adapters.http.caller_auth import FetchedKeys, IdentityTokens, PublicKeys
from signalbox.adapters.http.cloud_run import SIGNATURE_REMOVED
from signalbox.adapters.http.task_deliveries import task_entry
from signalbox.adapters.settings import from_environment
from signalbox.catalogue.reading import Catalogue, load
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect, TaskEnvelope
from signalbox.testing import Harness, user_token
from signalbox.testing.simulated_cloud import application
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity, new_private_key
from signalbox_tools.local.functions.server import mounted
from signalbox_tools.local.services.function_settings import SCHEDULER_ACCOUNT, TASKS_ACCOUNT, settings_of

MAIN = """
from signalbox import Function, Request, documents

app = Function("notes")

@app.http("POST")
def write(request: Request) -> dict:
    return {"user": request.user.id}

@app.task
def index(note: str) -> None:
    documents.put(note, {"indexed": True})

notes = app.entry_point()
"""
QUEUE = {
    "dispatches_per_second": 100,
    "concurrent_max": 8,
    "attempts_max": -1,
    "backoff_min_seconds": 0.2,
    "backoff_max_seconds": 60,
    "doublings_max": 8,
}
FROM_A_QUEUE = {"X-CloudTasks-QueueName": "tasks", "X-CloudTasks-TaskName": "t"}
TASK = {"operation": "o", "task": "index", "payload": {"note": "n"}}


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    root = tmp_path_factory.mktemp("project")
    for folder in ("notes", "infra"):
        (root / folder).mkdir()
    (root / "notes" / "main.py").write_text(MAIN)
    entry = {"folder": "notes", "invoked_by": ["people", "queue"], "tasks": ["index"], "auth": "firebase"}
    (root / "infra" / "catalogue.yaml").write_text(
        yaml.safe_dump({"functions": {"notes": entry}, "queues": {"links": QUEUE, "tasks": QUEUE}})
    )
    return load(root / "infra" / "catalogue.yaml")


@pytest.fixture
def client(catalogue: Catalogue) -> Iterator[Client]:
    """Return a client of the local stack's server, which here requires no token for tasks."""
    with Harness() as harness:
        adapters_settings.bind(replace(settings_of(catalogue), tasks_account=""))
        yield Client(mounted(catalogue))
        assert [effect.operation for effect in harness.tasks] in ([], ["o"])


def statuses(client: Client, path: str) -> dict[str, int]:
    ann = {"Authorization": f"Bearer {user_token('ann')}"}
    callers: dict[str, dict[str, str]] = {"ann": ann, "anybody": {}, "a queue": FROM_A_QUEUE}
    return {name: client.post(path, json=TASK, headers=headers).status_code for name, headers in callers.items()}


def test_people_reach_the_routes_and_no_task(client: Client) -> None:
    assert statuses(client, "/notes") == {"ann": 200, "anybody": 401, "a queue": 401}
    assert statuses(client, "/notes/tasks/index") == {"ann": 404, "anybody": 401, "a queue": 204}  # it is forwarded
    assert next(iter(runtime.ports().store.read("documents/n"))).data is None


def test_tasks_are_called_at_an_address_of_their_own_where_nothing_else_is(client: Client) -> None:
    assert statuses(client, "/notes-tasks/tasks/index") == {"ann": 404, "anybody": 404, "a queue": 204}
    assert statuses(client, "/notes-tasks") == {"ann": 404, "anybody": 404, "a queue": 404}
    [snapshot] = runtime.ports().store.read("documents/n")
    assert snapshot.data is not None


def test_the_list_of_functions_names_what_people_call(client: Client) -> None:
    answer = client.get("/")
    assert answer.json is not None
    assert [*answer.json["functions"]] == ["notes"]


@pytest.mark.parametrize(("part", "route", "task"), [("", 204, 204), ("people", 204, 404), ("tasks", 404, 204)])
def test_a_deployed_half_answers_its_own_callers_only(part: str, route: int, task: int) -> None:
    app = Function("walks")
    app.http("POST")(lambda _: None)

    @app.task
    def go() -> None:
        """Do nothing."""

    with Harness():
        adapters_settings.bind(from_environment({"SIGNALBOX_PART": part}))
        client = application(app).test_client()
        body = TASK | {"task": "go", "payload": {}}
        assert [client.post(path, json=body).status_code for path in ("/", "/tasks/go")] == [route, task]


def test_a_task_is_sent_to_the_private_half_with_a_token_for_it(catalogue: Catalogue) -> None:
    settings = replace(settings_of(catalogue), function_url="https://{function}.example")
    effect = Effect("e", "tasks", "notes", "index", {}, path="/tasks/index")
    request: dict[str, Any] = task_request(settings, effect, "")["task"]["http_request"]
    account = TASKS_ACCOUNT.replace("{queue}", "tasks")
    assert request["url"] == "https://notes-tasks.example/tasks/index"
    assert request["oidc_token"] == {"service_account_email": account, "audience": "https://notes-tasks.example"}
    assert SCHEDULER_ACCOUNT != TASKS_ACCOUNT
    assert Path(catalogue.functions["notes"].folder).name == "notes"


TOKENS = Identity(new_private_key())
UNSIGNED = (
    TOKENS.token("qu-tasks@p.example", "https://walks.example", time.time()).rpartition(".")[0] + SIGNATURE_REMOVED
)
CLOUD = {
    "SIGNALBOX_FUNCTION_URL": "https://{function}.example",
    "SIGNALBOX_TASKS_ACCOUNT": "qu-{queue}@p.example",
    "SIGNALBOX_CALLING_QUEUES": '{"walks": ["tasks"]}',
    "SIGNALBOX_SPLIT_FUNCTIONS": '["walks"]',
    "SIGNALBOX_PART": "people",
    "K_SERVICE": "walks",
}
OLD, NEW = "https://walks.example", "https://walks-tasks.example"
COUNTS = {"X-CloudTasks-TaskExecutionCount": "3", "X-CloudTasks-TaskRetryCount": "4"}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Harness, Any]]:
    """Return the part for people of a function that has become open, in the cloud, and a client of it."""
    keys = PublicKeys("", lambda _: FetchedKeys(TOKENS.certs()))
    monkeypatch.setattr(caller_auth, "_tokens", lambda: IdentityTokens(keys, signatures_removed=False))
    with Harness() as harness:
        adapters_settings.bind(from_environment(CLOUD))
        yield harness, application(Function("walks")).test_client()


def from_queue(audience: str = OLD, account: str = "qu-tasks@p.example") -> dict[str, str]:
    """Return the headers of a task that a queue has delivered four times before."""
    return {**FROM_A_QUEUE, **COUNTS, "Authorization": f"Bearer {TOKENS.token(account, audience, time.time())}"}


@pytest.mark.parametrize("path", ["/tasks/go", "/turns"])
def test_a_task_from_before_the_function_was_open_is_enqueued_for_its_new_address(
    opened: tuple[Harness, Any], path: str
) -> None:
    harness, client = opened
    body = {"operation": "o", "task": "go", "payload": {"n": 1}, "lease": {"id": "l"}}
    statuses = [client.post(path, json=body, headers=from_queue()).status_code for _ in range(2)]  # delivered twice
    assert (statuses, len(harness.tasks)) == ([204, 204], 1)
    [effect] = harness.tasks
    request = task_request(adapters_settings.settings(), effect, "")["task"]["http_request"]
    assert request["url"] == NEW + path
    assert request["oidc_token"] == {"service_account_email": "qu-tasks@p.example", "audience": NEW}
    delivered = TaskEnvelope.from_json(json.loads(request["body"]))
    assert (delivered.operation, delivered.name, delivered.payload) == ("o", "go", {"n": 1})
    assert delivered.context == {"lease": {"id": "l"}, "forwarded": [3, 4]}


def test_a_forwarded_task_counts_its_earlier_deliveries() -> None:
    found: list[Delivered[Any]] = []
    with (
        Harness(),
        flask.Flask("x").test_request_context(
            method="POST", json={"operation": "o", "task": "go", "payload": {}, "forwarded": [3, 4]}, headers=COUNTS
        ),
    ):
        task_entry("walks")(lambda _, delivered: found.append(delivered))(flask.request)
    assert [(each.executions, each.retries, each.context) for each in found] == [(6, 8, {})]


def test_a_time_that_has_waited_keeps_its_turn_at_the_new_address(opened: tuple[Harness, Any]) -> None:
    harness, client = opened
    body = {"operation": "o", "task": "go", "payload": {}, "forwarded": [1, 2], "turns": 3}
    assert client.post("/tasks/go", json=body, headers=from_queue()).status_code == 204
    [effect] = harness.tasks
    sent = json.loads(task_request(adapters_settings.settings(), effect, "")["task"]["http_request"]["body"])
    with flask.Flask("x").test_request_context(method="POST", json=sent):
        delivered = task_deliveries._delivered("walks", flask.request)
    assert (delivered.turns, delivered.context) == (3, {})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-CloudTasks-QueueName": "tasks"}, 401),
        (from_queue(audience=NEW), 401),
        (from_queue(account="ann@p.example"), 403),
        ({**from_queue(), "Authorization": "Bearer " + UNSIGNED}, 401),
        ({}, 404),
    ],
)
def test_only_a_signed_token_of_its_queue_for_the_old_address_is_forwarded(
    opened: tuple[Harness, Any], headers: dict[str, str], status: int
) -> None:
    harness, client = opened
    assert client.post("/tasks/go", json=TASK, headers=headers).status_code == status
    assert harness.tasks == []


def test_a_task_that_the_queue_refuses_is_not_acknowledged(
    opened: tuple[Harness, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = opened

    def refuse(_: Any) -> None:
        raise QueueRefused("too large", ())

    monkeypatch.setattr(type(runtime.ports().queue), "create", lambda _, effects: refuse(effects))
    assert client.post("/tasks/go", json=TASK, headers=from_queue()).status_code == 503
