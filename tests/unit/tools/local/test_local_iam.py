"""The local stack allows the calls to and from a function that its entry in the catalogue allows."""

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Request, Response

from signalbox.adapters.logs import JsonLog
from signalbox.catalogue.reading import Function
from signalbox.core.effects import Effect
from signalbox.core.problems import DeploymentCannotEnqueue
from signalbox_tools.local.functions.iam import AuthorizedQueue, invokers_enforced

HEADERS: dict[str, dict[str, str]] = {
    "people": {},
    "queue": {"X-CloudTasks-QueueName": "tasks"},
    "schedule": {"X-CloudScheduler": "true"},
    "event": {"ce-id": "1"},
}


class KeptTasks:
    """A queue that only keeps what it is given."""

    def __init__(self) -> None:
        self.queues: list[str] = []

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        self.queues += [effect.queue for effect in effects]
        return ()


def function(folder: Path, invoker: str) -> Function:
    (folder / "main.py").touch()
    return Function(name="keep", folder=folder, invoked_by=(invoker,), enqueues=("links",))


def effect(queue: str) -> Effect:
    return Effect(name=f"one-{queue}", queue=queue, function="keep", task="page", payload={})


@pytest.mark.parametrize("invoker", HEADERS)
def test_a_function_is_called_by_those_in_its_entry_only(tmp_path: Path, invoker: str) -> None:
    client = Client(invokers_enforced(function(tmp_path, invoker), Response("called")))
    statuses = {caller: client.post("/", headers=headers).status_code for caller, headers in HEADERS.items()}
    refusals = {"people": 404} | dict.fromkeys(("queue", "schedule", "event"), 403)
    assert statuses == refusals | {invoker: 200}


def test_a_function_hands_tasks_to_the_queues_of_its_entry_only(tmp_path: Path) -> None:
    kept = KeptTasks()
    queue = AuthorizedQueue(kept, JsonLog("demo"))

    @Request.application
    def hand_over(_: Request) -> Response:
        with pytest.raises(DeploymentCannotEnqueue, match="tasks"):
            queue.create([effect("tasks"), effect("links")])
        return Response("refused")

    assert Client(invokers_enforced(function(tmp_path, "people"), hand_over)).post("/").text == "refused"
    assert kept.queues == ["links"]


def test_what_no_function_does_is_not_held_to_a_functions_rights() -> None:
    kept = KeptTasks()
    AuthorizedQueue(kept, JsonLog("demo")).create([effect("tasks")])
    assert kept.queues == ["tasks"]
