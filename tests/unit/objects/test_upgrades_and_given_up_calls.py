"""Special runs: of older code, of calls that are given up, at the end of the time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from signalbox.adapters.http.json_bodies import json_of
from signalbox.core.calls import Call
from signalbox.core.limits import DECLARED
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Change, Store
from signalbox.core.problems import Unavailable
from signalbox.mailboxes import service as mailboxes
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.messages import header_path
from signalbox.mailboxes.storage import Mailbox, header_put, read_mailbox
from signalbox.objects import service
from signalbox.objects.limits import LIMITS as OBJECTS_LIMITS
from signalbox.objects.machine.classes import ObjectClass, read_only, send_task
from signalbox.objects.machine.deadly_calls import Mark
from signalbox.objects.model import Applied, Message, call_on_result, continuation_message, method_call
from signalbox.objects.problems import BadObjectCall
from signalbox.tasks.service import failures
from signalbox.testing.replaced_limits import replaced
from tests.unit.objects import accounts
from tests.unit.objects.accounts import CODE, Counter, Objects, due_at, error_of, result_of
from tests.unit.operations_platform import OperationsPlatform


class Upgraded(Counter):
    """A counter whose state has another shape."""

    version = 2
    entries: int = 0

    @staticmethod
    def upgrade(state: dict[str, Any], version: int) -> dict[str, Any]:
        assert version == 1
        return {**state, "entries": len(state["seen"])}

    def count(self) -> int:
        return self.entries


NEW = ObjectClass.from_class(Upgraded)


@pytest.fixture
def objects() -> Objects:
    return Objects(OperationsPlatform())


def use(monkeypatch: pytest.MonkeyPatch, kind: ObjectClass) -> None:
    monkeypatch.setattr(
        accounts, "CODE", replace(CODE, apply=kind.apply, check=lambda _, state: kind.check_state(state))
    )


def delivered(objects: Objects, times: int) -> int:
    """Deliver the wake-up that waits so often, or until it is done; return how often it was refused."""
    [task] = objects.wake_ups()
    objects.world.pass_time(10)
    for delivery in range(times):
        try:
            objects.run(task, delivery)
        except Unavailable:
            objects.world.pass_time(70)
        else:
            objects.world.tasks.remove(task)
            return delivery
    return times


def test_an_older_state_is_upgraded_and_a_newer_one_is_left_alone_however_often(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.call("a", "c0", "add", who="old")
    use(monkeypatch, NEW)
    assert result_of(objects.call("a", "c1", "count")) == 1
    use(monkeypatch, accounts.COUNTER)
    assert objects.call("a", "c2", "add", who="old again").outcome is None
    assert delivered(objects, 30) == 30
    use(monkeypatch, NEW)
    assert delivered(objects, 1) == 0
    assert result_of(objects.get("a", "c2")) == 2


def test_a_call_that_is_given_up_is_listed_under_failures_and_can_be_retried(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> Applied:
        raise Unavailable("a transient error, each time")

    monkeypatch.setattr(accounts, "CODE", replace(CODE, apply=away))
    objects.post("a", "p", method_call("add", {"who": "x"}))
    assert delivered(objects, 30) == 12
    assert error_of(objects.get("a", "p"))["type"] == "gave-up"
    assert [line for line, _ in objects.world.reported] == ["call given up"]
    [failure] = json_of(failures.page_of(objects.ports, failures.FAILED, "").failures)
    assert (failure["function"], failure["task"], failure["attempts"]) == ("counters", "call_object", 10)
    assert failure["payload"] == {"class_name": "Counter", "key": "a", "method": "add", "arguments": {"who": "x"}}
    failures.retry(objects.ports, failure["id"])
    assert [task.task for task in objects.world.tasks] == ["call_object"]


def test_a_call_that_is_given_up_is_told_in_the_commit_of_its_failure(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> Applied:
        raise Unavailable("a transient error, each time")

    monkeypatch.setitem(DECLARED, "task_parameters", '{"counters": {"failure_notice": ["notice"]}}')
    monkeypatch.setattr(accounts, "CODE", replace(CODE, apply=away))
    objects.post("a", "p", method_call("add", {"who": "x"}))
    delivered(objects, 30)
    [failure] = json_of(failures.page_of(objects.ports, failures.FAILED, "").failures)
    [notice] = [task.payload["notice"] for task in objects.world.tasks if task.task == "failure_notice"]
    assert (notice["subject"], notice["name"], notice["id"]) == ("object", "Counter", failure["id"])


def test_a_call_on_a_result_whose_class_is_gone_is_given_up_and_blocks_nothing(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.call("a", "opened", "open", other="b")
    objects.post("a", "behind", call_on_result("opened", "add", {"who": "x"}))

    def gone(class_name: str) -> str:
        raise BadObjectCall("The catalogue has no such class.")

    monkeypatch.setattr(accounts, "CODE", replace(CODE, function_of=gone))
    [task] = objects.wake_ups()
    objects.world.pass_time(10)
    for delivery in range(12):
        with pytest.raises(BadObjectCall):
            objects.run(task, delivery)
    objects.world.pass_time(OBJECTS_LIMITS.call_mark_seconds + 1)
    objects.run(task, 12)
    assert error_of(objects.get("a", "behind"))["type"] == "gave-up"
    assert result_of(objects.call("a", "c", "add", who="x")) == 1


def test_calls_that_one_commit_creates_keep_their_order(objects: Objects) -> None:
    """Records of one commit have the same create time."""
    whos = [str(number) for number in range(12)]
    objects.post("a", "opened", method_call("open", {"other": "b"}), delay_seconds=60)
    for who in whos:
        objects.post("a", f"on{who}", call_on_result("opened", "add", {"who": who}))
    objects.run_all()
    assert [result_of(objects.get("a", f"on{who}")) for who in whos] == list(range(1, 13))


def test_the_outcome_of_a_call_behind_many_objects_is_found(objects: Objects) -> None:
    objects.call("a", "0", "open", other="1")
    for number in range(1, 30):
        objects.post("a", str(number), call_on_result(str(number - 1), "open", {"other": str(number + 1)}))
    objects.run_all()
    assert [objects.get("a", str(number)).outcome is not None for number in range(30)] == [True] * 30


def test_a_read_only_method_that_was_posted_changes_and_sends_nothing(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Careless(Counter):
        @read_only
        def peek(self) -> int:
            self.total += 100
            return self.total

        @read_only
        def shout(self) -> None:
            send_task(Call("shop", "printed", {}))

    use(monkeypatch, ObjectClass.from_class(Careless))
    assert result_of(objects.call("a", "c0", "peek")) == 100
    assert error_of(objects.call("a", "c1", "shout"))["type"] == "bad-object-call"
    assert objects.world.record("objects/Counter~a") is None
    assert result_of(objects.call("a", "c2", "add", who="x")) == 1


def test_a_held_call_loses_its_mark_so_that_another_run_may_take_it_when_it_waits_again(objects: Objects) -> None:
    objects.post("a", "opened", method_call("open", {"other": "b"}), delay_seconds=5)
    objects.post("a", "held", call_on_result("opened", "add", {"who": "x"}))
    first = objects.wake_ups()[0]
    objects.world.pass_time(1)
    objects.run(first, OBJECTS_LIMITS.careful_deliveries)
    assert not {"mark", "since"} & objects.world.record("objects/Counter~a/mailbox/held").keys()
    objects.run_all()
    assert objects.world.now < due_at(first) + timedelta(seconds=OBJECTS_LIMITS.call_mark_seconds)
    assert result_of(objects.get("a", "held")) == 1


def test_a_wake_up_that_is_delivered_twice_at_once_does_not_give_up_the_call_that_it_applies(objects: Objects) -> None:
    objects.post("a", "c", method_call("add", {"who": "x"}))
    [task] = objects.wake_ups()
    objects.world.pass_time(1)
    marked = Mark(OBJECTS_LIMITS.call_attempts_max - 1).next(task.name, objects.world.now).to_record()
    objects.ports.store.commit([Change("objects/Counter~a/mailbox/c", {("mark",): marked})])
    with pytest.raises(Unavailable):
        objects.run(task, OBJECTS_LIMITS.call_attempts_max)
    objects.world.pass_time(OBJECTS_LIMITS.call_mark_seconds + 1)
    objects.run(task, OBJECTS_LIMITS.call_attempts_max)
    assert error_of(objects.get("a", "c"))["type"] == "gave-up"


def test_a_run_that_loses_a_race_to_a_turn_after_its_slot_does_not_leave_a_call_that_it_has_marked(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it left the call, no other run could apply it for a minute."""
    objects.post("a", "c", method_call("add", {"who": "x"}))
    [task] = objects.wake_ups()
    objects.world.pass_time(10)
    [header] = objects.ports.store.read(header_path("objects/Counter~a"))
    marked, store = service.marked, objects.ports.store

    def outrun(*of_run: Any) -> Any:
        """Another turn, which read the mailbox before the call was posted, commits while the call is applied."""
        begun = marked(*of_run)
        if store.read(header.path)[0].data is None:
            for revision in (1, 1 << 62):  # the turn that created the header is not trusted
                store.commit([header_put(store.read(header.path)[0], {"state": None}, revision)])
        return begun

    monkeypatch.setattr(service, "marked", outrun)
    objects.run(task, OBJECTS_LIMITS.careful_deliveries)
    assert result_of(objects.get("a", "c")) == 1


def test_a_message_that_was_applied_since_it_was_read_is_not_applied_again_under_a_newer_header(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query of Google's emulator may find a message as it was before the header that it finds."""
    objects.call("a", "c", "add", who="x")
    objects.post("a", "p", method_call("add", {"who": "y"}))
    base = "objects/Counter~a"
    before = read_mailbox(objects.ports.store, base, MAILBOXES_LIMITS.mailbox_page)
    [task] = objects.wake_ups()
    objects.run_all()
    torn = [replace(read_mailbox(objects.ports.store, base, MAILBOXES_LIMITS.mailbox_page), waiting=before.waiting)]

    def read(store: Store, base: str, page_max: int) -> Mailbox:
        return torn.pop() if torn else read_mailbox(store, base, page_max)

    monkeypatch.setattr(mailboxes, "read_mailbox", read)
    objects.run(task)
    assert torn == []
    assert objects.state("a")["seen"] == ["x", "y"]


def test_large_continuations_of_one_pending_call_all_run_and_block_nothing(objects: Objects) -> None:
    """Their payloads together exceed a record, and an outbox record: each is escaped to 300 KB of JSON."""
    objects.post("a", "slow", method_call("add", {"who": "x"}), delay_seconds=60)
    for number in range(4):
        payload = {"number": number, "text": "ü" * 51_000}
        objects.post("a", f"then{number}", continuation_message("slow", Call("shop", "printed", payload)))
    objects.run_all()
    ran = [task.payload["number"] for task in objects.world.tasks if task.task == "printed"]
    assert sorted(ran) == [0, 1, 2, 3]
    assert result_of(objects.call("a", "later", "add", who="y")) == 2


def test_a_continuation_that_is_given_up_runs_with_that_error(objects: Objects) -> None:
    objects.call("a", "opened", "add", who="x")
    objects.post("a", "then", continuation_message("opened", Call("shop", "printed", {})))
    with replaced(call_attempts_max=0):
        [task] = objects.wake_ups()
        objects.world.pass_time(10)
        objects.run(task, OBJECTS_LIMITS.careful_deliveries)
    [ran] = [task for task in objects.world.tasks if task.task == "printed"]
    assert ran.context["outcome"]["error"]["type"] == "gave-up"


@pytest.mark.parametrize("returns", [lambda state: state["a bug"], lambda _: None, lambda state: {**state, "seen": 1}])
def test_a_bug_in_upgrade_gives_up_no_call(
    objects: Objects, monkeypatch: pytest.MonkeyPatch, returns: Callable[[dict[str, Any]], Any]
) -> None:
    class Careless(Counter):
        version = 2

        @staticmethod
        def upgrade(state: dict[str, Any], _: int) -> Any:
            return returns(state)

    objects.call("a", "c0", "add", who="old")
    use(monkeypatch, ObjectClass.from_class(Careless))
    objects.post("a", "c1", method_call("add", {"who": "x"}))
    assert delivered(objects, 30) == 30
    use(monkeypatch, NEW)
    assert delivered(objects, 1) == 0
    assert result_of(objects.get("a", "c1")) == 2


@pytest.mark.parametrize("annotation", [dict[str, int], int, set[int]])
def test_a_state_whose_field_has_another_type_in_the_code_gives_up_no_call(
    objects: Objects, monkeypatch: pytest.MonkeyPatch, annotation: Any
) -> None:
    changed = type("Changed", (Counter,), {"__annotations__": {"seen": annotation}, "seen": None})
    objects.call("a", "c0", "add", who="old")
    use(monkeypatch, ObjectClass.from_class(changed))
    objects.post("a", "c1", method_call("add", {"who": "x"}))
    assert delivered(objects, 30) == 30
    use(monkeypatch, accounts.COUNTER)
    assert delivered(objects, 1) == 0
    assert result_of(objects.get("a", "c1")) == 2


def test_a_method_that_only_newer_code_has_waits_for_some_minutes_and_then_is_an_error(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def knows(_: Any, message: Message) -> bool:
        return message.body["method"] in accounts.COUNTER.methods

    monkeypatch.setattr(accounts, "CODE", replace(CODE, knows=knows))
    objects.post("a", "known", method_call("add", {"who": "x"}))
    objects.post("a", "new", method_call("added_today", {}))
    objects.post("a", "behind", method_call("add", {"who": "y"}))
    objects.world.pass_time(10)
    [task] = objects.wake_ups()
    objects.world.tasks.remove(task)
    objects.run(task)
    assert result_of(objects.get("a", "known")) == 1
    [again] = objects.wake_ups()
    for deliveries in range(20):
        with pytest.raises(Unavailable):
            objects.run(again, deliveries)
        objects.world.pass_time(10)
    objects.world.pass_time(CORE_LIMITS.deployment_seconds)
    objects.run(again, 20)
    objects.run_all()
    assert error_of(objects.get("a", "new"))["type"] == "no-such-method"
    assert result_of(objects.get("a", "behind")) == 2
