"""A schedule of the catalogue enqueues a task with its arguments, once for each scheduled time."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
import yaml

from signalbox import Function, Problem, TaskContext
from signalbox.catalogue.derived_keys import usage_of
from signalbox.catalogue.reading import Schedule
from signalbox.core import perform
from signalbox.core.effects import Effect
from signalbox.core.ports import Conflict
from signalbox.core.problems import Unavailable
from signalbox.core.times import rfc3339
from signalbox.document_events import machine
from signalbox.document_events.machine import Turn
from signalbox.document_events.model import Begun, Waiting
from signalbox.testing import Harness
from signalbox_tools import http_client
from signalbox_tools.local.scheduler import Caller

ROOT = Path(__file__).parents[4]
QUEUE = {
    "dispatches_per_second": 1,
    "concurrent_max": 1,
    "attempts_max": -1,
    "backoff_min_seconds": 1,
    "backoff_max_seconds": 1,
    "doublings_max": 1,
}
WEEKLY = {
    "function": "reports",
    "task": "send",
    "arguments": {"pages": 3},
    "cron": "0 0 * * 1",
    "local_every_seconds": 9,
}
CODE = """
from signalbox import Function, NotFound, documents

app = Function("reports")


@app.task
def send(pages: int) -> None:
    documents.put("report", {"pages": pages, "number": 1 + number()})


def number() -> int:
    try:
        return documents.get("report")["number"]
    except NotFound:
        return 0


reports = app.entry_point()
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(tmp_path: Path) -> Path:
    (tmp_path / "reports").mkdir()
    (tmp_path / "infra").mkdir()
    (tmp_path / "reports" / "main.py").write_text(CODE)
    functions = {
        "tasks": {"folder": str(ROOT / "functions/tasks"), "invoked_by": ["people", "schedule"], "enqueues": ["tasks"]},
        "documents": {"folder": str(ROOT / "functions/documents"), "invoked_by": ["people"]},
        "failures": {"folder": str(ROOT / "functions/failures"), "invoked_by": ["people"], "enqueues": ["tasks"]},
        "reports": {"folder": "reports", "invoked_by": ["queue"], "tasks": ["send"]},
    }
    content = {"functions": functions, "queues": {"links": QUEUE, "tasks": QUEUE}, "schedules": {"weekly": WEEKLY}}
    (tmp_path / "infra" / "catalogue.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "infra" / "catalogue.yaml"


def test_a_scheduled_time_runs_the_task_once_however_often_it_is_called(catalogue: Path) -> None:
    with Harness(catalogue) as harness:
        for _ in range(2):
            assert harness.run_schedule("weekly").status == 202
        assert [(task.function, task.payload) for task in harness.tasks] == [("reports", {"pages": 3})]
        harness.run()
        harness.advance(7 * 24 * 3600)
        harness.run_schedule("weekly")
        harness.run()
        assert harness.get("documents/report").json == {"key": "report", "pages": 3, "number": 2}


def test_a_task_reads_its_planned_time_in_each_attempt_and_after_a_retry_by_hand(tmp_path: Path) -> None:
    seen: list[Any] = []
    app = Function("reports")

    @app.task(attempts_max=2)
    def send(context: TaskContext, pages: int) -> None:
        seen.append((context.scheduled_at, context.now()))
        if len(seen) < 3:
            raise ValueError(pages)

    catalogue = written(tmp_path)
    with Harness(catalogue) as harness:
        harness.add(app)
        planned = harness.clock.now
        harness.run_schedule("weekly")
        harness.advance(90)
        harness.run(raise_errors=False)
        [failure] = harness.get("failures").json["failures"]
        harness.advance(86_400)
        harness.post(f"failures/{failure['id']}/retry")
        harness.run()
        assert [at for at, _ in seen] == [planned] * 3
        assert seen[2][1] - planned > timedelta(days=1)
        send.call(pages=3).enqueue()
        harness.run()
        assert seen[3][0] is None


def press(overlap: Any) -> tuple[Function, list[Any], list[Callable[[], None]]]:
    """Return a function whose scheduled task does `meanwhile` once, and notes its planned times."""
    app, seen, meanwhile = Function("reports"), list[Any](), list[Callable[[], None]]()

    @app.schedule("0 0 * * 1", overlap=overlap)
    @app.task
    def send(context: TaskContext, pages: int) -> None:
        if meanwhile:
            meanwhile.pop()()
        seen.append(context.scheduled_at)

    return app, seen, meanwhile


def two_due(harness: Harness) -> tuple[Effect, Effect]:
    """Let the schedule come due twice, ten minutes apart. Return the tasks."""
    harness.run_schedule("weekly")
    first = harness.take("send")
    harness.advance(600)
    harness.run_schedule("weekly")
    return first, harness.take("send")


@pytest.mark.parametrize(("overlap", "waits", "times"), [("allow", 0, 2), ("queue", 1, 2), ("skip", 0, 1)])
def test_the_task_of_a_time_overlaps_waits_or_is_left_out_while_that_of_another_runs(
    tmp_path: Path, overlap: str, waits: int, times: int
) -> None:
    app, seen, meanwhile = press(overlap)
    with Harness(written(tmp_path)) as harness:
        harness.add(app)
        planned = harness.clock.now
        (first, second), found = two_due(harness), list[int]()
        meanwhile.append(lambda: found.append(harness.deliver_task(second).status))
        assert harness.deliver_task(first).status == 204
        assert found == [204]
        assert len(harness.tasks) == waits, "it is enqueued again when the first one has ended"
        harness.run()
        assert sorted(seen) == [planned, planned + timedelta(seconds=600)][:times]
        harness.advance(600)
        harness.run_schedule("weekly")
        harness.run()
        assert len(seen) == times + 1, "later times run again"


@pytest.mark.parametrize("overlap", ["queue", "skip"])
def test_times_that_a_person_makes_up_for_run_one_after_the_other_oldest_first(tmp_path: Path, overlap: str) -> None:
    """Their deliveries arrive at once, in any order, and none is answered with 503, so that no queue backs off."""
    app, seen, meanwhile = press(overlap)
    call = {"function": "reports", "task": "send", "payload": {"pages": 3}, "schedule": "weekly"}
    with Harness(written(tmp_path)) as harness:
        harness.add(app)
        missed = [harness.clock.now - timedelta(days=days) for days in range(12, 0, -1)]
        for at in missed:
            harness.post("tasks", json=call | {"scheduled_at": at.isoformat()})
        first, *others = list(harness.tasks)
        harness.tasks.clear()
        Random(7).shuffle(others)
        found = list[int]()
        meanwhile.append(lambda: found.extend(harness.deliver_task(each).status for each in others))
        assert harness.deliver_task(first).status == 204
        assert set(found) == {204}
        for _ in others:
            [_] = harness.tasks
            harness.deliver_task(harness.take("send"))
        assert not harness.tasks
        assert seen == missed


def test_times_that_wait_run_alone_also_after_a_deployment_without_the_rule(tmp_path: Path) -> None:
    app, seen, meanwhile = press("queue")
    call = {"function": "reports", "task": "send", "payload": {"pages": 3}, "schedule": "weekly"}
    with Harness(written(tmp_path)) as harness:
        harness.add(app)
        missed = [harness.clock.now - timedelta(days=days) for days in (3, 2, 1)]
        for at in missed:
            harness.post("tasks", json=call | {"scheduled_at": at.isoformat()})
        first, *others = list(harness.tasks)
        harness.tasks.clear()

        def deploy() -> None:
            for each in others:
                harness.deliver_task(each)
            app._overlaps.clear()

        meanwhile.append(deploy)
        harness.deliver_task(first)
        harness.run()
        assert seen == missed


@pytest.mark.parametrize("is_renamed", [False, True])
def test_times_do_not_wait_for_a_process_that_died_before_a_deployment_without_the_rule_or_the_task(
    tmp_path: Path, is_renamed: bool
) -> None:
    app, seen, meanwhile = press("queue")
    with Harness(written(tmp_path)) as harness:
        harness.add(app)
        first, second = two_due(harness)

        died = mock.patch.object(harness.store, "commit", side_effect=KeyboardInterrupt)

        def die() -> None:
            assert harness.deliver_task(second).status == 204
            died.start()
            raise KeyboardInterrupt

        meanwhile.append(die)
        with pytest.raises(KeyboardInterrupt):
            harness.deliver_task(first)
        died.stop()
        app._overlaps.clear()
        if is_renamed:
            app._tasks["post"] = app._tasks.pop("send")
        assert harness.deliver_task(first, retries=1).status == 503, "its process may still run"
        harness.advance(3600)
        harness.deliver_task(first, retries=2)
        harness.run(raise_errors=False)
        failures = harness.get("failures").json["failures"]
        assert (len(seen), len(failures)) == ((0, 2) if is_renamed else (2, 0)), "run, or kept to be retried"


def test_a_task_that_has_waited_keeps_its_operation_and_the_attempts_that_it_has_had(tmp_path: Path) -> None:
    app, seen, meanwhile = Function("reports"), list[Any](), list[Callable[[], None]]()

    @app.schedule("0 0 * * 1", overlap="queue")
    @app.task
    def send(context: TaskContext, pages: int) -> None:
        seen.append((context.operation, context.attempt, context.scheduled_at))
        if meanwhile:
            meanwhile.pop()()

    def fail() -> None:
        raise ValueError("closed")

    with Harness(written(tmp_path)) as harness:
        harness.add(app)
        harness.run_schedule("weekly")
        first = harness.take("send")
        meanwhile.append(fail)
        assert harness.deliver_task(first).status == 500
        harness.advance(600)
        harness.run_schedule("weekly")
        second, found = harness.take("send"), list[int]()
        meanwhile.append(lambda: found.append(harness.deliver_task(first, retries=1).status))
        harness.deliver_task(second)
        assert found == [204]
        harness.run()
    assert [each[0] for each in seen] == [first.name, second.name, first.name]
    assert [each[1] for each in seen] == [1, 1, 2]
    assert seen[2][2] == seen[0][2]


def test_a_time_whose_code_raises_is_retried_although_the_queue_refuses_the_next_one(tmp_path: Path) -> None:
    app, seen, meanwhile = press("queue")
    with Harness(written(tmp_path)) as harness:
        harness.add(app)
        first, second = two_due(harness)

        def fail() -> None:
            assert harness.deliver_task(second).status == 204
            harness.queue.refusal = Problem("not in the catalogue")
            raise ValueError("closed")

        meanwhile.append(fail)
        assert harness.deliver_task(first).status == 500, "acknowledged, it would be lost, and no failure kept"
        harness.queue.refusal = None
        harness.deliver_task(first, retries=1)
        harness.run()
        assert len(seen) == 2


def test_the_end_of_a_time_is_stored_although_many_times_are_stored_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise all of them wait until its hold ends, and it runs again."""
    monkeypatch.setattr(perform, "pause", mock.Mock())
    app, seen, meanwhile = press("queue")
    with Harness(written(tmp_path)) as harness:
        harness.add(app)
        harness.run_schedule("weekly")
        [first] = harness.tasks
        harness.tasks.clear()
        commit, lost = harness.store.commit, mock.Mock(side_effect=[Conflict("lost the race")] * 9)

        def raced(writes: Any) -> Any:
            with suppress(StopIteration):
                lost()
            return commit(writes)

        meanwhile.append(lambda: setattr(harness.store, "commit", raced))
        assert harness.deliver_task(first).status == 204
        assert harness.deliver_task(first, retries=1).status == 204
    assert (len(seen), lost.call_count) == (1, 10)


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_time_that_has_failed_is_not_left_out_when_it_is_retried_while_a_later_one_runs(
    tmp_path: Path, by_hand: bool
) -> None:
    app, seen, meanwhile = press("skip")
    with Harness(written(tmp_path)) as harness:
        harness.add(app)
        planned = harness.clock.now

        def fail() -> None:
            raise Problem("closed") if by_hand else ValueError("closed")

        meanwhile.append(fail)
        harness.run_schedule("weekly")
        first = harness.take("send")
        harness.deliver_task(first)
        if by_hand:
            [failure] = harness.get("failures").json["failures"]
            harness.post(f"failures/{failure['id']}/retry")
            first = harness.take("send")
        harness.advance(600)
        harness.run_schedule("weekly")
        second, found = harness.take("send"), list[int]()
        meanwhile.append(lambda: found.append(harness.deliver_task(first).status))
        assert harness.deliver_task(second).status == 204
        assert found == [204]
        harness.run()
        assert seen == [planned + timedelta(seconds=600), planned]


@dataclass
class Delivery:
    """A task of a planned time that is due, in the model below."""

    due_at: datetime
    time: int
    turns: int = 0


class Times:
    """A model of the promise alone: times, durations and ends at random, and tasks that are delivered twice."""

    def __init__(self, seed: int, overlap: str) -> None:
        self.random, self.overlap, self.begun = Random(seed), overlap, None if seed % 2 else self.handled_before()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.places = {at: machine.place_of(self.now + timedelta(minutes=at), None) or 0 for at in range(12)}
        due = {at: self.now + timedelta(minutes=self.random.randint(at, at + 3)) for at in self.places}
        self.due = [Delivery(due[at], at) for at in due]
        self.twice = {at for at in due if self.random.random() < 0.1}
        self.due += [Delivery(due[at] + timedelta(seconds=30), at) for at in self.twice]
        self.running: tuple[Delivery, datetime, Begun] | None = None
        self.names = set[str]()
        self.starts, self.ends, self.died = Counter[int](), Counter[int](), Counter[int]()
        self.left_out, self.refused = set[int](), 0

    @staticmethod
    def handled_before() -> Begun:
        return Begun("-1", 0, True, "", datetime(2025, 1, 1, tzinfo=UTC))

    def run(self) -> None:
        for _ in range(5_000):
            if not self.due and not self.running:
                return
            self.now += timedelta(seconds=20)
            if self.running and self.now >= self.running[1]:
                self.end(self.running[0], self.running[2])
            for each in [each for each in self.due if each.due_at <= self.now]:
                self.due.remove(each)
                self.deliver(each)
        raise AssertionError("it does not come to an end")

    def end(self, delivery: Delivery, held: Begun) -> None:
        """End the run: it returns or raises, or its process dies before its end is stored, or right afterwards."""
        self.running, end = None, self.random.choice(["returns", "returns", "returns", "raises", "dies", "dies then"])
        again = Delivery(self.now + timedelta(seconds=self.random.randint(10, 200)), delivery.time, delivery.turns)
        if end != "returns":
            self.died[delivery.time] += 1
            self.due.append(again)
        if end == "dies":
            return
        assert self.begun
        assert self.begun.holder == held.holder
        ended = machine.end if end == "raises" else machine.end_for_good
        self.begun = ended(self.begun, str(delivery.time), handled=end != "raises")
        self.ends[delivery.time] += end != "raises"
        if end != "dies then":
            self.hand_over()

    def hand_over(self) -> None:
        assert self.begun
        for task in machine.hand_over(self.begun, "x", self.now):
            if task.name not in self.names:
                self.names.add(task.name)
                late = timedelta(seconds=self.random.choice([0, 0, 20, 100]))
                turns = next(each.turn for each in self.begun.waiting if each.event == task.operation)
                self.due.append(Delivery(self.now + late, int(task.operation), turns))

    def deliver(self, delivery: Delivery) -> None:
        at = delivery.time
        task = Effect(str(at), "tasks", "shop", "send", {})
        own, holder = (
            Waiting(str(at), self.places[at], task, delivery.turns + 1),
            machine.holder_of(str(at), f"{len(self.due)} {self.now}"),
        )
        try:
            decided = machine.begin_or_wait(self.begun, own, holder, self.now, 540, skips=self.overlap == "skip")
        except Unavailable:
            self.refused += 1
            delivery.due_at = self.now + timedelta(seconds=60)
            self.due.append(delivery)
            return
        self.begun = decided.state
        if decided.answer is Turn.BEGINS:
            assert self.running is None, "two run at once"
            self.starts[at] += 1
            self.running = delivery, self.now + timedelta(seconds=self.random.randint(20, 300)), self.begun
            return
        if decided.answer is Turn.SKIPPED:
            assert not self.starts[at]
            self.left_out.add(at)
        self.hand_over()


@pytest.mark.parametrize("overlap", ["queue", "skip"])
@pytest.mark.parametrize("seed", range(100))
def test_no_two_times_run_at_once_and_only_one_that_has_never_begun_is_left_out(seed: int, overlap: str) -> None:
    times = Times(seed, overlap)
    times.run()
    assert set(times.starts) == set(times.ends)
    assert set(times.starts) | times.left_out == set(times.places)
    assert overlap == "skip" or not times.left_out
    assert not (times.begun and times.begun.waiting), "a time waits for ever"
    again = {at: count for at, count in times.ends.items() if count > 1}
    assert not again, "a time ran again that has returned"


def test_a_rule_for_overlaps_is_one_of_three_and_the_same_for_all_schedules_of_a_task() -> None:
    app, _, _ = press("skip")
    with pytest.raises(ValueError, match="write one of allow, queue, skip"):
        app.schedule("0 0 * * 1", overlap="wait")  # type: ignore[arg-type]  # a typo
    with pytest.raises(ValueError, match="differ in overlap"):
        app.schedule("0 1 * * 1", name="another", overlap="queue")(app.tasks["send"])

    @app.flow
    async def order() -> None: ...

    with pytest.raises(ValueError, match="overlap is for the schedule of a task"):
        app.schedule("0 1 * * 1", overlap="queue")(order)
    source = b"from signalbox import Function\napp = Function('a')\n@app.schedule('0 6 * * 1', overlap='skip')\n"
    usage = usage_of({"main.py": source + b"@app.task\ndef send(): ..."})
    assert usage.schedules["send"][1] == {"task": "send", "cron": "0 6 * * 1"}
    assert usage.queues == {"tasks": "main.py:5"}, "a time that waits is enqueued again"


def test_a_missed_time_is_made_up_for_once_and_one_that_ran_is_not(catalogue: Path) -> None:
    call = {"function": "reports", "task": "send", "payload": {"pages": 3}, "schedule": "weekly"}
    with Harness(catalogue) as harness:
        ran = harness.clock.now
        harness.run_schedule("weekly")
        missed = ran - timedelta(days=7)
        for at in (ran, missed, missed):
            assert harness.post("tasks", json=call | {"scheduled_at": at.isoformat()}).status == 202
        own, made_up = ({"scheduled": rfc3339(at)} for at in (ran, missed))
        assert [task.context for task in harness.tasks] == [own, made_up | {"backfill": True}]
        renamed = call | {"schedule": "each-monday", "scheduled_at": missed.isoformat()}
        assert harness.post("tasks", json=renamed).status == 202
        assert len(harness.tasks) == 2, "the schedule had another name"
        later = call | {"scheduled_at": (ran + timedelta(days=7)).isoformat()}
        assert harness.post("tasks", json=later).status == 400, "the schedule itself would be left out"


def test_a_time_that_is_made_up_for_beside_the_call_of_its_schedule_runs_once(catalogue: Path) -> None:
    call = {"function": "reports", "task": "send", "payload": {"pages": 3}, "schedule": "weekly"}
    with Harness(catalogue) as harness:
        at = harness.clock.now
        assert harness.post("tasks", json=call | {"scheduled_at": at.isoformat()}).status == 202
        assert harness.run_schedule("weekly").status == 202
        assert [task.context for task in harness.tasks] == [{"scheduled": rfc3339(at), "backfill": True}]


def test_the_time_of_a_schedule_has_one_form_and_the_name_of_the_catalogue(catalogue: Path) -> None:
    job = {"X-CloudScheduler-JobName": "projects/p/locations/l/jobs/weekly"}
    body = {"function": "reports", "task": "send", "payload": {"pages": 3}}
    with Harness(catalogue) as harness:
        for time in ("2026-01-05T00:00:00Z", "2026-01-05T01:00:00+01:00"):
            headers = job | {"X-CloudScheduler-ScheduleTime": time}
            assert harness.post("tasks", json=body, headers=headers).status == 202
        assert len(harness.tasks) == 1


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"schedule": "weekly"}, "schedule"),
        ({"schedule": "weekly", "scheduled_at": "2026-01-05T00:00:00Z", "id": "x"}, "schedule"),
        ({"scheduled_at": "monday"}, "scheduled_at"),
    ],
)
def test_a_backfill_without_a_time_or_with_an_id_is_refused(catalogue: Path, wrong: dict[str, str], field: str) -> None:
    with Harness(catalogue) as harness:
        answer = harness.post("tasks", json={"function": "reports", "task": "send", "payload": {"pages": 3}} | wrong)
        assert (answer.status, answer.json["field"]) == (400, field)


def test_the_local_scheduler_sends_what_cloud_scheduler_would(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, bytes, Any]] = []

    def send(method: str, url: str, *, content: bytes = b"", headers: Any, timeout_seconds: float) -> bytes:
        assert timeout_seconds
        sent.append((f"{method} {url}", content, headers.get("Content-Type")))
        return b"token"

    monkeypatch.setattr(http_client, "send", send)
    caller = Caller("http://h/", "scheduler@example.com", "http://h:1")
    caller.call(Schedule(name="weekly", **WEEKLY))  # type: ignore[arg-type]  # fields by name, of any type
    caller.call(Schedule(name="sweep", function="sweep", cron="* * * * *", local_every_seconds=1))
    assert [each for each in sent if each[0].startswith("POST")] == [
        (
            "POST http://h/tasks",
            b'{"function": "reports", "task": "send", "payload": {"pages": 3}}',
            "application/json",
        ),
        ("POST http://h/sweep", b"", None),
    ]
