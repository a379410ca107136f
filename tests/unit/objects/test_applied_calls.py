"""Calls of objects: at once or posted, in order, once; what they send; messages that follow a call."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core.calls import Call
from signalbox.core.ports import Conflict
from signalbox.core.problems import OtherBody, Unavailable
from signalbox.core.user_code import ProcessEnded
from signalbox.core.wake_ups import WakeUp
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import Delivery
from signalbox.mailboxes.storage import read_mailbox
from signalbox.objects.limits import LIMITS
from signalbox.objects.model import Applied, Message, call_on_result, continuation_message, deletion, method_call
from signalbox.objects.service import Code, marked
from tests.unit.objects import accounts
from tests.unit.objects.accounts import Objects, error_of, result_of
from tests.unit.operations_platform import OperationsPlatform


@pytest.fixture
def objects() -> Objects:
    return Objects(OperationsPlatform())


def test_a_call_without_earlier_ones_is_applied_at_once_in_two_round_trips(objects: Objects) -> None:
    objects.call("a", "c0", "add", who="x")
    cost = objects.world.cost_of(lambda: objects.call("a", "c1", "add", who="y", amount=5))
    assert result_of(objects.get("a", "c1")) == 6
    assert cost == Cost(round_trips=2, reads=1, writes=2)


def test_a_post_is_applied_by_a_run_in_order_and_a_call_does_not_overtake_it(objects: Objects) -> None:
    objects.call("a", "c0", "add", who="first")
    cost = objects.world.cost_of(lambda: objects.post("a", "p1", method_call("add", {"who": "posted"})))
    assert cost == Cost(round_trips=3, writes=2, deletes=1, tasks=1)
    assert objects.call("a", "c1", "add", who="behind").outcome is None
    objects.run_all()
    assert [result_of(objects.get("a", each)) for each in ("c0", "p1", "c1")] == [1, 2, 3]


def test_a_repeated_call_is_applied_once_and_another_call_under_its_id_is_refused(objects: Objects) -> None:
    assert result_of(objects.call("a", "c", "add", who="x")) == 1
    assert result_of(objects.call("a", "c", "add", who="x")) == 1
    with pytest.raises(OtherBody):
        objects.call("a", "c", "add", who="y")
    objects.post("b", "p", method_call("add", {"who": "x"}))
    objects.run_all()
    assert result_of(objects.post("b", "p", method_call("add", {"who": "x"}))) == 1


def test_a_method_that_raises_leaves_the_state_and_its_error_is_the_result(objects: Objects) -> None:
    objects.call("a", "c0", "add", who="x")
    assert error_of(objects.call("a", "c1", "add", who="x", amount=-1))["detail"] == "Only upwards."
    assert error_of(objects.call("a", "c2", "fail"))["type"] == "method-failed"
    assert error_of(objects.call("a", "c3", "nothing"))["type"] == "no-such-method"
    assert result_of(objects.call("a", "c4", "add", who="x")) == 2


def test_what_a_method_sends_takes_effect_with_the_call(objects: Objects) -> None:
    cost = objects.world.cost_of(lambda: objects.call("a", "c", "tell", other="b"))
    assert cost.round_trips <= 5
    assert [task.task for task in objects.world.tasks] == ["printed", "turn"]
    objects.run_all()
    assert result_of(objects.call("b", "c", "add", who="x")) == 2


def test_a_continuation_runs_with_the_outcome_whether_it_is_set_before_or_after(objects: Objects) -> None:
    objects.call("a", "c0", "add", who="x")
    objects.post("a", "later", method_call("add", {"who": "y"}), delay_seconds=60)
    for number, target in enumerate(("c0", "later", "none")):
        objects.post("a", f"t{number}", continuation_message(target, Call("shop", "printed", {})))
    objects.run_all()
    outcomes = [task.context["outcome"] for task in objects.world.tasks]
    assert [(each["call"], each.get("result")) for each in outcomes] == [("c0", 1), ("none", None), ("later", 2)]
    assert outcomes[1]["error"]["status"] == 404


def test_calls_on_a_result_that_is_not_there_yet_reach_the_object_in_order(objects: Objects) -> None:
    objects.post("a", "opened", method_call("open", {"other": "b"}), delay_seconds=60)
    for who in ("first", "second"):
        objects.post("a", who, call_on_result("opened", "add", {"who": who}))
    objects.post("a", "third", call_on_result("first", "add", {"who": "on a number"}))
    objects.run_all()
    assert [result_of(objects.get("a", each)) for each in ("first", "second")] == [1, 2]
    assert error_of(objects.get("a", "third"))["type"] == "no-object"


def test_a_deleted_object_starts_again_and_its_revision_grows(objects: Objects) -> None:
    objects.call("a", "c0", "add", who="x", amount=5)
    revision = objects.world.record("objects/Counter~a/mailbox/!")["revision"]
    objects.post("a", "gone", deletion())
    objects.run_all()
    assert objects.world.record("objects/Counter~a") is None
    assert result_of(objects.call("a", "c1", "add", who="x")) == 1
    assert objects.world.record("objects/Counter~a/mailbox/!")["revision"] > revision
    assert objects.world.record("objects/Counter~a")["key"] == "a"


def test_a_call_for_a_year_ahead_is_woken_though_the_queue_cannot_look_so_far(objects: Objects) -> None:
    objects.post("a", "later", method_call("add", {"who": "x"}), delay_seconds=366 * 24 * 3600)
    objects.run_all()
    assert result_of(objects.get("a", "later")) == 1


def test_the_first_delivery_of_another_wake_up_counts_its_start_of_a_call_with_a_mark(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deadly(*_: Any) -> Applied:
        raise ProcessEnded

    objects.post("a", "p", method_call("add", {"who": "x"}))
    [task] = objects.wake_ups()
    monkeypatch.setattr(accounts, "CODE", Code("counters", deadly, accounts.function_of))
    objects.world.pass_time(10)
    for number, (wake_up, deliveries) in enumerate(
        [(task, LIMITS.careful_deliveries), (replace(task, name="b"), 0)], 1
    ):
        with pytest.raises(ProcessEnded):
            objects.run(wake_up, deliveries)
        assert objects.world.record("objects/Counter~a/mailbox/p")["mark"]["attempts"] == number
        objects.world.pass_time(LIMITS.call_mark_seconds + 1)


def test_of_two_runs_that_have_read_a_call_one_marks_it(objects: Objects) -> None:
    objects.post("a", "p", method_call("add", {"who": "x"}))
    [task] = objects.wake_ups()
    mailbox = read_mailbox(objects.ports.store, "objects/Counter~a", 10)
    runs = [
        Delivery(WakeUp.from_payload(task.payload), name, LIMITS.careful_deliveries) for name in ("first", "second")
    ]
    marked(objects.ports, runs[0], mailbox, mailbox.waiting[0], set())
    with pytest.raises(Conflict):
        marked(objects.ports, runs[1], mailbox, mailbox.waiting[0], set())


def test_a_call_that_kills_its_process_is_given_up_and_its_neighbours_are_not(objects: Objects) -> None:
    for number in range(3):
        objects.post("a", f"p{number}", method_call("add", {"who": str(number)}))
    [task] = objects.wake_ups()
    objects.world.pass_time(10)
    deaths = 0

    def deadly(address: ObjectAddress, state: str | None, message: Message, now: datetime) -> Applied:
        nonlocal deaths
        if message.body["arguments"]["who"] == "1":
            deaths += 1
            raise ProcessEnded
        return code.apply(address, state, message, now)

    code, accounts.CODE = accounts.CODE, Code("counters", deadly, accounts.function_of)
    try:
        for delivery in range(20):
            try:
                objects.run(task, delivery)
                break
            except ProcessEnded:
                continue
            except Unavailable:  # after the last start
                objects.world.pass_time(LIMITS.call_mark_seconds)
    finally:
        accounts.CODE = code
    objects.run_all()
    assert deaths == 12
    assert error_of(objects.get("a", "p1"))["type"] == "gave-up"
    assert [result_of(objects.get("a", each)) for each in ("p0", "p2")] == [1, 2]
