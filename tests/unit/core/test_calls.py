"""Calls of a user's task: how they are read, kept, and become effects."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signalbox.adapters import deployed_catalogue
from signalbox.adapters.cloud_tasks import task_request
from signalbox.adapters.settings import Settings, from_environment
from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.limits import LIMITS
from signalbox.core.problems import BadCall, Problem, TooLarge

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CALL = {"function": "kitchen", "task": "cook", "payload": {"dish": [["soup"]], "": None}}


def test_a_call_has_a_queue_and_no_delay_unless_it_says_otherwise() -> None:
    assert Call.from_request(CALL, "continuation") == Call(
        "kitchen", "cook", {"dish": [["soup"]], "": None}, "tasks", 0
    )


def test_a_member_that_is_null_is_as_if_absent() -> None:
    empty = {"payload": None, "queue": None, "delay_seconds": None}
    assert Call.from_request(CALL | empty, "continuation") == Call("kitchen", "cook", {}, "tasks", 0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"function": "Kitchen"}, "on_complete.function"),
        ({"function": "http://elsewhere/"}, "on_complete.function"),
        ({"function": None}, "on_complete.function"),
        ({"task": "../cook"}, "on_complete.task"),
        ({"task": ""}, "on_complete.task"),
        ({"payload": []}, "on_complete.payload"),
        ({"queue": "a/b"}, "on_complete.queue"),
        ({"delay_seconds": -1}, "on_complete.delay_seconds"),
        ({"delay_seconds": True}, "on_complete.delay_seconds"),
        ({"delay_seconds": float("nan")}, "on_complete.delay_seconds"),
        ({"delay_seconds": LIMITS.delay_seconds_max + 1}, "on_complete.delay_seconds"),
        ({"url": "http://elsewhere/"}, "on_complete.url"),
    ],
)
def test_an_invalid_call_is_refused_by_the_name_of_the_field(change: Any, field: str) -> None:
    with pytest.raises(BadCall) as refused:
        Call.from_request(CALL | change, "on_complete")
    assert refused.value.field == field


@pytest.mark.parametrize("value", [None, [], "cook", 1])
def test_a_call_must_be_an_object(value: Any) -> None:
    with pytest.raises(BadCall):
        Call.from_request(value, "continuation")


def test_a_payload_is_bounded_by_its_bytes() -> None:
    fits = "ä" * ((LIMITS.task_bytes_max - len('{"x":""}')) // 2)
    assert Call.from_request(CALL | {"payload": {"x": fits}}, "continuation").payload == {"x": fits}
    with pytest.raises(TooLarge):
        Call.from_request(CALL | {"payload": {"x": fits + "ä"}}, "continuation")


def test_a_record_of_a_call_gives_the_call_back() -> None:
    call = Call.from_request(CALL | {"queue": "slow", "delay_seconds": 1.5}, "continuation")
    assert Call.from_record(call.to_record()) == call


def test_a_call_becomes_a_task_at_its_own_address_with_the_lease_next_to_the_payload() -> None:
    lease = {"semaphore": "s", "id": "l", "token": 7, "ends_at": NOW}
    effect = Call.from_request(CALL, "continuation").after(2).effect("name", NOW, lease=lease)
    assert (effect.path, effect.not_before) == ("/tasks/cook", NOW + timedelta(seconds=2))
    assert effect.context == {"lease": lease | {"ends_at": "2026-01-02T03:04:05Z"}}


def test_the_context_of_a_payload_survives_the_outbox_and_reaches_the_envelope() -> None:
    effect = Call.from_request(CALL, "continuation").effect("name", NOW, unit={"batch": "b", "index": 0, "attempt": 0})
    assert outbox.from_record(outbox.to_record([effect])) == (effect,)
    body = task_request(from_environment({}), effect, "")["task"]["http_request"]["body"].decode()
    assert '"unit":{"batch":"b","index":0,"attempt":0}' in body.replace(" ", "")


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: Settings = from_environment(
        {"SIGNALBOX_TASK_FUNCTIONS": '{"kitchen": ["cook"]}', "SIGNALBOX_TASK_QUEUES": '["tasks"]'}
    )
    monkeypatch.setattr(deployed_catalogue, "settings", lambda: listed)


@pytest.mark.usefixtures("catalogue")
def test_a_call_names_a_function_a_task_and_a_queue_of_the_catalogue() -> None:
    deployed_catalogue.check_deployed(continuation=Call.from_request(CALL, "continuation"), on_timeout=None)
    for change, part in (
        ({"function": "cellar"}, "function"),
        ({"task": "wash"}, "task"),
        ({"queue": "slow"}, "queue"),
    ):
        with pytest.raises(Problem) as refused:
            deployed_catalogue.check_deployed(on_complete=Call.from_request(CALL | change, "on_complete"))
        assert refused.value.field == f"on_complete.{part}"
        assert next(iter(change.values())) in refused.value.detail


def test_a_call_made_in_code_is_checked_like_one_that_arrived() -> None:
    assert Call("kitchen", "cook", {"dish": "soup"}, delay_seconds=2).checked("cook").delay_seconds == 2.0
    with pytest.raises(BadCall, match=r"cook\.task"):
        Call("kitchen", "../cook", {}).checked("cook")
    with pytest.raises(TooLarge):
        Call("kitchen", "cook", {"x": "a" * LIMITS.task_bytes_max}).checked("cook")


def test_the_task_that_resumes_a_flow_is_shown_with_its_run_and_step() -> None:
    call = Call("shop", "flow_result", {"flow": "flows/checkout~order~7", "path": "2.1", "life": "x", "attempt": 1})
    assert call.shown() == {"function": "shop", "task": "flow_result", "flow": "checkout/order~7", "step": "2.1"}
    assert Call("shop", "pay", {"flow": "flows/checkout~7"}).shown() == {"function": "shop", "task": "pay"}
