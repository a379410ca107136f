"""What a person may see of planned times that do not overlap, judged by an oracle that knows only the documentation.

The code runs on the harness, with deliveries that overlap at each read, commit and enqueue, arrive twice or late, or
end with their process, and a queue that is purged.
"""

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from signalbox import Function, Problem, TaskContext
from signalbox.core.effects import Effect
from signalbox.core.problems import Unavailable
from signalbox.testing import Harness
from tests.unit.tools.local.test_scheduled_tasks import written

HOLD_SECONDS = 3600
ATTEMPTS_MAX = 3
SEEDS = range(20)


class Killed(BaseException):
    """The process of a delivery has died."""


class Delivered:
    """A delivery in progress. Once its process is dead, nothing that it does has an effect."""

    def __init__(self, at: str, since: int, is_busy: bool) -> None:
        self.at, self.since, self.is_busy = at, since, is_busy
        self.is_dead = self.has_run = False


class Press:
    """A schedule's task, the cloud around it, and the oracle.

    `due` and `made_up` are the times of the schedule and of a person, `waiting` those that were acknowledged and have
    not begun, and `held` the ones whose process died. `again` is how often each may run once more. Only the queue knew
    of `lost` ones. `repeats` may wait although they have run: their task came a second time.
    """

    def __init__(self, harness: Harness, seed: int, overlap: Any) -> None:
        self.harness, self.random, self.overlap = harness, Random(seed), overlap
        self.kill = self.random.choice([0, 0, 0.02, 0.05])
        self.fail = self.random.choice([0, 0, 0.05])
        self.copies, self.purge = self.random.choice([0, 0, 0.1]), self.random.choice([0, 0, 0.03])
        self.nest = self.random.choice([0, 0.05, 0.2])
        self.is_calm = False
        self.going: list[Delivered] = []
        self.seq = 0
        self.old: list[Effect] = []
        self.due, self.made_up = set[str](), set[str]()
        self.running: str | None = None
        self.held: dict[str, datetime] = {}
        self.waiting: dict[str, int] = {}
        self.repeats = set[str]()
        self.busy_marks: list[int] = []
        self.starts, self.again = Counter[str](), Counter[str]()
        self.settled, self.may_be_left_out, self.lost = set[str](), set[str](), set[str]()
        self.purged = False
        self.needs_another = False
        self.kills = Counter[str]()
        self.violations: list[str] = []
        self.begun, self.begun_by_task, self.handed_over = set[str](), set[str](), set[str]()
        self.trace: list[str] = []
        self.app = Function("reports")

        @self.app.schedule("0 0 * * 1", overlap=overlap)
        @self.app.task(attempts_max=ATTEMPTS_MAX)
        def send(context: TaskContext, pages: int) -> None:
            assert context.scheduled_at
            self.code(context.scheduled_at.isoformat(), context.is_last)

        for owner, name in ((harness.store, "read"), (harness.store, "commit"), (harness.queue, "create")):
            setattr(owner, name, self.interrupted(getattr(owner, name), name))

    def note(self, *what: Any) -> int:
        self.seq += 1
        self.trace.append(f"{self.seq} {'  ' * len(self.going)}{' '.join(map(str, what))}")
        return self.seq

    # --- the process ---

    def interrupted(self, do: Any, name: str) -> Any:
        def step(*args: Any, **options: Any) -> Any:
            if not self.going:
                return do(*args, **options)
            own = self.going[-1]
            self.may_die(own, f"before {name}")
            self.meanwhile()
            self.may_fail(name, "refused")
            done = do(*args, **options)
            if name == "create":
                self.handed_over |= {each.name for each in args[0]}
            self.may_die(own, f"after {name}")
            self.may_fail(name, "answer lost")
            return done

        return step

    def may_die(self, own: Delivered, where: str) -> None:
        if not own.is_dead and not self.is_calm and self.random.random() < self.kill:
            own.is_dead = True
            self.note_busy(own)
            self.waiting.pop(own.at, None)  # perhaps it has begun
            self.held[own.at] = self.harness.clock.now
            self.busy_marks.append(self.note("killed", own.at, where))
        if own.is_dead:
            raise Killed

    def may_fail(self, name: str, how: str) -> None:
        if not self.is_calm and self.random.random() < self.fail:
            self.note(name, how)
            raise Unavailable(how)

    def meanwhile(self) -> None:
        if len(self.going) < 3 and not self.is_calm and self.random.random() < self.nest:
            self.act()

    def code(self, at: str, is_last: bool) -> None:
        own = self.going[-1]
        own.has_run = True
        self.busy_marks.append(self.note("starts", at))
        if self.running is not None:
            self.violations.append(f"{at} runs while {self.running} does")
        tried = {each.at for each in self.going}  # perhaps it has begun: the queue or the store may refuse it next
        older = [each for each, since in self.waiting.items() if each < at and since < own.since and each not in tried]
        if older:
            self.violations.append(f"{at} begins before {older}")
        self.waiting.pop(at, None)
        self.repeats.discard(at)
        self.held.clear()
        self.starts[at] += 1
        self.begun.add(at)
        self.running = at
        try:
            for _ in range(self.random.choice([0, 1, 2])):
                if not self.is_calm and len(self.going) < 3:
                    self.act()
            end = "returns" if self.is_calm else self.random.choice(["returns"] * 4 + ["raises", "problem", "dies"])
            self.note(end, at)
            if end == "dies":
                own.is_dead = True
                self.held[at] = self.harness.clock.now
                raise Killed
            if end == "raises":
                self.held[at] = self.harness.clock.now
                self.again[at] += 1
                if is_last:
                    self.settled.add(at)
                raise ValueError(at)
            self.settled.add(at)
            if end == "problem":
                raise Problem(at)
        finally:
            self.running = None

    # --- the cloud ---

    def act(self) -> None:
        choice = self.random.random()
        if choice < 0.25 and len(self.due) + len(self.made_up) < 12:
            self.plan()
        elif choice < 0.25 + self.copies and self.old:
            task = self.random.choice(self.old)
            self.again[at_of(task)] += 1
            self.note("a second delivery of", at_of(task))
            self.deliver(task, is_copy=True)
        elif choice > 1 - self.purge and not self.purged and not self.is_calm:
            self.purged = True
            self.note("purged")
            for task in self.harness.tasks:
                if at_of(task) not in self.waiting:
                    self.lost.add(at_of(task))
            self.harness.tasks.clear()
        elif self.harness.tasks:
            task = self.random.choice(self.harness.tasks)
            self.harness.tasks.remove(task)
            self.deliver(task)

    def plan(self) -> None:
        now = self.harness.clock.now
        going, self.going = self.going, []
        try:
            if self.random.random() < 0.4:
                missed = now.replace(second=0) - timedelta(hours=self.random.randint(1, 500))
                call = {"function": "reports", "task": "send", "payload": {"pages": 3}, "schedule": "weekly"}
                answer = self.harness.post("tasks", json=call | {"scheduled_at": missed.isoformat()})
                assert answer.status == 202
                self.made_up.add(missed.isoformat())
                self.trace.append(f"plans, missed {missed}")
            else:
                self.harness.advance(1)
                self.due.add(self.harness.clock.now.isoformat())
                self.harness.run_schedule("weekly")
                self.trace.append(f"plans {self.harness.clock.now}")
        finally:
            self.going = going

    def is_busy(self) -> bool:
        since = self.harness.clock.now - timedelta(seconds=HOLD_SECONDS)
        return bool(self.going or self.waiting or self.repeats or any(at > since for at in self.held.values()))

    def deliver(self, task: Effect, *, is_copy: bool = False) -> None:
        at = at_of(task)
        if not is_copy and self.random.random() < 0.3:
            self.old.append(task)
        is_first = not self.harness.queue.attempts(task).retries
        is_queued = is_copy and task in self.harness.tasks
        own = Delivered(at, self.note("delivers", at, task.name[-6:]), self.is_busy())
        self.going.append(own)
        status = 0
        try:
            status = self.harness.deliver_task(task).status
        except Killed:
            assert own.is_dead
        finally:
            assert self.going.pop() is own
        if is_queued:
            self.harness.tasks.append(task)
        self.note("answered", status, at)
        if own.is_dead or status == 503:  # perhaps it has begun, and its end is not known
            self.again[at] += 1
            self.kills[at] += not own.has_run
            self.begun.add(at)
        if status == 503:
            self.note_busy(own)  # or it is left out, and only the answer is not known
            self.waiting.pop(at, None)
            self.held[at] = self.harness.clock.now
        if own.has_run:
            self.begun_by_task |= set() if is_copy else {at}
        elif status == 204:
            self.acknowledged(own, is_copy=is_copy, may_be_second=is_first and task.name in self.handed_over)
        if status != 204 and is_copy:  # the queue may have forgotten its task, so it does not come again
            self.lost.add(at)
            self.needs_another = True
        elif status != 204:
            self.harness.queue.retry(task, executed=bool(status))
            self.harness.queue.attempts(task).due_at = None

    def acknowledged(self, own: Delivered, *, is_copy: bool, may_be_second: bool) -> None:
        """Note a delivery that has not run the code: its time waits, is left out, or needs no second run."""
        at = own.at
        if at in self.settled or is_copy or at <= max(self.begun, default=""):
            self.repeats.add(at)
        runs_elsewhere = any(each.at == at and each.has_run for each in self.going)
        is_second = may_be_second and at in self.begun
        if at in self.settled or runs_elsewhere or is_second or self.may_be_given_up(at):
            return
        self.note_busy(own)
        if at in self.made_up or self.overlap == "queue" or self.starts[at]:
            self.busy_marks.append(self.seq)
            self.waiting.setdefault(at, self.seq)

    def note_busy(self, own: Delivered) -> None:
        """Note whether the time of a delivery may be left out: another one ran or waited meanwhile."""
        if own.is_busy or any(mark > own.since for mark in self.busy_marks):
            self.may_be_left_out.add(own.at)

    def run(self) -> None:
        for _ in range(40):
            self.harness.advance(self.random.choice([1, 30, 60, 600]))
            self.act()
        self.is_calm = True
        self.drain()
        if self.purged or self.needs_another:
            self.harness.advance(HOLD_SECONDS)
            self.due.add(self.harness.clock.now.isoformat())
            self.harness.run_schedule("weekly")
            self.drain()

    def drain(self) -> None:
        for _ in range(600):
            if not self.harness.tasks:
                return
            self.harness.advance(60)
            for task in list(self.harness.tasks):
                if task in self.harness.tasks and self.harness.queue.due_at(task) <= self.harness.clock.now:
                    self.harness.tasks.remove(task)
                    self.deliver(task)
        raise AssertionError("it does not come to an end")

    def may_be_given_up(self, at: str) -> bool:
        """Return whether the code may have been started as often as permitted: a killed process may have done so."""
        return self.starts[at] + self.kills[at] >= ATTEMPTS_MAX

    def judge(self) -> None:
        assert not self.violations, str(self.violations)
        planned = self.due | self.made_up
        missing = planned - self.settled - self.lost - {at for at in planned if self.may_be_given_up(at)}
        if self.overlap == "queue":
            assert not missing, f"never handled: {missing}"
        wrong = missing & (self.made_up | self.begun_by_task)
        assert not wrong, f"left out although begun or made up for: {wrong}"
        assert missing <= self.may_be_left_out, f"left out although nothing ran: {missing - self.may_be_left_out}"
        often = {at: count for at, count in self.starts.items() if count > 1 + self.again[at]}
        assert not often, f"ran again: {often}"


def at_of(task: Effect) -> str:
    return datetime.fromisoformat(task.context["scheduled"]).isoformat()


def played(folder: Path, seed: int, overlap: str) -> Press:
    with Harness(written(folder)) as harness:
        press = Press(harness, seed, overlap)
        harness.add(press.app)
        try:
            press.run()
            press.judge()
        except AssertionError as error:
            error.add_note("\n".join(press.trace))
            raise
    return press


@pytest.mark.parametrize("overlap", ["queue", "skip"])
def test_planned_times_that_do_not_overlap_are_as_documented(tmp_path: Path, overlap: str) -> None:
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        played(folder, seed, overlap)
