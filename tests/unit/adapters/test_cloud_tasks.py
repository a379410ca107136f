"""The tasks that Cloud Tasks receives, seen from the server."""

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.cloud import tasks_v2

from signalbox.adapters.cloud_tasks import CloudTasksQueue, QueueRefused, task_request
from signalbox.adapters.cost_meter import MeteredQueue
from signalbox.adapters.logs import JsonLog, traced
from signalbox.adapters.settings import Settings, from_environment
from signalbox.core.effects import Effect
from signalbox.core.problems import DeploymentCannotEnqueue, PartlyEnqueued, Unavailable

QUEUE = "projects/p/locations/us-central1/queues/x-links"
TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


class Service:
    """Cloud Tasks' CreateTask, which answers what the test wants."""

    def __init__(self, address: str = "127.0.0.1:0") -> None:
        self.created: list[Any] = []
        self.routes: set[str] = set()
        self.refusals: dict[str, list[grpc.StatusCode]] = {}
        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool)
        handler = grpc.unary_unary_rpc_method_handler(
            self._create_task, tasks_v2.CreateTaskRequest.pb().FromString, lambda task: task.SerializeToString()
        )
        service = grpc.method_handlers_generic_handler("google.cloud.tasks.v2.CloudTasks", {"CreateTask": handler})
        self._server.add_generic_rpc_handlers((service,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port(address)}"
        self._server.start()
        self._one_at_a_time = threading.Lock()

    def _create_task(self, request: Any, context: grpc.ServicerContext) -> Any:
        with self._one_at_a_time:
            self.created.append(request)
            self.routes.add(str(dict(context.invocation_metadata())["x-goog-request-params"]))
            refusals = self.refusals.get(request.task.name.rpartition("/")[2], [])
            refusal = refusals.pop(0) if refusals else None
        if refusal is not None:
            context.abort(refusal, "no")
        return request.task

    def names(self) -> list[str]:
        return sorted(request.task.name.rpartition("/")[2] for request in self.created)

    def stop(self) -> None:
        self._server.stop(None).wait()
        self._pool.shutdown()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.stop()


def settings(address: str = "") -> Settings:
    return from_environment(
        {
            "SIGNALBOX_PROJECT": "p",
            "CLOUD_TASKS_EMULATOR_HOST": address,
            "SIGNALBOX_QUEUE_PREFIX": "x-",
            "SIGNALBOX_FUNCTION_URL": "https://{function}.example",
        }
    )


def effect(name: str, **more: Any) -> Effect:
    return Effect(name, "links", "link_refresh", "page", {"key": "é"}, **more)


def create(service: Service, effects: Sequence[Effect]) -> None:
    CloudTasksQueue(settings(service.address), JsonLog("p")).create(effects)


def test_an_effect_becomes_a_named_task_that_posts_its_envelope(service: Service) -> None:
    at = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    create(service, [replace(effect("a", path="/tasks/page", not_before=at, trace=TRACE), function="shop_front")])
    [request] = service.created
    call = request.task.http_request
    assert (request.parent, request.task.name) == (QUEUE, f"{QUEUE}/tasks/a")
    assert (call.url, call.http_method) == ("https://shop-front.example/tasks/page", tasks_v2.HttpMethod.POST)
    assert json.loads(call.body) == {"operation": "a", "task": "page", "payload": {"key": "é"}}
    assert dict(call.headers) == {"Content-Type": "application/json", "traceparent": TRACE}
    assert request.task.schedule_time.ToDatetime(UTC) == at
    assert request.task.dispatch_deadline.seconds == 600
    assert not call.HasField("oidc_token")


def test_no_proxy_of_the_environment_receives_the_tasks_of_an_emulator(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Service()  # as a proxy it would refuse the tasks
    for name in ("http_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://{other.address}")
    create(service, [effect("a")])
    other.stop()
    assert service.names() == ["a"]


def test_a_task_without_a_time_is_due_at_once_and_carries_the_trace_of_its_call(service: Service) -> None:
    with traced(TRACE):
        create(service, [effect("a"), effect("b")])
    assert [request.task.http_request.headers["traceparent"] for request in service.created] == [TRACE, TRACE]
    assert not service.created[0].task.HasField("schedule_time")


def test_in_the_cloud_a_task_carries_a_token_for_the_function_it_calls() -> None:
    request = task_request(replace(settings(), tasks_account="tasks@p.example"), effect("a", path="/x"), "")
    call = tasks_v2.CreateTaskRequest(request).task.http_request
    assert call.oidc_token.service_account_email == "tasks@p.example"
    assert (call.url, call.oidc_token.audience) == ("https://link-refresh.example/x", "https://link-refresh.example")
    assert dict(call.headers) == {"Content-Type": "application/json"}


def test_more_tasks_than_are_sent_at_once_are_all_created_and_routed_by_their_queue(service: Service) -> None:
    service.refusals = {"7": [grpc.StatusCode.UNAVAILABLE], "205": [grpc.StatusCode.ALREADY_EXISTS]}
    create(service, [effect(str(number)) for number in range(250)])
    assert service.names() == sorted([*map(str, range(250)), "7"])
    assert {route.replace("%2F", "/") for route in service.routes} == {f"parent={QUEUE}"}


def test_a_name_that_is_taken_counts_as_handed_over(service: Service) -> None:
    service.refusals = {"a": [grpc.StatusCode.ALREADY_EXISTS]}
    create(service, [effect("a")])
    assert service.names() == ["a"]


def test_a_service_that_was_briefly_unavailable_is_retried(service: Service) -> None:
    service.refusals = {"a": [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAVAILABLE]}
    create(service, [effect("a")])
    assert service.names() == ["a", "a", "a"]


@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL", "ABORTED"])
def test_a_transient_error_is_unavailable(service: Service, code: str) -> None:
    service.refusals = {"a": [grpc.StatusCode[code]] * 9}
    with pytest.raises(Unavailable):
        create(service, [effect("a")])


def test_what_is_wrong_with_the_task_is_a_problem_and_logged(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    service.refusals = {"a": [grpc.StatusCode.INVALID_ARGUMENT]}
    with pytest.raises(QueueRefused):
        create(service, [effect("a")])
    line = json.loads(capsys.readouterr().out)
    assert (line["severity"], line["message"]) == ("ERROR", "task refused")
    assert service.names() == ["a"]


@pytest.mark.parametrize("code", ["PERMISSION_DENIED", "NOT_FOUND", "UNAUTHENTICATED", "FAILED_PRECONDITION"])
def test_what_is_wrong_with_the_installation_is_transient_and_logged(
    service: Service, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service.refusals = {"a": [grpc.StatusCode[code]]}
    with pytest.raises(DeploymentCannotEnqueue) as raised:
        create(service, [effect("a")])
    assert isinstance(raised.value, Unavailable)
    line = json.loads(capsys.readouterr().out)
    assert (line["severity"], line["message"]) == ("ERROR", "deployment cannot enqueue")


@pytest.mark.parametrize("other", ["INTERNAL", "PERMISSION_DENIED"])
def test_all_are_enqueued_even_when_some_fail_and_transient_errors_outweigh_permanent_ones(
    service: Service, other: str
) -> None:
    names = [f"t{n:02}" for n in range(40)]
    service.refusals = {"t00": [grpc.StatusCode.INVALID_ARGUMENT], "t07": [grpc.StatusCode[other]]}
    with pytest.raises(Unavailable) as raised:
        create(service, [effect(name) for name in names])
    assert service.names() == names
    assert isinstance(raised.value, PartlyEnqueued)
    assert raised.value.enqueued == {*names} - {"t00", "t07"}


def test_no_effects_need_no_connection() -> None:
    CloudTasksQueue(settings("127.0.0.1:1"), JsonLog("p")).create([])


def test_a_queue_that_is_down_is_unavailable_and_found_when_it_is_back() -> None:
    before = Service()
    queue = CloudTasksQueue(settings(before.address), JsonLog("p"))
    queue.create([effect("a")])
    before.stop()
    with pytest.raises(Unavailable):
        queue.create([effect("b")])
    after = Service(before.address)
    try:
        create_in_the_end(queue, effect("b"))
        assert after.names() == ["b"]
    finally:
        after.stop()


def create_in_the_end(queue: CloudTasksQueue, wanted: Effect) -> None:
    for _ in range(40):
        with contextlib.suppress(Unavailable):
            queue.create([wanted])
            return
    raise AssertionError("the connection did not come back")


def test_the_names_of_a_restored_databases_tasks_are_not_taken(service: Service) -> None:
    before = replace(settings(service.address), database="signalbox-prod")
    restored = replace(before, database="signalbox-prod-20260101-0300")
    names = {task_request(each, effect("a"), "")["task"]["name"] for each in (before, restored)}
    assert len(names) == 2


def test_a_queue_names_the_tasks_whose_names_were_taken(service: Service) -> None:
    service.refusals = {"a": [grpc.StatusCode.ALREADY_EXISTS]}
    queue = MeteredQueue(CloudTasksQueue(settings(service.address), JsonLog("p")))
    assert list(queue.create([effect("a"), effect("b")])) == ["a"]


def test_a_task_is_created_in_the_shard_of_its_name_by_every_process(service: Service) -> None:
    names = [f"task-{number}" for number in range(60)]
    sharded = replace(settings(service.address), queue_shards={"links": 3, "tasks": 2})
    for _ in range(2):
        CloudTasksQueue(sharded, JsonLog("p")).create([effect(name) for name in names])
    queues = {request.task.name: request.parent for request in service.created}
    assert len(queues) == len(names)
    assert set(queues.values()) == {QUEUE, f"{QUEUE}-2", f"{QUEUE}-3"}
    assert all(name.startswith(f"{queue}/tasks/") for name, queue in queues.items())


def test_a_shard_calls_with_the_account_of_its_queue() -> None:
    chosen = replace(settings(), tasks_account="qu-{queue}@p", queue_shards={"flows": 20})
    tasks = [replace(effect(f"t{number}"), queue="flows") for number in range(20)]
    accounts = {
        task_request(chosen, task, "")["task"]["http_request"]["oidc_token"]["service_account_email"] for task in tasks
    }
    assert accounts == {"qu-tasks@p"}
