"""Deploy, plan, destroy and prepare: what comes after what, and where it stops.

    deploy = check → package → plan → show → ask → apply that very plan → smoke test
                                                   └ once more after a pause, if Eventarc's rights were not there yet

Nothing is changed before every prerequisite is met and somebody agreed. The first deployment of a project with an
event trigger may fail because Google's Eventarc agent gets its rights some minutes after the API is enabled: that one
message is worth a second try; any other error is shown and final.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from infra.catalogue import load
from infra.deploy import facts, prerequisites, smoke, terraform
from infra.deploy.commands import CommandFailed, Run, run
from infra.deploy.plans import Plan
from infra.deploy.target import Target
from infra.packaging.__main__ import build

EVENTARC_LAG = "Permission denied while using the Eventarc Service Agent"
EVENTARC_PAUSE_SECONDS = 120.0
DATABASE_EXISTS = "Database already exists"
USE_DATABASE = "To use the database that is there, say create_database = false in the environment's tfvars."
WORKS = """Everything works. A first call:
  curl -H "Authorization: Bearer $(gcloud auth print-identity-token)" "{base_url}documents"
"""
FAILED = "Something does not work; it stays deployed. `make smoke` tests it again, the functions' logs say more."
REMAINS = """What stays: the state's bucket and the deploying account (infra/bootstrap), the enabled APIs, the bucket
that Cloud Functions keeps for sources, and the database where Terraform did not create it or environment is prod. The
queues' names cannot be used again for some days: give a new deployment in this project another prefix until then."""


class Aborted(Exception):
    """Nothing was changed. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What one command of `make` does, with the programs it runs, the person it talks to and the pause it takes.

    `agree` is asked a question and gives the answer; `base_url` replaces the deployed one in the smoke test.
    """

    target: Target
    say: Callable[[str], None]
    agree: Callable[[str], str]
    run: Run = run
    pause: Callable[[float], None] = time.sleep
    base_url: str = ""

    def plan(self) -> Plan:
        """Check, package, plan and show; the plan is kept for `deploy(planned=True)`."""
        return self._planned(self._checked())

    def deploy(self, planned: bool = False) -> bool:
        """Bring the project to what the catalogue says, and test it; `planned` applies the plan that `plan` kept."""
        engine = self._checked()
        if planned:
            self._bring_about(engine)
        else:
            plan = self._planned(engine)
            if not plan.empty:
                self._agreed()
                self._bring_about(engine)
        return self._tested(engine)

    def smoke(self) -> bool:
        """Test what is deployed, through its own URLs, and tell whether all of it worked."""
        return self._tested(self._checked())

    def destroy(self) -> None:
        """Destroy the environment, once its name was typed: for prod, and the project's name behind it."""
        words = confirmation(self.target)
        if self.agree(f"Type {words!r} to destroy it: ").strip() != words:
            raise Aborted(f"Nothing was destroyed: that takes the words {words!r} (or CONFIRM={words!r}).")
        engine = self._checked()
        self._packaged()  # Terraform reads what it is told of, the zips too, before it destroys
        self.say(str(engine.plan("-destroy")))
        self._bring_about(engine)
        self.say(REMAINS)

    def bootstrap(self) -> None:
        """Prepare a project: the bucket for the state and the account that deploys."""
        found = self._ready(lambda target, found: list(prerequisites.missing_access(target, found)))
        if found.state_bucket and not self.target.prepared_here:
            self.say(f"{self.target.project} was prepared from another machine: {self.target.state_bucket} is there.")
            return
        engine = terraform.of_project(self.target, self.run)
        engine.init()
        plan = engine.plan()
        self.say(str(plan))
        if not plan.empty:
            self._agreed()
            self._bring_about(engine)

    def _checked(self) -> terraform.Terraform:
        return self._terraform(self._ready(prerequisites.missing).account)

    def _planned(self, engine: terraform.Terraform) -> Plan:
        self._packaged()
        plan = engine.plan()
        self.say(str(plan))
        return plan

    def _packaged(self) -> None:
        zips = build(load(self.target.infra / "catalogue.yaml"), (), self.target.root / "dist")
        self.say(f"Packaged {len(zips)} functions.")

    def _agreed(self) -> None:
        if self.agree("Apply it? [y/N] ").strip().lower() not in ("y", "yes"):
            raise Aborted("Nothing was changed: nobody agreed (YES=1 agrees beforehand).")

    def _bring_about(self, engine: terraform.Terraform) -> None:
        """Apply the plan that was kept, and what is left of it once more if only Eventarc's rights were late."""
        if not engine.plan_file.exists():
            raise Aborted("There is no plan to apply. Run make plan first.")
        outcome = engine.apply()
        if EVENTARC_LAG in outcome.text + outcome.error:
            self.say(f"Eventarc's agent has no rights yet. Once more in {EVENTARC_PAUSE_SECONDS:g} s.")
            self.pause(EVENTARC_PAUSE_SECONDS)
            self.say(str(engine.plan()))
            outcome = engine.apply()
        if not outcome.ok:
            hint = (
                USE_DATABASE if DATABASE_EXISTS in outcome.text + outcome.error else "What is there stays: try again."
            )
            raise CommandFailed(f"terraform apply failed; the lines above say why. {hint}")

    def _tested(self, engine: terraform.Terraform) -> bool:
        base_url = self.base_url or engine.output("base_url")
        if not base_url:
            raise Aborted(f"Nothing is deployed as {self.target.environment}. Run make deploy first.")
        self.say(f"Smoke test of {base_url}")
        works = smoke.passes(smoke.Site(self.target, base_url, self._account(), self.run), self.say)
        self.say(WORKS.format(base_url=base_url) if works else FAILED)
        return works

    def _ready(self, lacking: Callable[[Target, facts.Facts], list[prerequisites.Missing]]) -> facts.Facts:
        found = facts.gather(self.target, self.run)
        if missing := lacking(self.target, found):
            where = f"{self.target.environment} of {self.target.project}"
            raise Aborted("\n".join([f"Not ready for {where}; nothing was changed.", *map(str, missing)]))
        return found

    def _account(self) -> str:
        return facts.account(self.target, self.run)

    def _terraform(self, account: str) -> terraform.Terraform:
        engine = terraform.of(self.target, account, self.run)
        engine.init(f"bucket={self.target.state_bucket}", f"prefix={self.target.environment}")
        return engine


def confirmation(target: Target) -> str:
    """Return the words that must be typed before an environment is destroyed."""
    guarded = target.environment == "prod" or target.setting("environment", "") == "prod"
    return f"{target.environment} {target.project}" if guarded else target.environment
