"""Rates over HTTP, and from the catalogue: answers, and refusals that say what to do."""

from typing import Any

import pytest

from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.entries import Rate
from tests.unit.operations_platform import OperationsPlatform

MEAL = {"table": "t", "seats": 5, "rounds": 1, "seat": 1, "meal": 1}
CALL = {"function": "philosophers", "task": "eat", "payload": {**MEAL, "first": "f", "token": "1"}}


class World(OperationsPlatform):
    """The functions as people call them."""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Call the function; return the answer."""
        return self.call("rates", path, method=method, json=body, headers=headers)


@pytest.fixture
def world() -> World:
    world = World()
    assert world.ask("PUT", "/openai", {"per_minute": 60, "burst": 2}).status_code == 201
    return world


def test_a_rate_is_created_changed_shown_listed_and_deleted(world: World) -> None:
    assert world.ask("PUT", "/openai", {"per_minute": 60, "burst": 2}).status_code == 200
    shown = {"name": "openai", "per_minute": 60.0, "burst": 3, "free": 3}
    assert world.ask("PATCH", "/openai", {"burst": 3}).json == shown
    assert world.ask("GET", "/openai").json == {**shown, "waiting": 0}
    assert world.ask("GET", "/").json == {"rates": [shown]}
    assert world.ask("DELETE", "/openai").status_code == 204
    assert world.ask("GET", "/openai").json["type"].endswith("no-rate")


def test_an_acquire_that_is_refused_has_a_retry_after(world: World) -> None:
    assert world.ask("POST", "/openai/acquire", {"weight": 2}).json == {"granted": True}
    refused = world.ask("POST", "/openai/acquire")
    assert refused.status_code == 200
    assert refused.json["granted"] is False
    assert 0 < refused.json["retry_after_seconds"] <= 1.001
    assert refused.headers["Retry-After"] in ("1", "2")


def test_an_acquire_is_repeated_under_its_key(world: World) -> None:
    key = {"Idempotency-Key": "a"}
    answers = [world.ask("POST", "/openai/acquire", {"weight": 2}, **key).json for _ in range(2)]
    assert answers == [{"granted": True}] * 2


def test_a_wait_is_answered_repeated_and_cancelled(world: World) -> None:
    for _ in range(2):
        answer = world.ask("POST", "/openai/waits", {"id": "w", "continuation": CALL})
        assert (answer.status_code, answer.json) == (202, {"id": "w", "state": "waiting"})
    assert world.ask("DELETE", "/openai/waits/w").json == {"cancelled": True}
    assert world.ask("POST", "/openai/waits", {"id": "w", "continuation": CALL}).json["state"] == "cancelled"
    assert world.ask("DELETE", "/openai/waits/x").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", "/r", {"per_minute": 0}, "per_minute"),
        ("PUT", "/r", {"burst": 1}, "per_minute"),
        ("PUT", "/r", {"per_minute": 1, "rate": 1}, "rate"),
        ("PATCH", "/openai", {"burst": 0}, "burst"),
        ("POST", "/openai/acquire", {"weight": 3}, "weight"),
        ("POST", "/openai/acquire", {"weight": 0}, "weight"),
        ("POST", "/openai/waits", {"weight": 1}, "continuation"),
        ("POST", "/openai/waits", {"id": "a/b", "continuation": CALL}, "id"),
    ],
)
def test_what_is_not_allowed_is_refused_with_its_field(
    world: World, method: str, path: str, body: dict[str, Any], field: str
) -> None:
    answer = world.ask(method, path, body)
    assert (answer.status_code, answer.json["field"]) == (400, field)
    assert answer.json["type"].endswith("bad-rate")


def test_a_rate_of_the_catalogue_is_checked() -> None:
    assert Rate(name="openai", per_minute=500, burst=50).body == {"per_minute": 500, "burst": 50}
    with pytest.raises(CatalogueError, match="`per_minute` must be"):
        Rate(name="openai", per_minute=0)


def test_a_paused_rate_grants_nothing_and_a_resumed_one_its_burst_at_most(world: World) -> None:
    first = {"weight": 2, "id": "first"}
    assert world.ask("POST", "/openai/acquire", first).json == {"granted": True}
    paused = world.ask("POST", "/openai/pause").json
    assert paused["paused_at"]
    assert world.ask("POST", "/openai/pause").json == paused
    waited = world.ask("POST", "/openai/waits", {"id": "w", "continuation": CALL})
    assert waited.json == {"id": "w", "state": "waiting"}
    world.advance(600)
    for task in [task for task in world.tasks if task.task == "rate_admit"]:
        world.deliver_task(task)
    refused = world.ask("POST", "/openai/acquire", {})
    assert refused.json == {"granted": False, "retry_after_seconds": 60, "paused": True}
    assert refused.headers["Retry-After"] == "60"
    assert world.ask("POST", "/openai/acquire", first).json == {"granted": True}  # a repeat takes nothing
    assert world.ask("GET", "/openai").json == {**paused, "waiting": 1}
    assert world.ask("GET", "/").json["rates"] == [{**paused, "waiting": 1}]
    assert "paused_at" not in world.ask("POST", "/openai/resume").json
    assert world.ask("POST", "/openai/acquire", {}).json["granted"] is False  # the wait is first
    world.advance(1)
    for task in [task for task in world.tasks if task.task == "rate_admit"]:
        world.deliver_task(task)
    assert world.ask("POST", "/openai/waits", {"id": "w", "continuation": CALL}).json["state"] == "granted"
    granted = [world.ask("POST", "/openai/acquire", {}).json["granted"] for _ in range(3)]
    assert granted.count(True) == 1


def test_a_pause_brings_no_permit_back(world: World) -> None:
    burst = world.ask("GET", "/openai").json["burst"]
    assert world.ask("POST", "/openai/acquire", {"weight": burst}).json["granted"]
    world.ask("POST", "/openai/pause")
    world.ask("POST", "/openai/resume")
    for task in [task for task in world.tasks if task.task == "rate_admit"]:
        world.deliver_task(task)
    assert not world.ask("POST", "/openai/acquire", {}).json["granted"]


def test_limits_change_in_a_pause_and_no_other_rate_is_paused(world: World) -> None:
    world.ask("POST", "/openai/pause")
    assert world.ask("PATCH", "/openai", {"burst": 5}).json["paused_at"]
    assert world.ask("POST", "/claude/pause").status_code == 404
    world.ask("POST", "/openai/resume")
    assert world.ask("POST", "/openai/resume").status_code == 200
    assert world.ask("GET", "/openai").json["burst"] == 5
