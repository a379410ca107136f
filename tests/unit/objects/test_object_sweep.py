"""Objects whose wake-up was lost are woken by the sweeper, when their messages have waited for an hour."""

from datetime import timedelta

import pytest

from signalbox.core.calls import Call
from signalbox.core.ports import Write
from signalbox.core.problems import Unavailable
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.storage import message_put
from signalbox.objects import sweep
from signalbox.objects.limits import LIMITS
from signalbox.objects.model import continuation_message, method_call
from signalbox.testing.replaced_limits import replaced
from tests.unit.objects.accounts import Objects, due_at, result_of
from tests.unit.operations_platform import OperationsPlatform

FUNCTIONS = {"Counter": "counters"}
SILENT = LIMITS.call_silent_seconds + 1


@pytest.fixture
def objects() -> Objects:
    return Objects(OperationsPlatform())


def post(objects: Objects, key: str, id_: str, **timing: float) -> None:
    objects.post(key, id_, method_call("add", {"who": id_}), **timing)


def swept(objects: Objects) -> int:
    return sweep.sweep(objects.ports, FUNCTIONS)


def purge(objects: Objects) -> None:
    """Lose all tasks."""
    objects.world.tasks.clear()


def test_a_posted_call_whose_task_is_lost_runs_after_an_hour(objects: Objects) -> None:
    for id_ in ("one", "two"):
        post(objects, "a", id_)
    purge(objects)
    assert swept(objects) == 0
    objects.world.pass_time(SILENT)
    assert swept(objects) == 1
    objects.run_all()
    assert [result_of(objects.get("a", id_)) for id_ in ("one", "two")] == [1, 2]
    assert swept(objects) == 0


def test_a_message_of_another_object_is_found_too(objects: Objects) -> None:
    objects.call("a", "c", "tell_only", other="b")
    purge(objects)
    objects.world.pass_time(SILENT)
    assert swept(objects) == 1
    objects.run_all()
    assert objects.state("b")["seen"] == ["told"]


def test_a_delayed_call_is_found_an_hour_after_its_time_and_not_before(objects: Objects) -> None:
    post(objects, "a", "later", delay_seconds=10 * 24 * 3600)
    purge(objects)
    objects.world.pass_time(9 * 24 * 3600)
    assert swept(objects) == 0
    objects.world.pass_time(24 * 3600 + 2 * SILENT)
    assert swept(objects) == 1
    objects.run_all()
    assert result_of(objects.get("a", "later")) == 1


def test_a_lost_wake_up_of_the_sweeper_is_repeated(objects: Objects) -> None:
    post(objects, "a", "one")
    for _ in range(3):
        purge(objects)
        objects.world.pass_time(SILENT)
        assert swept(objects) == 1
    objects.run_all()
    assert result_of(objects.get("a", "one")) == 1


def test_messages_that_cannot_run_hide_no_others(objects: Objects) -> None:
    """Those of a class without code stay: sweeps begin at random places."""
    with replaced(messages_swept_max=5):
        for number in range(50):
            objects.ports.store.commit(objects_message(f"gone{number}"))
        post(objects, "a", "one")
        purge(objects)
        objects.world.pass_time(SILENT)
        assert sum(swept(objects) for _ in range(200)) > 0


def objects_message(key: str) -> list[Write]:
    """Return the write of a message to an object whose class no function has."""
    return [message_put(ObjectAddress("Gone", key).base, "m", method_call("add", {}).to_record())]


def test_a_refused_task_and_an_unknown_class_do_not_end_the_sweep(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.ports.store.commit(objects_message("g"))
    post(objects, "a", "one")
    post(objects, "b", "one")
    purge(objects)
    objects.world.pass_time(SILENT)
    refused = iter([True])
    create = type(objects.ports.queue).create

    def once(queue: object, effects: object) -> None:
        if next(refused, False):
            raise Unavailable("for a moment")
        create(queue, effects)  # type: ignore[arg-type]  # as the real method receives them

    monkeypatch.setattr(type(objects.ports.queue), "create", once)
    assert swept(objects) == 3
    assert len(objects.wake_ups()) == 1


def test_an_idle_sweep_reads_once_and_a_call_that_ended_is_not_found(objects: Objects) -> None:
    post(objects, "a", "one")
    objects.run_all()
    objects.world.pass_time(timedelta(days=1).total_seconds())
    cost = objects.world.cost_of(lambda: swept(objects))
    assert (cost.round_trips, cost.reads, cost.writes) == (1, 1, 0)


def test_a_message_that_waited_for_an_outcome_is_found_when_it_waits_again(objects: Objects) -> None:
    post(objects, "a", "slow", delay_seconds=60)
    objects.post("a", "then", continuation_message("slow", Call("shop", "told", {})))
    for _ in range(2):  # the continuation is held, then the call is applied, and the continuation is due again
        task = objects.wake_ups()[0]
        objects.world.tasks.remove(task)
        objects.world.pass_time((due_at(task) - objects.world.now).total_seconds())
        objects.run(task)
    assert result_of(objects.get("a", "slow")) == 1
    purge(objects)
    objects.world.pass_time(SILENT)
    assert swept(objects) == 1
    objects.run_all()
    assert [task.task for task in objects.world.tasks] == ["told"]
