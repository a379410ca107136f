"""Large states, arguments and results of objects: they are payloads, which are removed with what names them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from signalbox import Function, batch, objects, transaction
from signalbox.adapters.cost_meter import Cost
from signalbox.core.calls import Call
from signalbox.core.idempotency_keys import hold, idempotent_calls
from signalbox.core.limits import DECLARED
from signalbox.core.ports import Delete
from signalbox.core.problems import NotFound, OtherBody, TooLarge, Unavailable
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.objects import service
from signalbox.objects.machine.classes import ObjectClass, Reference, read_only, send_post
from signalbox.objects.model import CallPlace, CallRecord, Message, Post, call_on_result, deletion, method_call
from signalbox.objects.service import Code
from signalbox.objects.shown import CallDoneShown, ObjectWithStateShown
from signalbox.payloads import sweep
from signalbox.payloads.model import opened
from signalbox.payloads.problems import NoPayload
from signalbox.payloads.service import opening_those_of
from signalbox.testing import Harness
from signalbox.testing.replaced_limits import replaced
from tests.unit.cost_table import row_cost
from tests.unit.objects.accounts import Objects, error_of, function_of
from tests.unit.operations_platform import OperationsPlatform

LARGE = "x" * 200_000
HUGE = "y" * 1_000_000
"""A state of this size does not fit into a record."""

DAY_SECONDS = 24 * 3600


class Counter:
    """Keeps a text."""

    text: str = ""
    calls: int = 0

    def put(self, text: str) -> int:
        self.text = text
        self.calls += 1
        return len(text)

    def echo(self, text: str) -> str:
        return text

    def same(self) -> int:
        return len(self.text)

    def take(self) -> str:
        return self.text

    def same_and_count(self) -> int:
        self.calls += 1
        return self.calls

    def tell(self, other: str, text: str) -> None:
        send_post(Post(ObjectAddress("Counter", other), method_call("put", {"text": text}, receipt=False)))
        send_post(Post(ObjectAddress("Counter", other), method_call("put", {"text": "last"}, receipt=False)))

    def open(self, other: str) -> Reference:
        return Reference(ObjectAddress("Counter", other))

    def tokens(self, value: dict[str, Any]) -> dict[str, Any]:
        return value

    @read_only
    def get(self) -> str:
        return self.text


COUNTER = ObjectClass.from_class(Counter)
CODE = Code("counters", COUNTER.apply, function_of, check=lambda _, state: COUNTER.check_state(state))
ADDRESS = ObjectAddress("Counter", "a")


@pytest.fixture(autouse=True)
def stored() -> Iterator[None]:
    with mock.patch.dict(DECLARED, {"payloads": "on"}):
        yield


@pytest.fixture
def at() -> Objects:
    return Objects(OperationsPlatform(), CODE)


def added(work: Callable[[str], Cost], large: str = LARGE) -> Cost:
    """Return what an operation costs more with a large value than with a small one."""
    more, less = work(large), work("x")
    names = ("round_trips", "reads", "writes", "deletes", "tasks")
    return Cost(**{name: getattr(more, name) - getattr(less, name) for name in names})


def keys(at: Objects) -> list[str]:
    return sorted(at.world.payloads.contents)


def forgotten(at: Objects) -> None:
    """Let the next reads be those of another process."""
    at.ports.payloads.forget()  # type: ignore[union-attr]  # the metered one


def result(at: Objects, call: CallRecord) -> Any:
    assert call.outcome is not None
    assert call.outcome.error is None, call.outcome.error
    with opening_those_of(at.ports):
        return opened(call.outcome.result)


def text_of(at: Objects, key: str = "a") -> Any:
    outcome = service.read_only(at.ports, CODE, ObjectAddress("Counter", key), method_call("get", {}))
    return opened(outcome.result)


# --- states ---


def test_a_large_state_is_a_payload_that_the_next_turn_replaces_and_the_sweeper_deletes(at: Objects) -> None:
    at.call("a", "1", "put", text=HUGE)
    assert len(str(at.world.record("objects/Counter~a/mailbox/!"))) < 1_000
    forgotten(at)
    assert text_of(at) == HUGE
    at.call("a", "2", "put", text=HUGE + "z")
    at.call("a", "3", "put", text=HUGE + "zz")
    sweep.sweep(at.ports)
    header = at.world.record("objects/Counter~a/mailbox/!")
    assert header is not None
    [_, _, key] = json.loads(header["state"])["$payload"]
    states = [each for each in keys(at) if each.split("/")[1] == key.split("/")[1]]
    assert (states, text_of(at)) == ([key], HUGE + "zz")
    assert at.world.ids("payload_removals") == []
    at.call("a", "4", "put", text="small")
    sweep.sweep(at.ports)
    assert (text_of(at), key in keys(at)) == ("small", False)


def test_a_turn_that_does_not_change_a_large_state_stores_nothing(at: Objects) -> None:
    at.call("a", "1", "put", text=HUGE)
    cost = at.world.cost_of(lambda: at.call("a", "2", "same"))
    assert (cost.stored, cost.opened, cost.writes, at.world.ids("payload_removals")) == (0, 0, 2, [])


def test_the_state_of_a_deleted_object_is_deleted(at: Objects) -> None:
    at.call("a", "1", "put", text=HUGE)
    at.post("a", "2", deletion())
    at.run_all()
    sweep.sweep(at.ports)
    assert [key for key in keys(at) if HUGE[:9].encode() in at.world.payloads.contents[key][:60]] == [
        key for key in keys(at) if at.world.payloads.stored[key].owner.endswith("/mailbox/1")
    ]


def test_a_later_revision_that_is_not_committed_yet_stays(at: Objects) -> None:
    at.call("a", "1", "put", text=HUGE)
    at.call("a", "2", "put", text=HUGE + "z")
    prefix = f"{keys_of_states(at)[0].rsplit('/', 2)[0]}/"
    at.world.payloads.create(f"{prefix}{10**18}/digest", b"1", "objects/Counter~a/mailbox/!")
    sweep.sweep(at.ports)
    assert len(keys_of_states(at)) == 2


def keys_of_states(at: Objects) -> list[str]:
    return [key for key, each in at.world.payloads.stored.items() if each.owner.endswith("/mailbox/!")]


def test_a_lost_state_is_an_error_and_calls_wait_for_it(at: Objects) -> None:
    at.call("a", "1", "put", text=HUGE)
    at.world.payloads.contents.clear()
    forgotten(at)
    at.call("a", "2", "same")
    at.world.pass_time(5)
    for delivery in range(20):
        with pytest.raises(Unavailable, match="is missing"):
            at.run(at.wake_ups()[0], delivery)
    assert {message for message, _ in at.world.reported} == {"payload damaged"}
    assert at.get("a", "2").is_pending


def test_a_state_that_was_replaced_while_it_was_read_is_no_damage(at: Objects) -> None:
    at.call("a", "1", "put", text=HUGE)
    before = at.ports.store.read("objects/Counter~a/mailbox/!")[0].data
    at.call("a", "2", "put", text=HUGE + "z")
    sweep.sweep(at.ports)
    forgotten(at)
    assert before is not None
    with pytest.raises(Unavailable, match="replaced"), service._opening(at.ports, ADDRESS):
        opened(json.loads(before["state"]))
    assert at.world.reported == []


def test_the_status_shows_a_large_state_by_size_and_it_can_be_read(at: Objects) -> None:
    at.call("a", "1", "put", text=HUGE)
    shown = ObjectWithStateShown.of_status(service.get_object(at.ports, ADDRESS)).state
    assert shown is not None
    assert shown["$payload"]["bytes"] > 1_000_000
    state = json.loads(service.state_by_hash(at.ports, ADDRESS, shown["$payload"]["sha256"]))
    assert state["fields"]["text"] == HUGE
    with pytest.raises(NoPayload):
        service.state_by_hash(at.ports, ADDRESS, "0" * 64)


def test_a_state_that_is_replaced_and_deleted_while_its_value_is_loaded_is_no_damage(at: Objects) -> None:
    at.call("a", "1", "put", text=HUGE)
    shown = ObjectWithStateShown.of_status(service.get_object(at.ports, ADDRESS)).state
    assert shown is not None
    before = service.read_state(at.ports.store, ADDRESS)
    at.call("a", "2", "put", text="small")
    sweep.sweep(at.ports)
    forgotten(at)
    with mock.patch.object(service, "read_state", return_value=before), pytest.raises(Unavailable, match="replaced"):
        service.state_by_hash(at.ports, ADDRESS, shown["$payload"]["sha256"])
    assert at.world.reported == []


# --- arguments and results ---


def test_large_arguments_and_results_are_named_by_the_record_of_the_call(at: Objects) -> None:
    call = at.call("a", "1", "echo", text=LARGE)
    assert result(at, call) == LARGE
    assert len(str(at.world.record("objects/Counter~a/mailbox/1"))) < 2_000
    outcome = at.get("a", "1").outcome
    assert outcome is not None
    shown = CallDoneShown.of(outcome)
    assert shown.result["$payload"]["bytes"] == 200_002
    content = service.result_by_hash(at.ports, CallPlace(ADDRESS, "1"), shown.result["$payload"]["sha256"])
    assert json.loads(content) == LARGE
    with pytest.raises(NotFound):
        service.result_by_hash(at.ports, CallPlace(ADDRESS, "2"), "0" * 64)


def test_they_are_deleted_by_the_walk_when_the_receipt_is_gone(at: Objects) -> None:
    at.call("a", "1", "echo", text=LARGE)
    at.world.pass_time(10 * DAY_SECONDS)
    assert sweep.sweep(at.ports) == 0
    assert len(keys(at)) == 2
    at.ports.store.commit([Delete("objects/Counter~a/mailbox/1")])
    at.world.pass_time(8 * DAY_SECONDS)
    assert sweep.sweep(at.ports) == 2


def test_a_repeat_of_a_large_call_stores_nothing_and_another_one_under_its_id_is_refused(at: Objects) -> None:
    message = method_call("put", {"text": LARGE})
    at.post("a", "1", message)
    cost = at.world.cost_of(lambda: at.post("a", "1", message))
    assert cost.stored == 0
    assert len(keys(at)) == 1
    with pytest.raises(OtherBody):
        at.post("a", "1", method_call("put", {"text": LARGE + "y"}))
    with pytest.raises(OtherBody):
        at.post("a", "1", method_call("put", {"text": "y"}))
    at.run_all()
    assert text_of(at) == LARGE


def test_a_large_argument_with_the_token_of_a_lease_differs_in_each_delivery_and_makes_one_call(at: Objects) -> None:
    for lease in ("first-lease-1", "other-lease-2"):
        with idempotent_calls("task"):
            hold({lease: "the lease"})
            at.post("a", "1", method_call("put", {"text": LARGE + lease}))
    at.run_all()
    assert text_of(at) == f"{LARGE}first-lease-1"


def test_two_deliveries_at_once_under_different_leases_make_one_large_call(at: Objects) -> None:
    place = CallPlace(ADDRESS, "1")

    def claimed(lease: str) -> Message:
        hold({lease: "the lease"})
        return service.claimed_message(at.ports, place, method_call("put", {"text": LARGE + lease}))

    with idempotent_calls("task"):
        late = claimed("other-lease-2")
        with idempotent_calls("task"):
            service._post_call(at.ports, function_of, place, claimed("first-lease-1"))
        service._post_call(at.ports, function_of, place, late)
    at.run_all()
    assert text_of(at) == f"{LARGE}first-lease-1"


def test_two_that_store_the_arguments_of_one_call_at_once_make_one_call(at: Objects) -> None:
    message = method_call("put", {"text": LARGE})
    first, other = (service.claimed_message(at.ports, CallPlace(ADDRESS, "1"), message) for _ in range(2))
    for own in (first, other):
        service._post_call(at.ports, function_of, CallPlace(ADDRESS, "1"), own)
    assert first != other
    at.run_all()
    assert text_of(at) == LARGE


def test_a_method_sends_a_large_message_before_its_next_one(at: Objects) -> None:
    at.call("a", "1", "tell", other="b", text=HUGE)
    at.run_all()
    assert text_of(at, "b") == "last"
    assert sum(b"yyy" in content for content in at.world.payloads.contents.values()) == 2, (
        "that of the call, and its own"
    )


def test_a_large_argument_is_copied_to_the_object_that_a_call_is_forwarded_to(at: Objects) -> None:
    at.post("a", "1", method_call("open", {"other": "b"}))
    at.post("a", "2", call_on_result("1", "put", {"text": LARGE}))
    at.run_all()
    assert text_of(at, "b") == LARGE
    assert result(at, at.get("a", "2")) == 200_000
    owners = sorted(each.owner.rpartition("/")[0] for each in at.world.payloads.stored.values())
    assert owners == ["objects/Counter~a/mailbox", "objects/Counter~b/mailbox"]


def test_a_task_after_a_call_receives_the_name_of_another_copy(at: Objects) -> None:
    at.post("a", "1", method_call("echo", {"text": LARGE}, then=(Call("shop", "told", {}),)))
    at.run_all()
    [told] = [task for task in at.world.tasks if task.task == "told"]
    [_, _, key] = told.context["outcome"]["result"]["$payload"]
    assert (key.startswith("tasks/"), key in keys(at)) == (True, True)


def test_an_object_that_looks_like_the_name_of_a_payload_arrives_as_it_is(at: Objects) -> None:
    value = {"$payload": [1, "hash", "key"]}
    assert result(at, at.call("a", "1", "tokens", value=value)) == value


def test_a_turn_holds_as_many_large_results_as_fit_into_memory(at: Objects) -> None:
    with replaced(turn_payload_bytes_max=450_000):
        for number in range(4):
            at.post("a", str(number), method_call("echo", {"text": f"{LARGE}{number}"}))
        at.world.pass_time(5)
        [wake] = at.wake_ups()
        at.world.tasks.remove(wake)
        at.run(wake)
        ended = [at.get("a", str(number)).outcome is not None for number in range(4)]
        assert ended == [True, True, False, False]
        at.run_all()
        assert result(at, at.get("a", "3")) == f"{LARGE}3"
        too_large = at.call("a", "5", "echo", text=LARGE * 3)
        assert error_of(too_large)["type"] == "too-large"


def test_without_the_setting_a_large_result_and_state_are_refused_and_the_refusal_names_it(at: Objects) -> None:
    with mock.patch.dict(DECLARED, {"payloads": "off"}):
        for method, text in (("echo", LARGE), ("put", HUGE[:950_000])):
            error = error_of(at.call("a", method, method, text=text))
            assert error["type"] == "too-large"
            assert "`payloads: true` in the catalogue" in error["detail"]
    assert keys(at) == []


def test_a_delayed_call_keeps_its_large_argument_for_a_year(at: Objects) -> None:
    at.post("a", "1", method_call("put", {"text": LARGE}), delay_seconds=360 * DAY_SECONDS)
    for _ in range(5):
        at.world.pass_time(timedelta(days=60).total_seconds())
        sweep.sweep(at.ports)
    assert len(keys(at)) == 1


# --- costs ---


def test_a_large_argument_and_a_large_result_are_stored_once() -> None:
    def posted(value: str) -> Cost:
        here = Objects(OperationsPlatform(), CODE)
        return here.world.cost_of(lambda: here.post("a", "1", method_call("put", {"text": value})))

    def applied(value: str) -> Cost:
        here = Objects(OperationsPlatform(), CODE)
        here.call("a", "0", "put", text=value)
        return here.world.cost_of(lambda: here.call("a", "1", "take"))

    assert added(posted) == row_cost("payloads", "call")
    assert added(applied) == row_cost("payloads", "result_of_call")


def test_a_large_state_is_stored_by_each_turn_that_changes_it() -> None:
    def replaced_state(value: str) -> Cost:
        here = Objects(OperationsPlatform(), CODE)
        here.call("a", "0", "put", text=value)
        return here.world.cost_of(lambda: here.call("a", "1", "same_and_count"))

    def opened_state(value: str) -> Cost:
        here = Objects(OperationsPlatform(), CODE)
        here.call("a", "0", "put", text=value)
        forgotten(here)
        return here.world.cost_of(lambda: here.call("a", "1", "same"))

    assert added(replaced_state, HUGE) == row_cost("payloads", "state")
    assert added(opened_state, HUGE) == row_cost("payloads", "opened")


def test_the_sweeper_visits_each_object_whose_large_state_was_replaced_once(at: Objects) -> None:
    at.call("a", "0", "put", text=HUGE)
    sweep.sweep(at.ports)
    idle = at.world.cost_of(lambda: sweep.sweep(at.ports))
    for number in range(1, 4):
        at.call("a", str(number), "put", text=f"{HUGE}{number}")
    cost = at.world.cost_of(lambda: sweep.sweep(at.ports))
    names = ("round_trips", "reads", "writes", "deletes", "tasks")
    more = Cost(**{name: getattr(cost, name) - getattr(idle, name) for name in names})
    assert more == row_cost("payloads", "swept_states")


# --- over HTTP, and in the code of a flow ---


@pytest.fixture
def project() -> Iterator[Harness]:
    harness = Harness()
    harness.functions._catalogue = replace(harness.functions._catalogue, payloads=True)
    app = Function("boxes")
    app.object(Counter)

    @app.flow
    async def echoed(text: str) -> str:
        made: str = await objects("Counter", "a").echo(text=text)
        await objects("Counter", "a").put(text=made)
        return made

    app.echoed = echoed  # type: ignore[attr-defined]  # for the tests
    with harness:
        harness.add(app)
        harness.app = app  # type: ignore[attr-defined]  # for the tests
        yield harness


def test_a_flow_passes_large_values_to_an_object_and_receives_one(project: Harness) -> None:
    run = project.app.echoed.start("1", text=LARGE)  # type: ignore[attr-defined]  # of the fixture
    project.travel(10)
    assert (run.status().state, run.status().result) == ("completed", LARGE)
    found = project.call("boxes", "/objects/Counter/a/get", method="POST", json={})
    assert found.json == {"result": LARGE}


def test_the_answer_of_a_call_shows_a_large_result_that_can_be_loaded(project: Harness) -> None:
    path = "/objects/Counter/a/echo?wait_seconds=5"
    answer = project.call("boxes", path, method="POST", json={"text": LARGE}).json
    assert answer is not None
    sha256 = answer["result"]["$payload"]["sha256"]
    found = project.call("boxes", f"/objects/Counter/a/calls/{answer['call']}/payloads/{sha256}")
    assert found.json == {"sha256": sha256, "value": LARGE}
    project.call("boxes", "/objects/Counter/a/put?wait_seconds=5", method="POST", json={"text": HUGE})
    shown = project.call("boxes", "/objects/Counter/a?state=true").json
    assert shown is not None
    state = shown["state"]["$payload"]
    loaded = project.call("boxes", f"/objects/Counter/a/payloads/{state['sha256']}").json
    assert loaded is not None
    assert loaded["value"]["fields"]["text"] == HUGE


def test_an_argument_above_the_bound_is_refused_at_the_call_with_and_without_payloads(project: Harness) -> None:
    box = objects("Counter", "b")
    with replaced(payload_bytes_max=150_000), pytest.raises(TooLarge, match="at most 150,000 bytes"):
        box.echo(text=LARGE)
    with mock.patch.dict(DECLARED, clear=True), pytest.raises(TooLarge, match="need `payloads: true`"):
        box.echo(text=LARGE)


def test_a_transaction_and_a_batch_call_a_method_with_a_large_argument(project: Harness) -> None:
    box = objects("Counter", "b")
    transaction(lambda t: t.enqueue(box.put.call(text=LARGE + "1")))
    project.travel(5)
    found = project.call("boxes", "/objects/Counter/b/get", method="POST", json={})
    assert found.json == {"result": LARGE + "1"}
    batch("b").populate([box.put.call(text=LARGE + "2")])
    project.travel(5)
    assert batch("b").status()["succeeded"] == 1
    project.travel(5)
    found = project.call("boxes", "/objects/Counter/b/get", method="POST", json={})
    assert found.json == {"result": LARGE + "2"}
    with pytest.raises(TooLarge):
        batch("c").populate([box.put.call(text="x")], on_complete=box.put.call(text=LARGE))


def test_a_placeholder_has_the_large_value(project: Harness) -> None:
    box = objects("Counter", "b")
    echoed, put = box.echo(text=LARGE), box.put(text=HUGE)
    project.travel(5)
    got = box.get()
    project.travel(5)
    assert (echoed.result(), put.result(), got.result()) == (LARGE, len(HUGE), HUGE)
