"""What a run does where it cannot go on as usual: older code, what was given up, the end of its time."""

from dataclasses import replace

import pytest

from shared.core.rules.calls import Call
from shared.core.rules.problems import BadObjectCall, Unavailable
from shared.objects.rules.classes import ObjectClass, read_only
from shared.objects.rules.messages import call_on_result, method_call
from shared.objects.rules.sending import send_task
from shared.tasks.operations import failures
from tests.unit.objects import accounts
from tests.unit.objects.accounts import CODE, Counter, Objects
from tests.unit.operations_platform import OperationsPlatform


class Upgraded(Counter):
    """A counter whose state has another shape."""

    version = 2
    entries: int = 0

    @staticmethod
    def upgrade(state: dict[str, object], version: int) -> dict[str, object]:
        assert version == 1
        return {**state, "entries": len(state["seen"])}  # type: ignore[arg-type]

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
    [task] = [each for each in objects.world.tasks if each.task == "turn"]
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
    assert objects.call("a", "c1", "count").outcome.result == 1  # type: ignore[union-attr]
    use(monkeypatch, accounts.COUNTER)
    assert objects.call("a", "c2", "add", who="old again").outcome is None
    assert delivered(objects, 30) == 30
    use(monkeypatch, NEW)
    assert delivered(objects, 1) == 0
    assert objects.get("a", "c2").outcome.result == 2  # type: ignore[union-attr]


def test_a_call_that_is_given_up_stands_among_the_failures_and_can_be_called_again(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> object:
        raise Unavailable("a transient error, each time")

    monkeypatch.setattr(accounts, "CODE", replace(CODE, apply=away))  # type: ignore[arg-type]
    objects.post("a", "p", method_call("add", {"who": "x"}))
    assert delivered(objects, 30) == 12
    assert objects.get("a", "p").outcome.error["type"] == "gave-up"  # type: ignore[union-attr,index]
    assert [line for line, _ in objects.world.reported] == ["call given up"]
    [failure] = failures.list_failed(objects.ports, "").failures
    assert (failure["function"], failure["task"], failure["attempts"]) == ("counters", "call_object", 10)
    assert failure["payload"] == {"class_name": "Counter", "key": "a", "method": "add", "arguments": {"who": "x"}}
    failures.retry(objects.ports, failure["id"])
    assert [task.task for task in objects.world.tasks] == ["call_object"]


def test_a_call_on_a_result_whose_class_is_gone_is_given_up_and_blocks_nothing(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.call("a", "opened", "open", other="b")
    objects.post("a", "behind", call_on_result("opened", "add", {"who": "x"}))

    def gone(class_name: str) -> str:
        raise BadObjectCall("The catalogue has no such class.")

    monkeypatch.setattr(accounts, "CODE", replace(CODE, function_of=gone))
    [task] = [each for each in objects.world.tasks if each.task == "turn"]
    objects.world.pass_time(10)
    for delivery in range(12):
        with pytest.raises(BadObjectCall):
            objects.run(task, delivery)
    objects.run(task, 12)
    assert objects.get("a", "behind").outcome.error["type"] == "gave-up"  # type: ignore[union-attr,index]
    assert objects.call("a", "c", "add", who="x").outcome.result == 1  # type: ignore[union-attr]


def test_calls_that_one_commit_creates_keep_their_order(objects: Objects) -> None:
    """Records of one commit have one create time."""
    whos = [str(number) for number in range(12)]
    objects.post("a", "opened", method_call("open", {"other": "b"}), delay_seconds=60)
    for who in whos:
        objects.post("a", f"on{who}", call_on_result("opened", "add", {"who": who}))
    objects.run_all()
    assert [objects.get("a", f"on{who}").outcome.result for who in whos] == list(range(1, 13))  # type: ignore[union-attr]


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
    assert objects.call("a", "c0", "peek").outcome.result == 100  # type: ignore[union-attr]
    assert objects.call("a", "c1", "shout").outcome.error["type"] == "bad-object-call"  # type: ignore[union-attr,index]
    assert objects.world.record("objects/Counter~a") is None
    assert objects.call("a", "c2", "add", who="x").outcome.result == 1  # type: ignore[union-attr]
