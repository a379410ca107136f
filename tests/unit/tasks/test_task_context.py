"""A task can read its attempt: number, operation, trace, time left, and whether its result is still needed."""

import pytest

from signalbox import Call, Function, TaskContext, Unit, batch, semaphore
from signalbox.batches.api import forget_liveness
from signalbox.core.effects import Effect
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness


class Press:
    """A function whose tasks keep what they see, and raise in every attempt but the last."""

    def __init__(self) -> None:
        self.seen: list[TaskContext] = []
        self.app = app = Function("press")

        @app.task(attempts_max=3, queue="batches")
        def publish(context: TaskContext, title: str) -> None:
            self.seen.append(context)
            if not context.is_last:
                raise RuntimeError(title)

        @app.task
        def bind(unit: Unit, context: TaskContext) -> None:
            self.seen.append(context)
            assert not context.cancelled()
            batch("books").cancel()
            forget_liveness()
            assert context.cancelled()

        self.publish, self.bind = publish, bind


def test_the_task_of_a_wait_that_ended_can_read_why(harness: Harness) -> None:
    reasons = []
    app = Function("rooms")

    @app.task
    def enter() -> None: ...

    @app.task
    def leave(context: TaskContext) -> None:
        reasons.append(context.reason)

    harness.add(app)
    room = semaphore("room")
    room.ensure(2)
    assert room.acquire(permits=2)
    room.wait(enter.call(), permits=2, on_timeout=leave.call())
    room.wait(enter.call(), deadline_seconds=5, on_timeout=leave.call())
    room.ensure(1)
    harness.travel(10)
    assert sorted(reasons) == ["deadline", "permits"]
    leave.call().enqueue()
    harness.run()
    assert reasons[-1] == ""


@pytest.fixture
def press(harness: Harness) -> Press:
    made = Press()
    harness.add(made.app)
    return made


def test_a_task_knows_its_attempt_its_operation_and_its_trace(harness: Harness, press: Press) -> None:
    trace = "00-11111111111111111111111111111111-2222222222222222-01"
    task = Effect("op", "tasks", "press", "publish", {"title": "a"}, path="/tasks/publish", trace=trace)
    harness.queue.create([task])
    harness.run(raise_errors=False)
    assert [(each.operation, each.attempt, each.attempts_max, each.trace) for each in press.seen] == [
        ("op", number, 3, trace) for number in (1, 2, 3)
    ]
    assert all(0 < each.seconds_left() <= 540 for each in press.seen)
    assert not press.seen[0].cancelled()


@pytest.mark.usefixtures("harness")
def test_a_unit_can_see_that_its_batch_has_ended(harness: Harness, press: Press) -> None:
    batch("books").populate([press.bind.call()])
    harness.run()
    assert len(press.seen) == 1


def test_the_context_is_not_an_argument_of_a_call_and_calls_use_the_tasks_queue(press: Press) -> None:
    assert press.publish.call(title="a") == Call("press", "publish", {"title": "a"}, "batches")
    with pytest.raises(TypeError):
        press.publish.call(title="a", context=1)  # type: ignore[call-arg]  # refused also when it runs


def test_a_task_without_a_single_attempt_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Function("press").task(attempts_max=0)
