"""Plan and apply, again while Google refuses only what it will soon accept, each time with the reason.

Most refusals are waited for three times, so met in four applies at most. A new project refuses in stages, first its
APIs, then accounts, then rights, and each try builds some more functions: so there may be ten applies in all.

What a failed create has left half-made, Terraform would replace ("tainted"). A function may be: nothing is kept in it.
A queue may not, as its name would be taken for days, nor what holds data, nor an object, whose replacement has the same
name and would be deleted with it: the mark is removed from those, and the next apply continues with them.

What was created and read too early is not in the state: from then on each plan imports it.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from signalbox_infra.deploy import adoption, refusals
from signalbox_infra.deploy.clock import REAL, Clock
from signalbox_infra.deploy.commands import CommandFailed
from signalbox_infra.deploy.plans import Plan
from signalbox_infra.deploy.progress import Progress
from signalbox_infra.deploy.target import Target
from signalbox_infra.deploy.terraform import Terraform

APPLIES_MAX = 10
KILLED = "`make unlock` releases its lock on the state, `make adopt` takes up what it made and did not save."
KEPT = re.compile(
    r"(^|\.)google_(cloud_tasks_queue|firestore_database|storage_bucket(_object)?|service_account|artifact_registry_repository)\."
)


@dataclass(slots=True)
class Attempts:
    """How often something was tried, and what is done in between; `unsaved` are the ids of what exists, by address."""

    target: Target
    say: Callable[[str], None]
    clock: Clock = REAL
    met: Counter[str] = field(default_factory=Counter)
    tries: int = 1
    unsaved: dict[str, str] = field(default_factory=dict)

    def refused(self, printed: str, plan: Plan | None = None) -> None:
        """Report why it failed, and wait. Raises `CommandFailed`, with what to do, when waiting would not help."""
        found = refusals.failures(printed)
        if plan:
            ids = adoption.importable(plan, self.target.project, self.target.region)
            self.unsaved |= {name: each for name, each in ids.items() if name in refusals.read_too_early(found)}
        self.met.update({failure.refusal.name for failure in found})
        seconds = refusals.wait_seconds(found, self.met) if self.tries < APPLIES_MAX else None
        if seconds is None:
            raise CommandFailed(f"Terraform failed. What exists stays.\n{refusals.report(found)}")
        for reason in refusals.reasons(found):
            self.say(f"Not yet: {reason}")
        self.tries += 1
        self.say(f"Trying again in {seconds:g} s (try {self.tries} of at most {APPLIES_MAX}).")
        self.clock.sleep(seconds)


def planned(engine: Terraform, attempts: Attempts, *options: str) -> Plan:
    """Plan, again while a transient refusal keeps Terraform from reading."""
    for address in engine.tainted():
        if KEPT.search(address):
            engine.untaint(address)
    while True:
        try:
            return adoption.adopted(engine.folder, attempts.unsaved, lambda: engine.plan(*options), CommandFailed)
        except CommandFailed as error:
            attempts.refused(str(error))


def applied(engine: Terraform, plan: Plan, attempts: Attempts, *options: str) -> None:
    """Apply the saved plan, and plan and apply again after each transient refusal."""
    while not (outcome := engine.apply(Progress(plan, attempts.say, attempts.clock.now))).ok:
        if outcome.status < 0:
            raise CommandFailed(f"Terraform was killed by signal {-outcome.status}. {KILLED}")
        attempts.refused(outcome.text + outcome.error, plan)
        plan = planned(engine, attempts, *options)
        attempts.say(str(plan))
        if plan.empty:
            return
