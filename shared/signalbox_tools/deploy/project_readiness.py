"""Check that a project is ready; offer what a fresh one lacks, its APIs and the bootstrap, with one question each.

The bootstrap is the bucket for Terraform's states and the account that deploys. It may be interrupted at any point: the
missing parts are offered again, and creating them does not change the others.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from signalbox_tools.deploy import (
    prerequisites,
    project_facts,
    resource_adoption,
    state_bucket,
    terraform,
    working_copy,
)
from signalbox_tools.deploy.apply_attempts import Attempts, applied, planned
from signalbox_tools.deploy.confirmation import Aborted, Agree, agreed
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.plan_summary import Plan
from signalbox_tools.deploy.programs import CommandFailed, Run
from signalbox_tools.deploy.waiting_clock import REAL, Clock


@dataclass(frozen=True, slots=True)
class Preparation:
    """A project before a deployment, with the programs that are run, the output and the confirmation."""

    target: Target
    say: Callable[[str], None]
    agree: Agree
    run: Run
    clock: Clock = REAL

    def ready(self) -> project_facts.Facts:
        """Return the facts of a project that is ready. Raises `Aborted` with everything that is missing.

        Print the APIs that only the next deployment needs.
        """
        found = project_facts.gather(self.target, self.run)
        lacking = prerequisites.missing(self.target, found)
        if self._now(lacking):
            self._refuse(self._now(lacking))
        for each in lacking:
            self.say(f"{each.what} `signalbox deploy` enables them.")
        return found

    @staticmethod
    def _now(lacking: Iterable[prerequisites.Missing]) -> Sequence[prerequisites.Missing]:
        return [each for each in lacking if each.offer != prerequisites.ENABLE_LATER]

    def prepared(self, *, planned: bool) -> project_facts.Facts:
        """Return the facts of a project that is ready, after offering to create the parts that a fresh one lacks.

        A plan that was saved has named the APIs that it needs. If it is applied (`planned`), they are enabled without a
        question.
        """
        found = project_facts.gather(self.target, self.run)
        lacking = prerequisites.missing(self.target, found)
        if any(not each.offer for each in lacking):
            self._refuse(lacking)
        for each in lacking:
            self._offer(each, found, planned=planned)
        return self.ready() if lacking else found

    def bootstrap(self) -> None:
        """Create the bucket for the states and the deploying account, or upgrade its rights."""
        found = project_facts.gather(self.target, self.run)
        if lacking := self._now(prerequisites.missing_access(self.target, found)):
            self._refuse(lacking)
        self._bootstrap(found)

    def _offer(self, lacking: prerequisites.Missing, found: project_facts.Facts, *, planned: bool) -> None:
        self.say(f"{lacking.what}\n  {lacking.remedy}")
        if lacking.offer == prerequisites.BOOTSTRAP:
            self._bootstrap(found)
            return
        if not (planned and lacking.offer == prerequisites.ENABLE_LATER):
            agreed(self.agree, "Enable them?")
        outcome = self.run(lacking.remedy.split(), folder=self.target.root)
        if not outcome.ok:
            raise CommandFailed(outcome.error.strip())

    def _bootstrap(self, found: project_facts.Facts) -> None:
        working_copy.keep_catalogue(self.target.folder, self.say)  # the deploying account may grant the roles in it
        engine = terraform.of_project(self.target, found.account, self.run)
        if not found.state_bucket:
            agreed(self.agree, f"Create the bucket {self.target.state_bucket} for Terraform's states?")
            state_bucket.make_bucket(self.target, self.run)
        resource_adoption.clear(engine.folder)
        state_bucket.connect(engine, self.target, self.run)
        plan = self._with_account(engine, planned(engine, Attempts(self.target, self.say, self.clock)), found)
        self.say(str(plan))
        if not plan.empty:
            agreed(self.agree, "Apply it?")
            applied(engine, plan, Attempts(self.target, self.say, self.clock))

    def _with_account(self, engine: terraform.Terraform, plan: Plan, found: project_facts.Facts) -> Plan:
        """Plan.

        Where the plan would create a resource that a killed bootstrap has created and not saved, import it instead.
        """
        ids = resource_adoption.importable(plan, self.target.project, self.target.region) if found.deployer else {}
        return resource_adoption.adopted(engine.folder, ids, engine.plan, CommandFailed) if ids else plan

    def _refuse(self, missing: Sequence[prerequisites.Missing]) -> None:
        where = f"{self.target.environment} of {self.target.project}"
        raise Aborted("\n".join([f"Not ready for {where}; nothing was changed.", *map(str, missing)]))
