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
WORKS = """Everything works. A first call:
  curl -H "Authorization: Bearer $(gcloud auth print-identity-token)" "{base_url}documents"
"""
FAILED = "Something does not work; it stays deployed. `make smoke` tests it again, the functions' logs say more."
REMAINS = """What stays: the state's bucket and the deploying account (infra/bootstrap), the enabled APIs, the bucket
that Cloud Functions keeps for sources, and the database where Terraform did not create it or environment is prod. The
queues' names cannot be used again for some days: give a new deployment in this project another prefix until then."""


class Stopped(Exception):
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
        account = self._ready(prerequisites.lacks).account
        catalogue = load(self.target.infra / "catalogue.yaml")
        zips = build(catalogue, (), self.target.root / "dist")
        self.say(f"Packaged {len(zips)} functions.")
        plan = self._terraform(account).plan()
        self.say(str(plan))
        return plan

    def deploy(self, planned: bool = False) -> bool:
        """Bring the project to what the catalogue says, and test it; `planned` applies the plan that `plan` kept."""
        if planned:
            self._apply_planned()
        else:
            self._plan_and_apply()
        return self.smoke()

    def smoke(self) -> bool:
        """Test what is deployed, through its own URLs, and tell whether all of it worked."""
        account = self._account()
        base_url = self.base_url or self._terraform(account).output("base_url")
        if not base_url:
            raise Stopped(f"Nothing is deployed as {self.target.environment}. Run make deploy first.")
        self.say(f"Smoke test of {base_url}")
        works = smoke.passes(smoke.Site(self.target, base_url, account, self.run), self.say)
        self.say(WORKS.format(base_url=base_url) if works else FAILED)
        return works

    def destroy(self) -> None:
        """Destroy the environment, once its name was typed: for prod, and the project's name behind it."""
        words = confirmation(self.target)
        if self.agree(f"Type {words!r} to destroy it: ").strip() != words:
            raise Stopped(f"Nothing was destroyed: that takes the words {words!r} (or CONFIRM={words!r}).")
        engine = self._terraform(self._ready(prerequisites.lacks).account)
        self.say(str(engine.plan("-destroy")))
        self._applied(engine)
        self.say(REMAINS)

    def bootstrap(self) -> None:
        """Prepare a project: the bucket for the state and the account that deploys."""
        found = self._ready(lambda target, found: list(prerequisites.access_lacks(target, found)))
        if found.state_bucket and not self.target.prepared_here:
            self.say(f"{self.target.project} was prepared from another machine: {self.target.state_bucket} is there.")
            return
        engine = terraform.of_project(self.target, self.run)
        engine.init()
        plan = engine.plan()
        self.say(str(plan))
        self._agreed(plan)
        self._applied(engine)

    def _plan_and_apply(self) -> None:
        plan = self.plan()
        if plan.empty:
            return
        self._agreed(plan)
        engine = terraform.of(self.target, self._account(), self.run)
        outcome = engine.apply()
        if EVENTARC_LAG in outcome.text + outcome.error:
            self.say(f"Eventarc's agent has no rights yet. Once more in {EVENTARC_PAUSE_SECONDS:g} s.")
            self.pause(EVENTARC_PAUSE_SECONDS)
            self.say(str(engine.plan()))
            outcome = engine.apply()
        if not outcome.ok:
            raise CommandFailed("terraform apply failed; the lines above say why. What is there stays; deploy again.")

    def _apply_planned(self) -> None:
        engine = self._terraform(self._account())
        if not engine.plan_file.exists():
            raise Stopped("There is no plan to apply. Run make plan first.")
        self._applied(engine)

    def _applied(self, engine: terraform.Terraform) -> None:
        if not engine.apply().ok:
            raise CommandFailed("terraform apply failed; the lines above say why.")

    def _agreed(self, plan: Plan) -> None:
        if not plan.empty and self.agree("Apply it? [y/N] ").strip().lower() not in ("y", "yes"):
            raise Stopped("Nothing was changed: nobody agreed (YES=1 agrees beforehand).")

    def _ready(self, lacking: Callable[[Target, facts.Facts], list[prerequisites.Lack]]) -> facts.Facts:
        found = facts.gather(self.target, self.run)
        if missing := lacking(self.target, found):
            where = f"{self.target.environment} of {self.target.project}"
            raise Stopped("\n".join([f"Not ready for {where}; nothing was changed.", *map(str, missing)]))
        return found

    def _account(self) -> str:
        return facts.account(self.target, self.run)

    def _terraform(self, account: str) -> terraform.Terraform:
        engine = terraform.of(self.target, account, self.run)
        engine.init(f"bucket={self.target.state_bucket}", f"prefix={self.target.environment}")
        return engine


def confirmation(target: Target) -> str:
    """Give the words that must be typed before an environment is destroyed."""
    guarded = target.environment == "prod" or target.setting("environment", "") == "prod"
    return f"{target.environment} {target.project}" if guarded else target.environment
