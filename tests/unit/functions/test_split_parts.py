"""A function that is open and has tasks, served in two parts: people reach no task, and tasks reach nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from werkzeug.test import Client

from signalbox import Function
from signalbox.adapters import runtime
from signalbox.adapters import settings as adapters_settings
from signalbox.adapters.cloud_tasks import task_request
from signalbox.adapters.settings import from_environment
from signalbox.catalogue.reading import Catalogue, load
from signalbox.core.effects import Effect
from signalbox.testing import Harness, user_token
from signalbox.testing.platform import application
from signalbox_infra.local.functions.server import mounted
from signalbox_infra.local.services.environment import SCHEDULER_ACCOUNT, TASKS_ACCOUNT, settings_of

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
    """Return a client of the local stack's server, which asks no token of tasks here."""
    with Harness() as harness:
        adapters_settings.bind(replace(settings_of(catalogue), tasks_account=""))
        yield Client(mounted(catalogue))
        assert harness.tasks == []


def statuses(client: Client, path: str) -> dict[str, int]:
    ann = {"Authorization": f"Bearer {user_token('ann')}"}
    callers: dict[str, dict[str, str]] = {"ann": ann, "anybody": {}, "a queue": FROM_A_QUEUE}
    return {name: client.post(path, json=TASK, headers=headers).status_code for name, headers in callers.items()}


def test_people_reach_the_routes_and_no_task(client: Client) -> None:
    assert statuses(client, "/notes") == {"ann": 200, "anybody": 401, "a queue": 403}
    assert statuses(client, "/notes/tasks/index") == {"ann": 404, "anybody": 401, "a queue": 403}


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
