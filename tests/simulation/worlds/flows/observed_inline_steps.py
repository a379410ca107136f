"""Observations of the code of inline steps in a simulated world: claims, starts, outcomes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from greenlet import getcurrent, greenlet

from signalbox.core.problems import GaveUp
from signalbox.core.times import EPOCH
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Result
from signalbox.flows.model.waits import Claim, Wait
from signalbox.flows.problems import StepTimedOut
from tests.simulation.world import Violation
from tests.simulation.worlds.flows.interpreted_programs import PAUSE_FACTOR

ONCE = "once"
"""In the name of a step that must not run again in a calm world."""

Place = tuple[str, str, str]
"""The base of a flow, an execution id and a path."""


@dataclass(eq=False)
class Run:
    """One start of an inline step's code, by a delivery that has claimed it for an attempt."""

    place: Place
    attempt: int
    delivery: str
    began_at: datetime


@dataclass
class InlineRuns:
    """The starts of a world. `claims` has the end of each claim, by place and delivery; `running` the starts now.

    `outcomes` has the start that ended with each text, `starts` their numbers by place and attempt, and `claimed` the
    deliveries that have claimed each attempt, each with the number of the start. `succeeded` counts the starts that
    returned, and `is_calm` says whether nothing has failed so far.
    """

    now: Callable[[], datetime] = lambda: EPOCH
    claims: dict[tuple[Place, str], datetime] = field(default_factory=dict)
    running: list[Run] = field(default_factory=list)
    outcomes: dict[str, Run] = field(default_factory=dict)
    starts: Counter[tuple[Place, int]] = field(default_factory=Counter)
    claimed: dict[tuple[Place, int], set[tuple[str, int]]] = field(default_factory=lambda: defaultdict(set))
    claimed_at: dict[tuple[Place, str, int], datetime] = field(default_factory=dict)
    succeeded: Counter[tuple[Place, int]] = field(default_factory=Counter)
    is_calm: Callable[[], bool] = lambda: False
    headers: dict[str, FlowHeader] = field(default_factory=dict)
    claimers: dict[greenlet, str] = field(default_factory=dict)
    """The execution of which a process has claimed a step last."""

    def note_claims(self, header: FlowHeader) -> None:
        """Note the claims of a header that was written."""
        self.headers[header.address.base] = header
        for path, claim in header.running.items():
            if claim.delivery:
                place = header.address.base, header.execution_id, path
                if (place, claim.delivery) not in self.claims:
                    self.claimers[getcurrent()] = header.execution_id
                self.claims[place, claim.delivery] = claim.until
                self.claimed[place, header.pending[path].attempt].add((claim.delivery, claim.starts))
                self.claimed_at.setdefault((place, claim.delivery, claim.starts), self.now())

    def begin(self, base: str, wait: Wait, claim: Claim) -> Run:
        """Note a start. Raises `Violation` during the pause of an attempt, and while the code of a live claim runs."""
        place, now, delivery, starts = (base, wait.execution_id, wait.path), self.now(), claim.delivery, claim.starts
        pause = timedelta(seconds=float(wait.signature.split()[-1]) * PAUSE_FACTOR ** (wait.attempt - 2))
        if wait.attempt > 1 and now < datetime.fromisoformat(wait.scheduled_at) + pause:
            raise Violation(f"the attempt {wait.attempt} of {place} begins before its time")
        if starts > LIMITS.inline_starts_max:
            raise Violation(f"{place} is started for the {starts}th time")
        if self.is_calm() and ONCE in wait.signature and self.starts[place, wait.attempt]:
            raise Violation(f"{place} is started again, although it went well and nothing has failed")
        for run in self.running:
            live = self.claims[run.place, run.delivery] > now
            if run.place == place and live:
                raise Violation(f"the code of {place} runs twice at once, and its claim was not over")
            if run.delivery == delivery and starts > 1:
                raise Violation(f"the code of {place} is started again while its delivery runs {run.place}")
        run = Run(place, wait.attempt, delivery, now)
        self.starts[place, wait.attempt] += 1
        self.running.append(run)
        return run

    def check_cancel(self, header: FlowHeader | None) -> None:
        """Check that no step that a flow waits for runs under a live claim when it receives a cancel."""
        if header is None:
            return
        base, now = header.address.base, self.now()
        for run in self.running:
            live = self.claims[run.place, run.delivery] > now
            if run.place[:2] == (base, header.execution_id) and live and run.place[2] in header.pending:
                raise Violation(f"{base} receives a cancel while {run.place} runs")

    def check_entry(self, before: FlowHeader | None, header: FlowHeader, entry: Result) -> None:
        """Check an outcome in a log: the code had it, in the attempt, and under the claim, that the flow waited for."""
        place = header.address.base, header.execution_id, entry.wait.path
        pending = before.pending.get(entry.wait.path) if before else None
        error = entry.outcome.error
        if pending is None:
            raise Violation(f"{place} has an outcome, and its flow did not wait for it")
        if error and error["type"] == GaveUp.slug():
            if len(self.claimed[place, pending.attempt]) < LIMITS.inline_starts_max:
                raise Violation(f"{place} was given up, and was claimed by {self.claimed[place, pending.attempt]}")
            if self.is_calm() and self.succeeded[place, pending.attempt] > 1:
                raise Violation(f"{place} was given up, and its code has returned more than once")
        elif error and error["type"] == StepTimedOut.slug():
            return
        else:
            run = self.outcomes.get(str(error["detail"] if error else entry.outcome.result))
            if run is None or run.place != place or (error and run.attempt != pending.attempt):
                raise Violation(f"{place} has an outcome that its code did not have: {entry.outcome}")
            claim = before.running.get(entry.wait.path) if before else None
            if error and (claim is None or claim.delivery != run.delivery):
                raise Violation(f"{place} has a failure of {run.delivery}, while {claim} runs it")
