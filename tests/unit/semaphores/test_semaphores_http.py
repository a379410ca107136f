"""Semaphores over HTTP: answers, and refusals that change nothing."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from signalbox.adapters import runtime
from signalbox.core.ports import Change, Put, Query
from signalbox.semaphores import tasks
from signalbox.semaphores.machine.waits import retry_after_seconds
from signalbox.semaphores.model.semaphore import waiter_path
from signalbox.semaphores.model.waiters import NOT_ACQUIRED, PAUSED
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.service import waits
from signalbox.semaphores.storage import read_waiter
from signalbox.testing.replaced_limits import replaced
from tests.unit.operations_platform import OperationsPlatform

ROOT = Path(__file__).parents[3]
MEAL = {"table": "t", "seats": 5, "rounds": 1, "seat": 1, "meal": 1}
CALL = {"function": "philosophers", "task": "eat", "payload": {**MEAL, "first": "f", "token": "1"}}


def entry_point(function: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"main_of_{function}", ROOT / "functions" / function / "main.py")
    assert spec is not None
    assert spec.loader is not None
    main = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(main)
    return getattr(main, function)


class World(OperationsPlatform):
    """The functions as people call them; the clock moves when a test says so."""

    def ask(self, method: str, url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Call a function; return the status and the parsed body."""
        function, _, rest = url.partition("/")
        response = self.call(function.replace("-", "_"), f"/{rest}", method=method, json=body, headers=headers)
        return response.status_code, json.loads(response.data) if response.data else None

    def records(self) -> list[Any]:
        return [(one.path, one.data) for one in self.store.query(Query("semaphores"))]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    with world.bound():
        yield world


@pytest.fixture
def fork(world: World) -> World:
    assert world.ask("PUT", "semaphores/fork", {"permits": 1, "lease_seconds": 60})[0] == 201
    return world


def test_a_semaphore_is_created_shown_changed_and_deleted(world: World) -> None:
    created = {"name": "fork", "permits": 2, "free": 2, "lease_seconds": 60.0, "leases": []}
    assert world.ask("PUT", "semaphores/fork", {"permits": 2, "lease_seconds": 60}) == (201, created)
    assert world.ask("PUT", "semaphores/fork", {"permits": 2, "lease_seconds": 60}) == (200, created)
    assert world.ask("PATCH", "semaphores/fork", {"permits": 3})[1]["permits"] == 3
    assert world.ask("GET", "semaphores/fork")[1] == created | {"permits": 3, "free": 3, "waiters": []}
    assert world.ask("DELETE", "semaphores/fork") == (204, None)
    assert world.ask("GET", "semaphores/fork")[0] == 404


def test_a_refused_acquire_says_when_to_ask_again(fork: World) -> None:
    def asked(**body: Any) -> tuple[Any, str | None]:
        answer = fork.call("semaphore_wait", "/fork", method="POST", json=body, headers={})
        return json.loads(answer.data), answer.headers.get("Retry-After")

    lease, none = asked(id="a")
    assert none is None
    assert asked(id="b") == ({"acquired": False}, "3")  # the clock's jitter is always the half
    assert asked(id="c", continuation=CALL) == ({"acquired": False, "waiting": True}, None)
    fork.ask("POST", "semaphores/fork/pause", {})
    assert asked(id="b") == ({"acquired": False, "paused": True}, "31")
    fork.ask("POST", "semaphore-signal/fork", {"lease": lease["lease"]["id"]})
    assert asked(id="a") == ({"acquired": False, "ended": True}, None)


def test_the_time_to_ask_again_is_drawn_between_a_second_and_the_limit() -> None:
    draws = [n / 100 for n in range(100)]
    assert {retry_after_seconds(NOT_ACQUIRED, jitter) for jitter in (*draws, 1.0)} == {1, 2, 3, 4}
    assert {retry_after_seconds(PAUSED, jitter) for jitter in (*draws, 1.0)} == set(range(1, 61))


def test_the_time_to_ask_again_is_the_expected_one_in_whole_seconds_up_to_the_limit() -> None:
    expected = {seconds: retry_after_seconds(NOT_ACQUIRED, 0.5, seconds) for seconds in (0.0, 0.2, 1.6, 3.0, 100.0)}
    assert expected == {0.0: 1, 0.2: 1, 1.6: 2, 3.0: 3, 100.0: 4}
    assert retry_after_seconds(PAUSED, 0.5, 3.0) == 31


def test_a_free_permit_is_acquired_once_and_signalled_once(fork: World) -> None:
    status, answer = fork.ask("POST", "semaphore-wait/fork", {"id": "a"})
    assert (status, answer["acquired"]) == (200, True)
    assert answer["lease"]["ends_at"] == "2026-01-01T00:01:00.000001Z"
    assert fork.ask("POST", "semaphore-wait/fork", {"id": "a"}) == (200, answer)
    assert fork.ask("POST", "semaphore-wait/fork", {"id": "b"}) == (200, {"acquired": False})
    lease = {"lease": answer["lease"]["id"]}
    assert fork.ask("POST", "semaphore-signal/fork", lease) == (200, {"released": True})
    assert fork.ask("POST", "semaphore-signal/fork", lease) == (200, {"released": False})
    assert fork.ask("POST", "semaphore-wait/fork", {"id": "a"}) == (200, {"acquired": False, "ended": True})


def test_a_repeated_acquire_does_not_enter_together_with_the_next_holder(fork: World) -> None:
    first = fork.ask("POST", "semaphore-wait/fork", {"id": "a"})[1]["lease"]["id"]
    fork.ask("POST", "semaphore-signal/fork", {"lease": first})
    assert fork.ask("POST", "semaphore-wait/fork", {"id": "b"})[1]["acquired"]
    assert fork.ask("POST", "semaphore-wait/fork", {"id": "a"}) == (200, {"acquired": False, "ended": True})


def test_a_repeated_wait_has_ended_if_its_continuations_lease_has_ended(fork: World) -> None:
    body = {"id": "a", "continuation": CALL}
    lease = fork.ask("POST", "semaphore-wait/fork", body)[1]["lease"]["id"]
    assert fork.ask("POST", "semaphore-wait/fork", body)[1]["lease"]["id"] == lease
    fork.ask("POST", "semaphore-signal/fork", {"lease": lease})
    assert fork.ask("POST", "semaphore-wait/fork", body) == (202, {"acquired": False, "ended": True})


def test_a_signal_that_is_repeated_under_its_key_is_answered_the_same(fork: World) -> None:
    lease = {"lease": fork.ask("POST", "semaphore-wait/fork", {})[1]["lease"]["id"]}
    for _ in range(2):
        assert fork.ask("POST", "semaphore-signal/fork", lease, **{"Idempotency-Key": "k"}) == (
            200,
            {"released": True},
        )


def test_the_key_of_a_signal_is_hashed_as_it_is_kept_for_each_lease_that_has_ended(fork: World) -> None:
    lease = {"lease": fork.ask("POST", "semaphore-wait/fork", {})[1]["lease"]["id"]}
    for _ in range(2):
        assert fork.ask("POST", "semaphore-signal/fork", lease, **{"Idempotency-Key": "k" * 8_000})[1]["released"]
    assert fork.ask("POST", "semaphore-signal/fork", lease, **{"Idempotency-Key": "k" * 7_999}) == (
        200,
        {"released": False},
    )
    assert len(repr(fork.records())) < 1_000


def test_a_wait_without_an_id_takes_its_idempotency_key_for_one(fork: World) -> None:
    first = fork.ask("POST", "semaphore-wait/fork", {}, **{"Idempotency-Key": "k"})
    assert first[1]["acquired"]
    assert fork.ask("POST", "semaphore-wait/fork", {}, **{"Idempotency-Key": "k"}) == first


def test_a_lease_ends_by_itself_and_is_not_reacquired_by_renewing(fork: World) -> None:
    lease = fork.ask("POST", "semaphore-wait/fork", {"lease_seconds": 10})[1]["lease"]["id"]
    renewed = fork.ask("POST", "semaphore-renew/fork", {"lease": lease, "lease_seconds": 20})
    assert renewed == (200, {"renewed": True, "ends_at": "2026-01-01T00:00:20.000002Z"})
    fork.pass_time(21)
    assert fork.ask("POST", "semaphore-renew/fork", {"lease": lease}) == (200, {"renewed": False})
    assert fork.ask("POST", "semaphore-signal/fork", {"lease": lease}) == (200, {"released": False})
    assert fork.ask("GET", "semaphores/fork")[1]["free"] == 1


def test_a_continuation_is_granted_at_once_or_waits_and_is_seen_waiting(fork: World) -> None:
    granted = fork.ask("POST", "semaphore-wait/fork", {"id": "a", "continuation": CALL})
    assert (granted[0], granted[1]["acquired"]) == (202, True)
    assert fork.tasks[0].context["lease"]["id"] == granted[1]["lease"]["id"]
    waiting = (202, {"acquired": False, "waiting": True})
    assert fork.ask("POST", "semaphore-wait/fork", {"id": "b", "continuation": CALL}) == waiting
    assert fork.ask("POST", "semaphore-wait/fork", {"id": "b", "continuation": CALL}) == waiting
    [seen] = fork.ask("GET", "semaphores/?waiting=true")[1]["semaphores"]
    assert (seen["name"], seen["free"], seen["waiting"]) == ("fork", 0, 1)
    assert [one["id"] for one in fork.ask("GET", "semaphores/fork")[1]["waiters"]] == ["b"]


def test_lanes_are_shown_with_their_weights_and_shares(fork: World) -> None:
    settings = {"permits": 1, "lease_seconds": 60, "weights": {"pro": 3, "free": 1}}
    assert fork.ask("PUT", "semaphores/fork", settings)[1]["weights"] == {"pro": 3}
    for id_, lane in (("holder", {}), ("a", {"key": "pro"}), ("b", {"priority": "low"}), ("c", {})):
        fork.ask("POST", "semaphore-wait/fork", {"id": id_, "continuation": CALL, **lane})
    shown = fork.ask("GET", "semaphores/fork")[1]
    assert shown["lanes"] == [
        {"key": "pro", "priority": "normal", "weight": 12, "share": 0.7059},
        {"priority": "low", "weight": 1, "share": 0.0588},
        {"priority": "normal", "weight": 4, "share": 0.2353},
    ]
    waiters = {one["id"]: (one.get("key"), one.get("priority")) for one in shown["waiters"]}
    assert waiters == {"c": (None, None), "a": ("pro", None), "b": (None, "low")}
    [listed] = fork.ask("GET", "semaphores/?waiting=true")[1]["semaphores"]
    assert listed["waiting"] == 3


def test_leases_and_waiters_are_shown_with_their_tasks(fork: World) -> None:
    eat = {"function": "philosophers", "task": "eat"}
    fork.ask("PUT", "semaphores/fork", {"permits": 2, "lease_seconds": 60})
    fork.ask("POST", "semaphore-wait/fork", {"id": "no task"})
    for id_ in ("a", "b", "c"):
        fork.ask("POST", "semaphore-wait/fork", {"id": id_, "continuation": CALL})
    shown = fork.ask("GET", "semaphores/fork")[1]
    assert [lease.get("task") for lease in shown["leases"]] == [None, eat]
    assert [(one["id"], one["task"]) for one in shown["waiters"]] == [("b", eat), ("c", eat)]


def test_leases_and_waiters_are_shown_with_the_holder_that_their_wait_named(fork: World) -> None:
    for id_, named in (("a", {"holder": "ann"}), ("b", {"holder": "ben"}), ("c", {})):
        fork.ask("POST", "semaphore-wait/fork", {"id": id_, "continuation": CALL, **named})
    shown = fork.ask("GET", "semaphores/fork")[1]
    assert [lease.get("holder") for lease in shown["leases"]] == ["ann"]
    assert [waiter.get("holder") for waiter in shown["waiters"]] == ["ben", None]


def test_a_lease_is_shown_with_the_task_of_its_own_grant_only(fork: World) -> None:
    fork.ask("POST", "semaphore-wait/fork", {"id": "a", "continuation": CALL})
    [lease] = fork.ask("GET", "semaphores/fork")[1]["leases"]
    receipt = waiter_path("fork", "a")
    fork.store.commit([Change(receipt, {("grant",): lease["token"] + 1})])
    [shown] = fork.ask("GET", "semaphores/fork")[1]["leases"]
    assert "task" in lease
    assert "task" not in shown


def test_all_semaphores_are_listed_by_name_page_by_page(world: World) -> None:
    for name in ("c", "a", "b"):
        world.ask("PUT", f"semaphores/{name}", {"permits": 1, "lease_seconds": 60})
    first = world.ask("GET", "semaphores/?limit=2")[1]
    assert [one["name"] for one in first["semaphores"]] == ["a", "b"]
    second = world.ask("GET", f"semaphores/?limit=2&page_token={first['next_page_token']}")[1]
    assert [one["name"] for one in second["semaphores"]] == ["c"]
    assert "next_page_token" not in second


def test_the_pages_of_semaphores_that_have_waiters_show_each_once(world: World) -> None:
    for name in ("a", "b", "c", "d"):
        world.ask("PUT", f"semaphores/{name}", {"permits": 1, "lease_seconds": 60})
    for name in ("a", "b", "d"):
        world.ask("POST", f"semaphore-wait/{name}", {})
        world.ask("POST", f"semaphore-wait/{name}", {"continuation": CALL})
    seen, more = [], ""
    while True:
        page = world.ask("GET", f"semaphores/?waiting=true&limit=1&page_token={more}")[1]
        seen += [(one["name"], one["waiting"]) for one in page["semaphores"]]
        if not (more := page.get("next_page_token", "")):
            break
    assert seen == [("a", 1), ("b", 1), ("d", 1)]


def test_a_lease_that_is_ended_by_hand_goes_to_the_head_of_the_wait_queue(fork: World) -> None:
    lease = fork.ask("POST", "semaphore-wait/fork", {})[1]["lease"]["id"]
    for id_ in ("b", "c"):
        fork.ask("POST", "semaphore-wait/fork", {"id": id_, "continuation": CALL})
    assert fork.ask("DELETE", f"semaphores/fork/leases/{lease}?reason=stuck") == (200, {"released": True})
    assert [task.context["lease"]["id"].partition("~")[0] for task in fork.tasks if task.task == "eat"] == ["b"]


def test_a_cancelled_wait_leaves_the_wait_queue(fork: World) -> None:
    fork.ask("POST", "semaphore-wait/fork", {})
    fork.ask("POST", "semaphore-wait/fork", {"id": "b", "continuation": CALL})
    assert fork.ask("DELETE", "semaphore-wait/fork/b") == (200, {"cancelled": True})
    assert fork.ask("GET", "semaphores/fork")[1]["waiters"] == []
    assert fork.ask("DELETE", "semaphore-wait/fork/b") == (200, {"cancelled": True})


def test_cancelling_a_granted_wait_ends_its_lease(fork: World) -> None:
    fork.ask("POST", "semaphore-wait/fork", {"id": "a", "continuation": CALL})
    assert fork.ask("DELETE", "semaphore-wait/fork/a") == (200, {"cancelled": True})
    assert fork.ask("GET", "semaphores/fork")[1]["free"] == 1


WAIT, SIGNAL, RENEW, PUT = "semaphore-wait/fork", "semaphore-signal/fork", "semaphore-renew/fork", "semaphores/fork"


@pytest.mark.parametrize(
    ("method", "url", "body", "field"),
    [
        ("PUT", PUT, {"permits": 0, "lease_seconds": 60}, "permits"),
        ("PUT", PUT, {"permits": 1001, "lease_seconds": 60}, "permits"),
        ("PUT", PUT, {"permits": 1.5, "lease_seconds": 60}, "permits"),
        ("PUT", PUT, {"permits": True, "lease_seconds": 60}, "permits"),
        ("PUT", PUT, {"permits": 1}, "lease_seconds"),
        ("PUT", PUT, {"permits": 1, "lease_seconds": 0}, "lease_seconds"),
        ("PUT", PUT, {"permits": 1, "lease_seconds": 60, "delete_after_seconds": -1}, "delete_after_seconds"),
        ("PATCH", PUT, {"lease_second": 60}, "lease_second"),
        ("POST", WAIT, {"permits": 2}, "permits"),
        ("POST", WAIT, {"permits": 0}, "permits"),
        ("POST", WAIT, {"id": ""}, "id"),
        ("POST", WAIT, {"id": "a/b"}, "id"),
        ("POST", WAIT, {"id": "x" * 129}, "id"),
        ("POST", WAIT, {"lease_seconds": "60"}, "lease_seconds"),
        ("POST", WAIT, {"release_on_return": 1}, "release_on_return"),
        ("POST", WAIT, {"deadline_seconds": 5}, "continuation"),
        ("POST", WAIT, {"continuation": "eat"}, "continuation"),
        ("POST", WAIT, {"continuation": {"function": "f", "task": "../x"}}, "continuation.task"),
        ("POST", WAIT, {"key": "a"}, "key"),
        ("POST", WAIT, {"priority": "high"}, "priority"),
        ("POST", WAIT, {"continuation": CALL, "priority": "urgent"}, "priority"),
        ("POST", WAIT, {"wait": True}, "wait"),
        ("POST", SIGNAL, {}, "lease"),
        ("POST", SIGNAL, {"lease": "a"}, "lease"),
        ("POST", SIGNAL, {"lease": "a~b"}, "lease"),
        ("POST", SIGNAL, {"lease": "a~1", "permits": 1}, "permits"),
        ("POST", RENEW, {"lease": "a~1", "lease_seconds": 1e9}, "lease_seconds"),
    ],
)
def test_a_bad_request_names_the_field_and_changes_nothing(
    fork: World, method: str, url: str, body: Any, field: str
) -> None:
    before = fork.records()
    status, problem = fork.ask(method, url, body)
    assert (status, problem["field"]) == (400, field)
    assert problem["detail"]
    assert fork.records() == before
    assert fork.tasks == []


@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("GET", "semaphores/none", None),
        ("PATCH", "semaphores/none", {"permits": 1}),
        ("DELETE", "semaphores/none", None),
        ("POST", "semaphore-wait/none", {}),
        ("POST", "semaphore-wait/none", {"continuation": CALL}),
        ("POST", "semaphore-signal/none", {"lease": "a~1"}),
        ("POST", "semaphore-renew/none", {"lease": "a~1"}),
        ("DELETE", "semaphore-wait/none/a", None),
    ],
)
def test_a_semaphore_that_is_missing_is_not_found_and_not_made(world: World, method: str, url: str, body: Any) -> None:
    status, problem = world.ask(method, url, body)
    assert (status, problem["type"]) == (404, "urn:signalbox:problem:no-semaphore")
    assert world.records() == []


@pytest.mark.parametrize("name", ["..", "__x__", "x" * 1001])
def test_a_name_that_no_record_can_have_is_refused(world: World, name: str) -> None:
    status, problem = world.ask("PUT", f"semaphores/{name}", {"permits": 1, "lease_seconds": 60})
    assert (status, problem["type"], problem["field"]) == (400, "urn:signalbox:problem:bad-key", "name")


def test_a_lease_of_another_holder_is_not_released(fork: World) -> None:
    lease = fork.ask("POST", "semaphore-wait/fork", {"id": "a"})[1]["lease"]
    wrong = f"a~{lease['token'] + 1}"
    assert fork.ask("POST", "semaphore-signal/fork", {"lease": wrong}) == (200, {"released": False})
    assert fork.ask("GET", "semaphores/fork")[1]["leases"][0]["id"] == lease["id"]


def test_lowering_the_permits_holds_for_new_grants(world: World) -> None:
    world.ask("PUT", "semaphores/fork", {"permits": 2, "lease_seconds": 60})
    leases = [world.ask("POST", "semaphore-wait/fork", {})[1]["lease"]["id"] for _ in range(2)]
    assert world.ask("PATCH", "semaphores/fork", {"permits": 1})[1]["free"] == 0
    assert world.ask("POST", "semaphore-signal/fork", {"lease": leases[0]}) == (200, {"released": True})
    assert world.ask("POST", "semaphore-wait/fork", {}) == (200, {"acquired": False})


def test_a_repeated_wait_for_more_permits_than_there_are_by_now_is_answered_as_a_repeat(world: World) -> None:
    world.ask("PUT", "semaphores/fork", {"permits": 2, "lease_seconds": 60})
    wide = {"id": "a", "continuation": CALL, "permits": 2}
    assert world.ask("POST", WAIT, wide)[1]["acquired"]
    world.ask("PATCH", "semaphores/fork", {"permits": 1})
    assert world.ask("POST", WAIT, wide)[1]["acquired"]
    assert world.ask("POST", WAIT, wide | {"id": "b"})[0] == 400


@pytest.mark.parametrize("replaced", [True, False])
def test_a_waiter_without_its_semaphore_is_taken_back_unless_another_has_taken_its_place(
    fork: World, *, replaced: bool
) -> None:
    ports = runtime.ports()
    fork.ask("POST", WAIT, {})
    fork.ask("POST", WAIT, {"id": "a", "continuation": CALL})
    [record] = fork.store.query(Query("semaphores/fork/waiters"))
    waiter = read_waiter(record)
    assert waiter
    fork.ask("DELETE", PUT)
    if replaced:
        fork.store.commit([Put(record.path, {**(record.data or {}), "incarnation": 1})])
    with pytest.raises(NoSemaphore):
        waits.confirm(ports, "fork", waiter)
    assert bool(fork.store.query(Query("semaphores/fork/waiters"))) is replaced


def test_lowering_the_permits_ends_the_waits_that_want_more_and_the_others_continue(world: World) -> None:
    world.ask("PUT", "semaphores/fork", {"permits": 2, "lease_seconds": 60})
    lease = world.ask("POST", "semaphore-wait/fork", {"permits": 2})[1]["lease"]["id"]
    late = {"function": "philosophers", "task": "wait_for_second_fork", "payload": MEAL}
    wide = {"continuation": CALL, "permits": 2, "on_timeout": late}
    for id_, body in (("a", wide), ("b", wide), ("c", {"continuation": CALL}), ("d", wide)):
        world.ask("POST", "semaphore-wait/fork", body | {"id": id_})
    with replaced(grants_page_max=2):
        assert world.ask("PATCH", "semaphores/fork", {"permits": 1})[1]["waits_ended"] == 2
        while refusing := [task for task in world.tasks if task.task == "refuse"]:
            world.tasks.remove(refusing[0])
            tasks.TASKS["refuse"](runtime.ports(), refusing[0].payload)
    assert [task.context for task in world.tasks if task.task == late["task"]] == [{"reason": "permits"}] * 3
    assert world.ask("POST", WAIT, wide | {"id": "a"})[1] == {"acquired": False, "ended": True}
    assert world.ask("POST", "semaphore-signal/fork", {"lease": lease}) == (200, {"released": True})
    assert [task.context["lease"]["id"].partition("~")[0] for task in world.tasks if task.task == "eat"] == ["c"]


@pytest.mark.parametrize(
    ("query", "field"),
    [("waiting=yes", "waiting"), ("where=a==1", "where"), ("limit=51", "limit"), ("page_token=x", "page_token")],
)
def test_a_list_of_semaphores_names_the_parameter_that_is_wrong(world: World, query: str, field: str) -> None:
    status, problem = world.ask("GET", f"semaphores/?{query}")
    assert (status, problem["field"]) == (400, field)
    assert field in problem["detail"]
    assert "where=" not in problem["title"]


def test_a_page_token_of_all_semaphores_is_none_of_those_with_waiters(fork: World) -> None:
    token = fork.ask("GET", "semaphores/?limit=1")[1]["next_page_token"]
    assert fork.ask("GET", f"semaphores/?limit=1&waiting=true&page_token={token}")[1]["field"] == "page_token"


def test_a_field_that_is_null_counts_as_absent(fork: World) -> None:
    body = {"id": None, "permits": None, "continuation": None, "release_on_return": None, "lease_seconds": None}
    assert fork.ask("POST", "semaphore-wait/fork", body)[1]["acquired"]
