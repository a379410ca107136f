"""A record of the database cannot make the kit call another host, or a function, task or queue that nobody deployed."""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbox.adapters import deployed_catalogue
from signalbox.adapters.cloud_tasks import CloudTasksQueue
from signalbox.adapters.deployed_catalogue import CatalogueObject
from signalbox.adapters.logs import JsonLog
from signalbox.adapters.settings import from_environment
from signalbox.batches import sweep as batches_sweep
from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Put
from signalbox.core.problems import NotInCatalogue, Unavailable
from signalbox.semaphores import sweep as semaphores_sweep
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import settings as semaphores
from signalbox.semaphores.service import waits
from tests.unit.operations_platform import OperationsPlatform

CATALOGUE: dict[str, Any] = {
    "format": 1,
    "task_functions": {"shop": ["refund"], "accounts": []},
    "task_queues": ["tasks"],
    "calling_queues": {"shop": ["payments", "flows"], "accounts": ["tasks"], "link_refresh": ["links"]},
    "object_classes": {},
    "flow_functions": {"order": "shop"},
    "split_functions": [],
}
SETTINGS = from_environment(
    {"SIGNALBOX_CATALOGUE": "bucket/catalogue.json", "SIGNALBOX_FUNCTION_URL": "https://{function}-1.run.app"}
)

TASK = {"name": "a", "queue": "payments", "function": "shop", "task": "refund", "path": "/tasks/refund"}
WAKE_UP = TASK | {"queue": "flows", "task": "turn", "path": "/turns"}
FLOW_RESULT = TASK | {"queue": "flows", "task": "flow_result", "path": "/tasks/flow_result"}
OF_THE_KIT = TASK | {"queue": "links", "function": "link_refresh", "task": "page", "path": "/"}
UNKNOWN_TASKS = TASK | {"queue": "tasks", "function": "accounts", "task": "pay", "path": "/tasks/pay"}

FORGED = [
    {"function": "evil.example/?"},
    {"function": "evil.example/#"},
    {"function": "shop@evil.example"},
    {"function": "nobody"},
    {"function": "Shop"},
    {"function": ["shop"]},
    {"function": ""},
    {"queue": "tasks"},
    {"queue": "../../other/queues/x"},
    {"queue": "tasks-2"},
    {"queue": 7},
    {"task": "drop_all", "path": "/tasks/drop_all"},
    {"path": "/tasks/../admin"},
    {"path": "@evil.example/"},
    {"path": "/orders/7"},
    {"task": "turn", "path": "/turns/x"},
    {"function": "link_refresh", "queue": "tasks"},
    {"function": "link_refresh", "queue": "links", "path": "/tasks/page"},
]


class Sent:
    """Cloud Tasks, which accepts everything."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    def attempts(self, requests: Sequence[dict[str, Any]]) -> list[Exception | None]:
        self.urls += [request["task"]["http_request"]["url"] for request in requests]
        return [None] * len(requests)


class Deployed(OperationsPlatform):
    """A world whose queue is the adapter of Cloud Tasks, next to a catalogue."""

    def __init__(self, sent: Sent) -> None:
        super().__init__()
        self.cloud_tasks = CloudTasksQueue(SETTINGS, JsonLog("p"))
        self.cloud_tasks._connected = sent  # a stand-in for the service

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        return self.cloud_tasks.create(effects)

    def store_record(self, path: str, data: dict[str, Any]) -> None:
        self.ports.store.commit([Put(path, data)])

    def swept(self) -> int:
        self.pass_time(LIMITS.outbox_patience_seconds + 1)
        return outbox.sweep(self.ports)


@pytest.fixture
def read_catalogue(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The answers of Cloud Storage, the last of which repeats."""
    answers: list[Any] = [CATALOGUE]

    def fetch(_: str) -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    copy = CatalogueObject("bucket/catalogue.json", fetch, iter(range(0, 10**6, 60)).__next__)
    monkeypatch.setattr(deployed_catalogue, "_copy_of", lambda _: copy)
    return answers


def record_of(**task: Any) -> dict[str, Any]:
    return {
        "tasks": [TASK | {"trace": "", "not_before": None, "payload": '{"amount": 1000000}', "context": "{}"} | task]
    }


@pytest.mark.parametrize("task", [TASK, WAKE_UP, FLOW_RESULT, OF_THE_KIT, UNKNOWN_TASKS])
def test_a_task_that_the_catalogue_has_is_enqueued_out_of_a_record(
    task: dict[str, Any], read_catalogue: list[Any]
) -> None:
    world = Deployed(sent := Sent())
    world.store_record("outbox/x", record_of(**task))
    assert world.swept() == 1
    assert sent.urls == [f"https://{task['function'].replace('_', '-')}-1.run.app{task['path']}"]
    assert world.ids("outbox") == world.ids("outbox_refused") == []


@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_a_forged_record_is_kept_aside_and_reported_once(forged: dict[str, Any], read_catalogue: list[Any]) -> None:
    world = Deployed(sent := Sent())
    world.store_record("outbox/x", record_of(**forged))
    world.swept()
    assert sent.urls == []
    assert (world.ids("outbox"), world.ids("outbox_refused")) == ([], ["x"])
    assert world.record("outbox_refused/x")["tasks"] == record_of(**forged)["tasks"]
    [(message, values)] = world.reported
    assert message == "outbox record kept aside"
    assert (values["outbox"], values["kept"]) == ("outbox/x", "outbox_refused/x")
    world.swept()
    assert len(world.reported) == 1


def test_the_other_tasks_of_a_forged_record_are_enqueued_and_marked(read_catalogue: list[Any]) -> None:
    world = Deployed(sent := Sent())
    tasks = [*record_of(name="good")["tasks"], *record_of(name="bad", function="nobody")["tasks"]]
    world.store_record("outbox/x", {"tasks": tasks})
    world.swept()
    assert sent.urls == ["https://shop-1.run.app/tasks/refund"]
    assert world.record("outbox_refused/x")["enqueued"] == {"good": True}


@pytest.mark.parametrize(
    "more",
    [{"enqueued": ["b"]}, {"enqueued": 7}, {"tasks": 7}, {"tasks": [7]}, {"tasks": None}, {"x": "y" * 1_000_000}],
)
@pytest.mark.parametrize("function", ["nobody", "x" * 20_000])
def test_no_content_of_a_forged_record_keeps_the_sweeper_from_the_others(
    more: dict[str, Any], function: str, read_catalogue: list[Any]
) -> None:
    world = Deployed(sent := Sent())
    world.store_record("outbox/a", record_of(function=function) | more)
    world.store_record("outbox/b", record_of())
    assert world.swept() == 1
    assert sent.urls == ["https://shop-1.run.app/tasks/refund"]
    assert [len(str(values)) < 2_000 for _, values in world.reported] == [True]


def test_a_record_stays_in_the_outbox_while_the_catalogue_cannot_be_read(read_catalogue: list[Any]) -> None:
    world = Deployed(sent := Sent())
    read_catalogue[:] = [CATALOGUE, OSError("away")]
    world.store_record("outbox/a", record_of())
    world.swept()
    world.store_record("outbox/x", record_of(function="newer"))
    world.swept()
    assert (world.ids("outbox"), world.ids("outbox_refused"), len(sent.urls)) == (["x"], [], 1)
    newer = CATALOGUE | {"calling_queues": {**CATALOGUE["calling_queues"], "newer": ["payments"]}}
    read_catalogue[:] = [newer]
    assert world.swept() == 1
    assert sent.urls[1:] == ["https://newer-1.run.app/tasks/refund"]


def test_a_process_refuses_a_task_out_of_any_record_before_the_queue_has_it(read_catalogue: list[Any]) -> None:
    """The waiters of semaphores, the pages of batches and the commands of flows are enqueued by the same adapter."""
    world = Deployed(sent := Sent())
    with pytest.raises(NotInCatalogue, match="'tasks' does not call shop"):
        world.create([Effect("a", "tasks", "shop", "refund", {}, "/tasks/refund")])
    assert sent.urls == []


def test_an_older_instance_enqueues_a_task_that_its_own_function_has_since(
    read_catalogue: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNCTION_TARGET", "shop")
    older = replace(
        SETTINGS,
        task_functions={"shop": frozenset({"sell"})},
        calling_queues={"shop": frozenset({"tasks"})},
    )
    world = Deployed(sent := Sent())
    world.cloud_tasks._settings = older
    world.create([Effect("a", "payments", "shop", "refund", {}, "/tasks/refund")])
    assert sent.urls == ["https://shop-1.run.app/tasks/refund"]
    with pytest.raises(NotInCatalogue):
        world.create([Effect("b", "payments", "shop", "drop_all", {}, "/tasks/drop_all")])
    read_catalogue[:] = [OSError("away")]
    world.create([Effect("c", "tasks", "shop", "sell", {}, "/tasks/sell")])
    assert len(sent.urls) == 2


def test_the_record_of_a_batch_end_that_is_forged_is_kept_aside(read_catalogue: list[Any]) -> None:
    world = Deployed(sent := Sent())
    [task] = record_of(function="evil.example/?")["tasks"]
    world.store_record("completions/x", {"task": task, "due_at": world.now})
    world.store_record("completions/y", {"task": {"name": "unreadable"}, "due_at": world.now})
    world.pass_time(60)
    batches_sweep.sweep(world.ports)
    assert (world.ids("completions"), world.ids("outbox_refused"), sent.urls) == (["y"], ["x"], [])
    assert [message for message, _ in world.reported] == ["outbox record kept aside", "completion cannot be swept"]


@pytest.mark.parametrize("record", ["outbox/x", "completions/x"])
def test_a_record_that_was_kept_aside_can_be_put_into_the_outbox(record: str, read_catalogue: list[Any]) -> None:
    world = Deployed(sent := Sent())
    [task] = record_of(function="removed")["tasks"]
    fields = {"tasks": [task]} if record.startswith("outbox") else {"task": task, "due_at": world.now}
    world.store_record(record, fields)
    world.swept()
    batches_sweep.sweep(world.ports)
    read_catalogue[:] = [
        CATALOGUE | {"calling_queues": CATALOGUE["calling_queues"] | {"removed": ["payments"]}, "task_functions": {}}
    ]
    world.pass_time(600)
    world.store_record("outbox/x", world.record("outbox_refused/x"))
    deployed_catalogue._copy_of("").settings(SETTINGS, lambda _: False)  # the sweeper's process is a new one
    assert (world.swept(), sent.urls) == (1, ["https://removed-1.run.app/tasks/refund"])


def test_a_wait_of_a_function_that_was_removed_keeps_no_other_wait_from_its_end(read_catalogue: list[Any]) -> None:
    world = Deployed(sent := Sent())
    unit = {"batch": "b", "incarnation": "0", "index": 0}
    semaphores.put(world.ports, "s", SemaphoreSettings(1, 60))
    for id_, function in (("a", "shop"), ("b", "removed"), ("c", "shop")):
        wait = WaitRequest(id_, Call(function, "refund", {}, "payments"), permits=1, unit=json.dumps(unit))
        waits.wait(world.ports, "s", wait)
    sent.urls.clear()
    semaphores_sweep.delete(world.ports, "s")
    sent.urls.clear()
    semaphores_sweep.clean_deleted(world.ports, "s", 10**20)
    assert sent.urls == ["https://shop-1.run.app/tasks/refund"]
    assert world.ids("semaphores/s/waiters") == []
    world.swept()
    [kept] = world.ids("outbox_refused")
    assert [task["function"] for task in world.record(f"outbox_refused/{kept}")["tasks"]] == ["removed"]


def test_without_a_catalogue_the_name_of_a_function_is_still_a_name() -> None:
    bare = replace(SETTINGS, catalogue="")
    effect = Effect("a", "q", "shop", "t", {}, "/tasks/t")
    assert deployed_catalogue.undeliverable(bare, effect) == ""
    assert deployed_catalogue.undeliverable(bare, replace(effect, function="evil.example/?")) != ""


def test_an_unreadable_catalogue_is_transient_for_a_name_that_may_be_newer(read_catalogue: list[Any]) -> None:
    read_catalogue[:] = [OSError("away")]
    with pytest.raises(Unavailable):
        Deployed(Sent()).create([Effect("a", "payments", "shop", "refund", {}, "/tasks/refund")])


NAMES = st.sampled_from(["shop", "accounts", "link_refresh", "payments", "flows", "links", "tasks", "refund", "turn"])
TEXTS = st.text("ab/.:@?#%_- ", max_size=8)
ANYTHING = st.one_of(TEXTS, NAMES, st.none(), st.integers(-9, 9), st.lists(NAMES, max_size=1))
PATHS = st.one_of(ANYTHING, st.sampled_from(["/", "/turns", "/tasks/refund", "/tasks/page", "//evil.example", "@evil"]))
URL = re.compile(
    r"https://(shop|accounts)-1\.run\.app/(turns|tasks/[A-Za-z][A-Za-z0-9_]*)|https://link-refresh-1\.run\.app/"
)


@given(function=ANYTHING, queue=ANYTHING, task=ANYTHING, path=PATHS)
def test_whatever_a_record_says_only_an_address_of_the_catalogue_is_called(**forged: Any) -> None:
    copy = CatalogueObject("bucket/catalogue.json", lambda _: CATALOGUE, lambda: 0.0)
    with mock.patch.object(deployed_catalogue, "_copy_of", return_value=copy):
        world = Deployed(sent := Sent())
        world.store_record("outbox/x", record_of(**forged))
        world.swept()
    assert [url for url in sent.urls if not URL.fullmatch(url)] == []
    assert (world.ids("outbox"), len(sent.urls) + len(world.ids("outbox_refused"))) == ([], 1)
