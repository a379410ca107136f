"""A critical section whose calls overlap, and whose runs fail, crash, and are delivered twice and late.

Callers call one key, some with a debounce, some collecting items. Checked at each step: no two deliveries run under
live leases, each runs with the arguments that were granted under its token, and tokens only grow. Checked at each
grant: no call has arrived for the time of the debounce. In a third of the worlds calls have different debounces: a run
is never due later than one of its calls allows. Checked at rest: nothing runs and nothing is due, the last
call's arguments ran last, a run started after every call, and every collected item came to exactly one run. No delivery
is refused because of a lease that it holds itself, and none ends another's lease. In some worlds a purge loses all
tasks that wait; the sweeper then wakes the section. All tasks of a run have the same operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from greenlet import greenlet

from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports, Snapshot
from signalbox.core.problems import BadValue, Unavailable
from signalbox.critical_sections import service, sweep
from signalbox.critical_sections.limits import LIMITS as CRITICAL_SECTIONS_LIMITS
from signalbox.critical_sections.model import Grant, Section, SectionRun, path_of
from signalbox.critical_sections.requests import SectionRequest
from tests.simulation.fault_rates import FaultRates
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max

KEY = "k"
LEASE_SECONDS = 20.0
LOST_AFTER = timedelta(seconds=CRITICAL_SECTIONS_LIMITS.section_lost_seconds)
WEEK_SECONDS = 8 * 24 * 3_600
MIXED_SHARE = 1 / 3
FAILS_RATE, LATE_RATE, WEEK_RATE = 0.15, 0.3, 0.3
PURGE_SHARE = 0.25
LATEST_SECONDS = 90.0
"""The latest that a run is due after its first call."""


@dataclass(slots=True)
class Seen:
    """What was observed: calls as they were merged, grants with their arguments, code that ran."""

    called_at: dict[int, datetime] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    merged: list[int] = field(default_factory=list)
    granted: dict[int, dict[str, Any]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    began_at: list[datetime] = field(default_factory=list)
    inside: dict[int, SectionRun] = field(default_factory=dict)
    token: int = 0


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until it is idle. Raises `Violation` when a property does not hold."""
    SectionsWorld(seed, trace).run()


class SectionsWorld:
    """One key, its callers, and the task that runs alone."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.04, lose_answer=0.06, kill=0.05, duplicate=0.15, left=6)
        self.world = World(seed, rates, trace)
        random = self.world.random
        self.world.handlers["semaphore_admit"] = self._wake
        self.world.task_handlers["job"] = self._job
        self.world.queue.on_reuse = self._check_reuse
        self.world.queue.ahead_seconds = random.choice((0.0, 0.0, 3.0))
        self.world.time_jumps, self.world.time_jumps_left = (1.0, 6.0, LEASE_SECONDS + 5), 4
        self.world.observers.append(self._observe)
        self.collect = random.choice(("", "", "items"))
        self.debounce_seconds = random.choice((0.0, 0.0, 10.0))
        self.mixing = Random(f"debounces {seed}")
        self.is_mixed = self.mixing.random() < MIXED_SHARE
        self.allowed_seconds: dict[int, float | None] = {}
        self.allowed: list[datetime] = []
        self.seen = Seen()
        self.jobs: dict[str, Effect] = {}
        self.pending: list[int] = []
        self.holders: dict[str, object] = {}
        self.operations: dict[int, str] = {}
        self.purging = Random(f"purge {seed}")
        self.purges = self.purging.random() < PURGE_SHARE

    def run(self) -> None:
        random = self.world.random
        for _ in range(2):
            self.world.run(self._beginnings(random.randint(1, operations_max(6))))
            self.world.pass_an_outage()
            self._sweep()
            if random.random() < WEEK_RATE:
                self.world.processes.current = "scheduler"
                self.world.pass_time(WEEK_SECONDS)
            self.world.tasks.extend(job for job in self.jobs.values() if random.random() < LATE_RATE)
        self.world.fault_rates.left = 0
        self._sweep()
        self._sweep()
        self._check_rest()

    def _beginnings(self, calls: int) -> list[Callable[[], None]]:
        beginnings: list[Callable[[], None]] = [self._call] * calls
        if self.purges:
            beginnings.insert(self.purging.randint(1, calls), lambda: self.world.queue.purge(lambda _: True))
        return beginnings

    def _sweep(self) -> None:
        if self.purges:
            self.world.processes.current = "scheduler"
            self.world.pass_time(LOST_AFTER.total_seconds() + LEASE_SECONDS + LATEST_SECONDS)
        self.world.pass_time(CORE_LIMITS.outbox_patience_seconds + 1)
        self.world.start("sweep", lambda: _swept(self.world.ports))
        self.world.run()

    # --- callers ---

    def _call(self) -> None:
        number = len(self.seen.called_at) + 1
        self.seen.called_at[number] = self.world.now()
        call = Call("job", "job", {"number": number, "items": [number]})
        id_ = self.world.random.choice(("", f"call {number}"))
        most = 25.0 if self.debounce_seconds else None
        debounce_seconds = self.debounce_seconds
        if self.is_mixed:
            debounce_seconds, most = self.mixing.choice(((0.0, None), (5.0, None), (5.0, 10.0), (60.0, 90.0)))
        self.allowed_seconds[number] = most if debounce_seconds else 0.0
        request = SectionRequest(call, debounce_seconds, most, self.collect, LEASE_SECONDS, id_)
        self._start_call(number, request)

    def _start_call(self, number: int, request: SectionRequest) -> None:
        def act() -> None:
            service.call(self.world.ports, KEY, request)
            self.seen.acknowledged.add(number)

        def ended(done: bool) -> None:
            if not done and request.id:
                self._start_call(number, request)

        self.world.start(f"call {number}", act, ended)

    # --- tasks ---

    @staticmethod
    def _wake(ports: Ports, payload: dict[str, Any]) -> None:
        service.wake(ports, payload["key"], datetime.fromisoformat(payload["at"]))

    def _job(self, ports: Ports, effect: Effect) -> None:
        self.jobs[effect.name] = effect
        granted = effect.context["section"]
        operation = granted.get("resumes") or effect.name
        if self.operations.setdefault(effect.payload["number"], operation) != operation:
            raise Violation(f"a run has two operations, {operation} and {self.operations[effect.payload['number']]}")

        def code(run: SectionRun) -> None:
            self._enter(run, granted["token"], dict(effect.payload))
            try:
                self._work()
            finally:
                self.seen.inside.pop(run.token, None)
            self._perhaps_fail(granted["token"])
            self.seen.ended.add(granted["token"])

        self.world.time_jumps_left += 1  # a queue waits before it retries
        try:
            service.run(ports, Grant.from_context(granted), code)
        except Unavailable as error:
            self._check_refused(error)
            raise
        self.world.time_jumps_left -= 1

    def _check_refused(self, error: Unavailable) -> None:
        """Check that a delivery which is refused because of a lease does not hold the lease."""
        run = Section.from_record(self.world.store.read(path_of(KEY))[0].data).run
        if "another delivery" in str(error) and run and self.holders.get(run.holder) is greenlet.getcurrent():
            raise Violation("a delivery is refused because of its own lease")

    def _enter(self, run: SectionRun, grant: int, payload: dict[str, Any]) -> None:
        if run.token <= self.seen.token:
            raise Violation(f"token {run.token} follows {self.seen.token}")
        if self.seen.granted[run.token if run.token in self.seen.granted else grant] != payload:
            raise Violation(f"{payload} ran under the grant of {self.seen.granted[grant]}")
        self.seen.token = run.token
        self.seen.inside[run.token] = run
        self.seen.began_at.append(self.world.now())
        self._check_alone()

    def _work(self) -> None:
        for _ in range(self.world.random.randint(1, 4)):
            self.world.step("works")
            self._check_alone()

    def _perhaps_fail(self, grant: int) -> None:
        """Fail permanently, or in a way that is retried, or not at all."""
        if self.world.inject_fault(FAILS_RATE):
            self.seen.ended.add(grant)
            raise BadValue("the code fails for good")
        if self.world.inject_fault(FAILS_RATE):
            raise Unavailable("the code fails")

    # --- what must hold ---

    def _check_alone(self) -> None:
        live = [token for token, run in self.seen.inside.items() if self.world.now() < run.ends_at]
        if len(live) > 1:
            raise Violation(f"inside at once: {sorted(live)}")

    def _check_reuse(self, effect: Effect) -> None:
        if effect.function == "job":
            allow_from_an_old_outbox_record(self.world, effect)

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if path != path_of(KEY) or after.data is None:
            return
        section = Section.from_record(after.data)
        self._observe_holder(Section.from_record(before.data), section)
        if section.next and (number := section.next.call.payload["number"]) not in self.pending:
            self.pending.append(number)
            self.seen.merged.append(number)
            if (seconds := self.allowed_seconds[number]) is not None:
                self.allowed.append(self.world.now() + timedelta(seconds=seconds))
        if section.next and self.allowed and section.next.due_at > min(self.allowed):
            raise Violation(f"the run of {self.pending} is due at {section.next.due_at}, after {min(self.allowed)}")
        if section.run and (lost := self._lost_before(before, section.run.grant)):
            self.seen.granted[section.run.grant] = self.seen.granted.pop(lost)
        elif section.run and section.run.grant not in self.seen.granted:
            self._observe_grant(section.run.grant, dict(section.run.call.payload))
            self.pending = [section.next.call.payload["number"]] if section.next else []
            self.allowed = []

    def _observe_holder(self, before: Section, after: Section) -> None:
        """Note which process claims a lease, and check that only this one ends it early."""
        if after.run and after.run.holder:
            self.holders.setdefault(after.run.holder, greenlet.getcurrent())
        if before.run and after.run and before.run.token == after.run.token and before.run.holder:
            ends_early = before.run.ends_at and after.run.ends_at and after.run.ends_at < before.run.ends_at
            if ends_early and self.holders.get(before.run.holder) is not greenlet.getcurrent():
                raise Violation(f"the lease {before.run.token} was released by a delivery that does not hold it")

    def _lost_before(self, before: Snapshot, grant: int) -> int:
        """Return the grant that this one replaces because its task was lost for hours; 0 if it replaces none."""
        run = Section.from_record(before.data).run
        is_lost = run is not None and self.world.now() - (run.ends_at or run.granted_at) >= LOST_AFTER
        return run.grant if run and is_lost and run.grant != grant and run.grant not in self.seen.ended else 0

    def _observe_grant(self, grant: int, payload: dict[str, Any]) -> None:
        if (number := payload["number"]) not in self.seen.merged:
            self.seen.merged.append(number)
            self.pending.append(number)
        self.seen.granted[grant] = payload
        called = [self.seen.called_at[number] for number in self.pending]
        due_at = min(max(called) + timedelta(seconds=self.debounce_seconds), min(called) + timedelta(seconds=25))
        if self.debounce_seconds and not self.is_mixed and self.world.now() < due_at:
            raise Violation(f"{self.pending} was granted {(due_at - self.world.now()).total_seconds()} s too early")

    def _check_rest(self) -> None:
        [record] = self.world.store.read(path_of(KEY))
        section = Section.from_record(record.data)
        if section.run or section.next:
            raise Violation(f"at rest {section.run} runs and {section.next} is due")
        if lost := self.seen.acknowledged - set(self.seen.merged):
            raise Violation(f"{sorted(lost)} were acknowledged, and never due")
        if unrun := self.seen.granted.keys() - self.seen.ended:
            raise Violation(f"{sorted(unrun)} were granted, and never ran to their end")
        if self.seen.granted and self.seen.granted[max(self.seen.granted)]["number"] != self.seen.merged[-1]:
            raise Violation(f"call {self.seen.merged[-1]} was the last, and its arguments did not run last")
        for number in self.seen.acknowledged:
            if self.seen.called_at[number] > max(self.seen.began_at):
                raise Violation(f"no run began after call {number}")
        if self.collect:
            self._check_collected()

    def _check_collected(self) -> None:
        came = Counter(item for payload in self.seen.granted.values() for item in payload["items"])
        if twice := [item for item, times in came.items() if times > 1]:
            raise Violation(f"{twice} came to two runs")
        if lost := self.seen.acknowledged - came.keys():
            raise Violation(f"{sorted(lost)} came to no run")


def _swept(ports: Ports) -> None:
    outbox.sweep(ports)
    sweep.sweep(ports)
