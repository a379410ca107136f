"""Plan and apply, and repeat both while all refusals are transient. Each repeat prints the reason.

Most refusals are waited for three times, so each may occur for a resource in at most four applies: the same refusal of
another resource is progress. A new project refuses in stages: first its APIs, then accounts, then rights, and each try
builds a few more functions. So there may be 14 applies in all.

Terraform would replace a resource whose creation failed ("tainted"). A function may be replaced, since it stores
nothing. Three kinds of resources may not: a queue, whose name would be taken for days; a resource that stores data; and
an object, whose replacement has the same name and would be deleted with it. The mark is removed from those, and the
next apply continues with them. A resource that was created but read too early is not in the state, so each later plan
imports it. After an error of a server, Terraform may not know whether it was created: each later plan imports it if it
exists. The database is the exception, since it may be one that was there before: then only `signalbox adopt`
imports it.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from signalbox_tools.deploy import google_refusals, resource_adoption
from signalbox_tools.deploy.apply_progress import Progress
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.plan_summary import Plan
from signalbox_tools.deploy.programs import CommandFailed
from signalbox_tools.deploy.terraform import Terraform
from signalbox_tools.deploy.waiting_clock import REAL, Clock

APPLIES_MAX = 14
KILLED = "`signalbox unlock` releases its lock on the state, `signalbox adopt` takes up what it made and did not save."
KEPT = re.compile(
    r"(^|\.)google_(cloud_tasks_queue|firestore_database|storage_bucket(_object)?|service_account|artifact_registry_repository)\."
)


@dataclass(slots=True)
class Attempts:
    """The number of tries, and the wait between two of them.

    `unsaved` are the ids, by address, of resources that are not in the state.
    """

    target: Target
    say: Callable[[str], None]
    clock: Clock = REAL
    met: Counter[tuple[str, str]] = field(default_factory=Counter)
    tries: int = 1
    unsaved: dict[str, str] = field(default_factory=dict)

    def refused(self, printed: str, plan: Plan | None = None) -> None:
        """Report why a try failed, and wait. Raises `CommandFailed` with the remedy if waiting does not help."""
        found = google_refusals.failures(printed)
        if plan:
            ids = resource_adoption.importable(plan, self.target.project, self.target.region)
            made = google_refusals.may_be_made(found)
            self.unsaved |= {address: each for address, each in ids.items() if address in made}
        self.met.update({(failure.refusal.name, failure.address) for failure in found})
        seconds = google_refusals.wait_seconds(found, self.met) if self.tries < APPLIES_MAX else None
        if seconds is None:
            raise CommandFailed(f"Terraform failed. What exists stays.\n{google_refusals.report(found)}")
        for reason in google_refusals.reasons(found):
            self.say(f"Not yet: {reason}")
        self.tries += 1
        self.say(f"Trying again in {seconds:g} s (try {self.tries} of at most {APPLIES_MAX}).")
        self.clock.sleep(seconds)


def planned(engine: Terraform, attempts: Attempts, *options: str) -> Plan:
    """Plan. Repeat this as long as a transient refusal keeps Terraform from reading."""
    for address in engine.tainted():
        if KEPT.search(address):
            engine.untaint(address)
    while True:
        try:
            return resource_adoption.adopted(
                engine.folder, attempts.unsaved, lambda: engine.plan(*options), CommandFailed
            )
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
