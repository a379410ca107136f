"""The code of inline steps in a simulated world: it runs in its delivery's process, while time passes."""

from __future__ import annotations

from datetime import datetime
from itertools import count
from random import Random

from greenlet import getcurrent

from signalbox.core.ports import Query
from signalbox.core.problems import Problem
from signalbox.core.wake_ups import WakeUp
from signalbox.flows.model.messages import Cancel
from signalbox.flows.tasks.turns import Code
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.messages import HEADER, collection_of, header_path, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.service import is_over
from signalbox.tasks.model.attempts import TaskContext
from tests.simulation.fault_rates import INLINE_STEP_FAILS_RATE, INLINE_STEP_RAISES_RATE
from tests.simulation.processes import Killed
from tests.simulation.reached_counts import INLINE_STEPS_RUN, REACHED
from tests.simulation.user_task_effects import raise_any
from tests.simulation.world import Violation, World
from tests.simulation.worlds.flows.observed_inline_steps import InlineRuns, Run

SLOW = 0.2
"""Probability that no code ends before the time until which a delivery waits."""

STEPS_OF_CODE = (1, 1, 3, 12)
"""Times that the code of a step yields to others."""


class SimulatedWorkers:
    """The workers of one delivery of the mailbox `base`, which the platform would end after `lasts_seconds`."""

    def __init__(self, world: World, base: str, steps: InlineSteps) -> None:
        self._world, self._base, self._steps = world, base, steps
        self._codes: dict[str, tuple[Run | None, Code]] = {}
        self._began_at = world.now()

    @property
    def running(self) -> list[str]:
        """The paths whose code has begun."""
        return list(self._codes)

    def begin(self, path: str, code: Code) -> None:
        """Begin code. It runs when its delivery waits."""
        self._codes[path] = self._steps.began(self._base, path), code

    def wait(self, seconds: float) -> dict[str, CallOutcome]:
        """Let the others act; then run the code of one step, or let the time pass."""
        self._world.step("waits for inline steps")
        if self._steps.own.random() < SLOW:
            self._world.pass_time(seconds)
            return {}
        path = self._steps.own.choice(list(self._codes))
        run, code = self._codes[path]
        self._steps.current = run
        outcome = code()
        self._steps.ended(run)
        return {path: outcome} if self._codes.pop(path, None) else {}

    def abandon(self, path: str) -> None:
        """Forget code that has begun."""
        run, _ = self._codes.pop(path)
        self._steps.ended(run)

    def end(self) -> None:
        """End the process: no code runs any more."""
        for run, _ in self._codes.values():
            self._steps.ended(run)

    def seconds(self) -> float:
        """Return the seconds since the delivery began."""
        return (self._world.now() - self._began_at).total_seconds()

    def seconds_left(self) -> float:
        """Return the seconds until the delivery is ended."""
        return self._steps.lasts_seconds - self.seconds()


class InlineSteps:
    """The inline steps of a world: what their code does, and what is seen of it."""

    def __init__(self, world: World, runs: InlineRuns, own: Random, lasts_seconds: float = 540) -> None:
        self.world, self.runs, self.own, self.lasts_seconds = world, runs, own, lasts_seconds
        self.runs.now = world.now
        self.current: Run | None = None
        self.left: dict[str, dict[str, datetime]] = {}
        self._numbers = count()

    def began(self, base: str, path: str) -> Run | None:
        """Note that a delivery begins the code of a step, under the claim that it has just committed."""
        header = self.runs.headers[base]
        claim, wait = header.running.get(path), header.pending.get(path)
        if wait is None:
            return None  # another turn has ended or abandoned the step since
        if self.runs.claimers.get(getcurrent(), header.execution_id) != header.execution_id:
            return None  # the step is of a run that people have removed since
        if claim is None:
            raise Violation(f"the code of {base} at {path} begins without a claim")
        claimed_at = self.runs.claimed_at[(base, wait.execution_id, path), claim.delivery, claim.starts]
        for cancel, left_at in self.left.get(base, {}).items():
            if claimed_at > left_at and self._waits(message_path(base, cancel)):
                raise Violation(f"{base} begins {path} after a run has left a cancel to it")
        return self.runs.begin(base, wait, claim)

    def cancels_waiting(self, wake: WakeUp) -> list[str]:
        """Return the cancels that a delivery must find, if all that waits for a flow is on its first page.

        A wake-up of a slot after which a turn has read finds none: what waits has another wake-up.
        """
        [header] = self.world.store.read(header_path(wake.mailbox))
        if is_over(wake, header):
            return []
        messages = self.world.store.query(Query(collection_of(wake.mailbox), limit=1_000))
        waiting = [message for message in messages if message.id != HEADER and "since" in (message.data or {})]
        if len(waiting) >= MAILBOXES_LIMITS.mailbox_page:  # the header is on the page, too
            return []
        due = [message for message in waiting if (message.data or {})["since"] <= header.read_time]
        return [message.id for message in due if (message.data or {})["kind"] == Cancel.kind]

    def note_left(self, base: str, cancels: list[str]) -> None:
        """Note which cancels a delivery has found, and left in the mailbox of a flow that runs.

        A suspended flow leaves all messages, and may have more than a page of them when it is resumed.
        """
        header = self.runs.headers.get(base)
        if header is None or header.end or header.stuck or header.suspended:
            return
        for cancel in cancels:
            if self._waits(message_path(base, cancel)):
                self.left.setdefault(base, {}).setdefault(cancel, self.world.now())

    def _waits(self, path: str) -> bool:
        [message] = self.world.store.read(path)
        return "since" in (message.data or {})

    def ended(self, run: Run | None) -> None:
        """Note that code has ended, perhaps with its process, or is not waited for any more."""
        if run in self.runs.running:
            self.runs.running.remove(run)

    def run(self, name: str, context: TaskContext) -> str:
        """Run the code of a step: no two runs have the same outcome."""
        run, number = self.current, f"inline {next(self._numbers)}"
        REACHED[INLINE_STEPS_RUN] += 1
        for _ in range(self.own.choice(STEPS_OF_CODE)):
            self.world.step(f"inline step {name} {context.operation[:6]} will end as {number}")
        if name == "killer":
            raise Killed
        failing = self.own.random()
        if run:
            self.runs.outcomes[number] = run
        if failing < INLINE_STEP_FAILS_RATE:
            raise Problem(number)
        if run and failing >= INLINE_STEP_FAILS_RATE + INLINE_STEP_RAISES_RATE:
            self.runs.succeeded[run.place, run.attempt] += 1
        if failing < INLINE_STEP_FAILS_RATE + INLINE_STEP_RAISES_RATE and self.world.fault_rates.left:
            raise_any(self.world, ValueError, number)
        return number
