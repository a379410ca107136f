"""A function reads what the deployment consists of once, when it needs it, and again if a name is not in it."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from signalbox import Function
from signalbox.adapters import deployed_catalogue, settings
from signalbox.adapters.cloud_tasks import CloudTasksQueue
from signalbox.adapters.deployed_catalogue import KEPT_SECONDS, PAUSE_SECONDS, CatalogueObject, check_deployed, fetched
from signalbox.adapters.http import caller_auth
from signalbox.adapters.http.caller_auth import FetchedKeys, IdentityTokens, PublicKeys
from signalbox.adapters.settings import Settings, from_environment
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import BadCall, Unavailable
from signalbox.flows.api.runs import function_of
from signalbox.objects.api import local_classes
from signalbox.testing import Harness
from signalbox.testing.recorded_log import RecordedLog
from signalbox.testing.simulated_cloud import application
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity, new_private_key

CONTENT: dict[str, Any] = {
    "format": 1,
    "task_functions": {"kitchen": ["cook"]},
    "task_queues": ["tasks"],
    "calling_queues": {"kitchen": ["tasks"], "semaphore_admit": ["admit"]},
    "object_classes": {"Pot": "kitchen"},
    "flow_functions": {"dinner": "kitchen"},
    "split_functions": ["kitchen"],
}
FROM_A_QUEUE = {"X-CloudTasks-QueueName": "tasks", "X-CloudTasks-TaskName": "t"}
OWN = from_environment({"SIGNALBOX_CATALOGUE": "bucket/catalogue.json", "K_SERVICE": "orders"})


def effect_of(function: str) -> Effect:
    if function == "semaphore_admit":
        return Effect("for-admit", "admit", function, "admit", {})
    return Effect(f"for-{function}", "tasks", function, "cook", {}, "/tasks/cook")


class Cloud:
    """An object that counts its reads, and a clock."""

    def __init__(self) -> None:
        self.content: Any = CONTENT
        self.reads = 0
        self.now = 1000.0
        self.object = CatalogueObject("bucket/catalogue.json", self._fetch, lambda: self.now)

    def settings(self, flow: str = "dinner") -> Settings:
        return self.object.settings(OWN, lambda known: flow in known.flow_functions)

    def _fetch(self, name: str) -> Any:
        assert name == "bucket/catalogue.json"
        self.reads += 1
        if isinstance(self.content, Exception):
            raise self.content
        return self.content


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    made = Cloud()
    monkeypatch.setattr(deployed_catalogue, "_copy_of", lambda _: made.object)
    before = settings.bind(OWN)
    yield made
    settings.bind(before)


def test_a_process_reads_it_once_and_again_after_five_minutes(cloud: Cloud) -> None:
    for _ in range(5):
        assert cloud.settings().flow_functions == {"dinner": "kitchen"}
    assert cloud.reads == 1
    cloud.content = CONTENT | {"flow_functions": {"dinner": "bistro"}}
    cloud.now += KEPT_SECONDS
    assert cloud.settings().flow_functions == {"dinner": "bistro"}
    assert cloud.reads == 2


def test_an_unknown_name_reads_it_again_but_not_more_often_than_a_limit(cloud: Cloud) -> None:
    cloud.settings()
    cloud.content = CONTENT | {"flow_functions": {"dinner": "kitchen", "lunch": "kitchen"}}
    assert "lunch" not in cloud.settings("lunch").flow_functions
    cloud.now += PAUSE_SECONDS
    assert "lunch" in cloud.settings("lunch").flow_functions
    assert cloud.reads == 2
    for _ in range(50):
        cloud.settings("breakfast")
        cloud.now += 1
    assert cloud.reads == 2 + 50 // PAUSE_SECONDS - 1


def test_what_was_read_is_used_as_long_as_a_newer_one_cannot_be(cloud: Cloud) -> None:
    cloud.settings()
    cloud.content = OSError("away")
    cloud.now += KEPT_SECONDS
    assert cloud.settings().flow_functions == {"dinner": "kitchen"}
    cloud.now += 0.5
    assert cloud.settings().flow_functions == {"dinner": "kitchen"}
    assert cloud.reads == 2


@pytest.mark.parametrize(
    "content", [OSError("404"), {}, [], CONTENT | {"format": 2}, CONTENT | {"task_functions": None}]
)
def test_what_was_never_read_is_asked_for_again(cloud: Cloud, content: Any) -> None:
    cloud.content = content
    with pytest.raises(Unavailable, match=r"bucket/catalogue\.json in Cloud Storage.*deploy again"):
        cloud.settings()
    with pytest.raises(Unavailable, match="deploy again"):
        cloud.settings()
    assert cloud.reads == 1
    cloud.content = CONTENT
    cloud.now += 1
    assert cloud.settings().split_functions == {"kitchen"}


def test_what_the_environment_has_is_kept_and_a_local_stack_reads_nothing(cloud: Cloud) -> None:
    assert cloud.settings().with_catalogue(CONTENT | {"later": 1}).catalogue == "bucket/catalogue.json"
    local = from_environment({})
    assert deployed_catalogue.catalogue_settings(local, lambda _: False) is local


def test_calls_flows_and_objects_of_other_functions_are_found(cloud: Cloud) -> None:
    check_deployed(continuation=Call("kitchen", "cook", {}))
    assert function_of("dinner") == local_classes.get().function_of("Pot") == "kitchen"
    assert cloud.reads == 1
    with pytest.raises(BadCall, match=r"no task of kitchen named 'wash'. Known: cook"):
        check_deployed(continuation=Call("kitchen", "wash", {}))
    cloud.now += PAUSE_SECONDS
    cloud.content = CONTENT | {"task_functions": {"kitchen": ["cook", "wash"]}}
    check_deployed(continuation=Call("kitchen", "wash", {}))


def test_a_task_goes_to_the_private_half_of_a_function_that_is_deployed_twice(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    queue = CloudTasksQueue(OWN, RecordedLog())

    def outcomes(requests: list[Any]) -> list[None]:
        sent.extend(requests)
        return [None] * len(requests)

    monkeypatch.setattr(queue, "_outcomes", outcomes)
    queue.create([effect_of("semaphore_admit")])
    assert cloud.reads == 0  # the kit's own functions are never open
    queue.create([effect_of("kitchen"), effect_of("semaphore_admit")])
    assert [each["task"]["http_request"]["url"].split("/")[3] for each in sent] == [
        "semaphore-admit",
        "kitchen-tasks",
        "semaphore-admit",
    ]
    assert cloud.reads == 1


class _Google(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.endswith("/token"):
            answer = {"access_token": "t"} if self.headers["Metadata-Flavor"] == "Google" else {}
        else:
            assert self.headers["Authorization"] == "Bearer t"
            answer = {"path": self.path}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        pass


def test_it_is_read_as_the_functions_own_account(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Google) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("METADATA_URL", "STORAGE_URL"):
            monkeypatch.setattr(deployed_catalogue, name, f"http://127.0.0.1:{server.server_port}")
        assert fetched("b-1/catalogue.json") == {"path": "/storage/v1/b/b-1/o/catalogue.json?alt=media"}
        server.shutdown()


def test_a_task_that_the_catalogue_has_waits_for_its_code_however_long_the_deployment_takes(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    kitchen = Function("kitchen")

    @kitchen.task
    def cook(dish: str) -> None:
        pass

    cloud.content = CONTENT | {
        "task_functions": {"kitchen": ["cook", "wash"]},
        "task_parameters": {"kitchen": {"cook": ["dish", "salt?"], "wash": ["pot"]}},
    }
    identity = Identity(new_private_key())
    keys = PublicKeys("", lambda _: FetchedKeys(identity.certs()))
    monkeypatch.setattr(caller_auth, "_tokens", lambda: IdentityTokens(keys, signatures_removed=False))
    token = identity.token("tasks@p.example", "https://kitchen.example", time.time())
    with Harness() as harness:
        account: dict[str, Any] = {"function_url": "https://{function}.example", "tasks_account": "tasks@p.example"}
        settings.bind(replace(OWN, **account))

        def delivered(task: str, **payload: Any) -> int:
            body = {"operation": f"{task} {list(payload)}", "task": task, "payload": payload}
            counts = {"X-CloudTasks-TaskExecutionCount": "3", "X-CloudTasks-TaskRetryCount": "4"}
            client = application(kitchen).test_client()
            headers = {**FROM_A_QUEUE, **counts, "Authorization": f"Bearer {token}"}
            return client.post(f"/tasks/{task}", json=body, headers=headers).status_code

        calls: list[tuple[str, dict[str, Any]]] = [
            ("wash", {"pot": 1}),
            ("cook", {"dish": "a", "salt": 1}),
            ("wsah", {"pot": 1}),
            ("cook", {"dish": 1}),
        ]
        assert [delivered(task, **payload) for task, payload in calls] == [503] * 4
        harness.travel(CORE_LIMITS.deployment_seconds + 1)
        assert [delivered(task, **payload) for task, payload in calls] == [503, 503, 204, 204]
