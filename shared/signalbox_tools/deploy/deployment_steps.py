"""Deploy, plan, destroy and bootstrap: the order of their steps, and where they stop.

    deploy = check → offer what is missing → package → plan → show → confirm → apply the saved plan → smoke test
                                                                               └ again and again, see apply_attempts.py

After an apply, gcloud sets the dead letters of triggers, which Terraform cannot set (dead_letter_subscriptions.py), and
reads the indexes of fields back (field_settings.py).

Nothing is changed before it is confirmed: first the parts that a fresh project lacks (APIs, the bootstrap), one
question each, then the plan.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from signalbox.core.ports import Store
from signalbox_tools.cli import flow_replay
from signalbox_tools.deploy import (
    alert_address,
    dead_letter_subscriptions,
    declared_limits,
    deployed_place,
    field_settings,
    lost_tasks,
    prerequisites,
    project_facts,
    recorded_tasks,
    resource_adoption,
    smoke,
    state_bucket,
    state_lock,
    terraform,
    working_copy,
)
from signalbox_tools.deploy.apply_attempts import Attempts, applied, planned
from signalbox_tools.deploy.confirmation import Aborted, Agree, agreed
from signalbox_tools.deploy.deployment_target import Target, databases_below
from signalbox_tools.deploy.plan_summary import FUNCTION, Plan, added_parts, removed_parts
from signalbox_tools.deploy.programs import CommandFailed, Run, run
from signalbox_tools.deploy.project_readiness import Preparation
from signalbox_tools.deploy.rollback_and_restore import Recovery
from signalbox_tools.deploy.smoke import Site
from signalbox_tools.deploy.waiting_clock import REAL, Clock
from signalbox_tools.packaging.zip_building import build
from signalbox_tools.terminal_text import counted

WORKS = "Everything works."
FIRST_CALL = """ A call of {name}, whose routes may have further paths:
  curl {token}"{base_url}{segment}"
"""
AS_THE_PERSON = '-H "Authorization: Bearer $(gcloud auth print-identity-token)" '
FAILED = "The smoke test failed; the deployment stays. `signalbox smoke` runs it again; see the functions' logs."
STUCK_RUNS = "guard the change with `flow.patched`, or remove check_runs from the function's entry."
COMMIT = "Terraform wrote {file}: commit this file, so that all deploy with the same provider."
REMAINS = """What stays: the state's bucket and the deploying account (infra/bootstrap), the enabled APIs, the bucket
that Cloud Functions keeps for sources, and the queues, emptied: a deleted queue's name would be taken for days. The
next `signalbox deploy` takes them up again. The database stays where Terraform did not create it. Where environment is
prod it stays as it is, with its indexes, times to live, backup schedules and backups: `signalbox adopt` takes them
up."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment to make, change or remove, with functions that run programs, print and ask.

    `agree` returns the answer to a question; `base_url` replaces the deployed one in the smoke test. `forward` moves
    functions that are rolled back to the new code; without it, a plan that changes them is refused. `unchecked` removes
    functions and queues although it is not known whether tasks wait for them.
    """

    target: Target
    say: Callable[[str], None]
    agree: Agree
    run: Run = run
    clock: Clock = REAL
    base_url: str = ""
    forward: bool = False
    unchecked: bool = False
    database: Callable[[Target, Run], Store] = recorded_tasks.database

    @property
    def recovery(self) -> Recovery:
        """The way back: to earlier revisions, or to the data of a backup."""
        return Recovery(self.target, self.say, self.agree, self.run)

    def plan(self) -> Plan:
        """Check, package, plan and show; a plan that may be applied is kept for `deploy(saved=True)`."""
        engine = self._checked()
        engine.forget_kept_plan()
        plan = self._planned(engine)
        for unknown in self._refuse_losses(plan):
            self.say(f"Warning: {unknown}")
        engine.keep_plan()
        return plan

    def deploy(self, saved: bool = False) -> bool:
        """Deploy the catalogue and run the smoke test; `saved` applies the plan that `plan` kept."""
        engine = self._callable(self._preparation().prepared(planned=saved))
        if saved:
            if (plan := engine.kept_plan()) is None:
                raise Aborted("There is no saved plan to apply. Run signalbox plan first.")
            self._refuse_unchecked(plan)
            self._refuse_stuck_runs(engine)
            self._apply(engine, plan)
        else:
            alert_address.offer(self.target, self.say, self.agree)
            plan = self._planned(engine)
            self._refuse_unchecked(plan)
            if not plan.empty:
                self._refuse_stuck_runs(engine)
                agreed(self.agree, "Apply it?")
                deployed_place.keep(self.target, self.say)
                self._apply(engine, plan)
        complete = self._completed(engine)
        return declared_limits.ensured(self._site(engine), self.say) and self._tested(engine) and complete

    def smoke(self) -> bool:
        """Smoke-test the deployment through its own URLs; return whether every step passed."""
        return self._tested(self._checked())

    def destroy(self) -> bool:
        """Destroy the environment after its name is typed; for prod also the project's name.

        Return whether the queues, which stay, are empty.
        """
        words = confirmation(self.target)
        if self.agree(f"Type {words!r} to destroy it: ").strip() != words:
            raise Aborted(f"Nothing was destroyed: type {words!r} (or --confirm {words!r}).")
        engine = self._checked()
        self._packaged()  # Terraform reads its inputs, including the zips, before it destroys
        plan = planned(engine, self._attempts(), "-destroy")
        self.say(str(plan))
        self._apply(engine, plan, "-destroy")
        there = self.target.own_queues(project_facts.queues(self.target, self.run) or ())
        own = {*map(self.target.service, self.target.catalogue.shards), *there}
        emptied = [self._emptied(queue) for queue in sorted(own)]
        for other in databases_below(self.target):
            self.say(
                f"The database {other.of_database} has a separate deployment: signalbox destroy -e {other.environment}"
            )
        self.say(REMAINS)
        return all(emptied)

    def _emptied(self, queue: str) -> bool:
        """Delete the tasks of a queue that stays. Report a failure, and return whether there was none."""
        where = (f"--location={self.target.region}", f"--project={self.target.project}", "--quiet")
        outcome = self.run(("gcloud", "tasks", "queues", "purge", queue, *where), folder=self.target.root)
        is_empty = outcome.ok or project_facts.ABSENT in outcome.error
        if not is_empty:
            command = f"gcloud tasks queues purge {queue} {' '.join(where[:2])}"
            self.say(
                f"The queue {queue} was not emptied: the next deployment would run its tasks. To empty it: {command}\n"
                f"  {outcome.error.strip()}"
            )
        return is_empty

    def adopt(self) -> bool:
        """Import the resources that a killed apply left, or a restored database, and create the rest.

        It is `signalbox deploy` without its smoke test.
        """
        engine = self._callable(self._preparation().ready())
        self._packaged()
        plan = planned(engine, self._attempts())
        ids = resource_adoption.importable(plan, self.target.project, self.target.region)
        ids |= resource_adoption.indexes(plan, project_facts.indexes(self.target, self.run))
        ids |= resource_adoption.backup_schedules(plan, project_facts.backup_schedules(self.target, self.run))
        plan = resource_adoption.adopted(engine.folder, ids, engine.plan, CommandFailed)
        self.say(str(plan))
        self._refuse_unchecked(plan)
        if not plan.empty:
            agreed(self.agree, "Apply it?")
            deployed_place.keep(self.target, self.say)
            self._apply(engine, plan)
        return self._completed(engine)

    def bootstrap(self) -> None:
        """Bootstrap a project: the bucket for the state and the deploying account."""
        self._preparation().bootstrap()

    def unlock(self) -> None:
        """Release the locks that killed commands left on the states of the environment and of the bootstrap."""
        account = self._preparation().ready().account
        bootstrap = terraform.of_project(self.target, account, self.run)
        state_bucket.connect(bootstrap, self.target, self.run)
        for name, engine in ((self.target.environment, self._terraform(account)), ("the bootstrap", bootstrap)):
            state_lock.release(engine, name, self.say, self.agree)

    def _checked(self) -> terraform.Terraform:
        return self._in_place(self._terraform(self._preparation().ready().account))

    def _callable(self, ready: project_facts.Facts) -> terraform.Terraform:
        """Return Terraform for the environment. Raises `Aborted` if functions that may call it are not deployed."""
        if absent := prerequisites.absent_callers(self.target, ready):
            raise Aborted(f"Nothing was deployed.\n{absent}")
        return self._in_place(self._terraform(ready.account))

    def _in_place(self, engine: terraform.Terraform) -> terraform.Terraform:
        """Return Terraform for the environment. Raises `Aborted` if it is deployed in another place."""
        deployed_place.check(self.target, engine.outputs())
        return engine

    def _planned(self, engine: terraform.Terraform) -> Plan:
        self._packaged()
        plan = self._with_queues(engine, planned(engine, self._attempts()))
        parts = self.target.catalogue.parts
        self.say("\n".join((str(plan), *added_parts(plan, parts), *removed_parts(plan, parts))))
        return plan

    def _refuse_losses(self, plan: Plan) -> list[str]:
        """Return what is not known about the losses of a plan. Raises `Aborted` if it loses data or tasks."""
        lost_tasks.refuse_lost_data(self.target, plan)
        records = partial(self.database, self.target, self.run)
        unknown = lost_tasks.refuse_lost_tasks(self.target, plan, self.run)
        unknown += lost_tasks.refuse_recorded_tasks(self.target, plan, records)
        for warning in lost_tasks.left_by_callers(plan, records):
            self.say(warning)
        if not self.forward and any(map(FUNCTION.fullmatch, (*plan.changed, *plan.replaced))):
            self.recovery.refuse_pinned()
        return unknown

    def _refuse_unchecked(self, plan: Plan) -> None:
        """Raise `Aborted` if a plan that is to be applied loses data or tasks, or may lose tasks."""
        unknown = self._refuse_losses(plan)
        if unknown and not self.unchecked:
            lines = "\n".join(f"  {each}" for each in unknown)
            raise Aborted(lost_tasks.UNCHECKED.format(lines=lines, options=self.target.options))
        for each in unknown:
            self.say(f"Warning: {each}")

    def _refuse_stuck_runs(self, engine: terraform.Terraform) -> None:
        """Replay the runs of functions with `check_runs`. Raises `Aborted` if one would be stuck with the new code."""
        checked = [each.name for each in self.target.catalogue.functions.values() if each.check_runs]
        if not checked or not engine.output("base_url"):
            return
        target = self.target
        place = "--project", target.project, "--environment", target.environment, "--region", target.region
        for function in checked:
            self.say(f"Replaying the runs of {function} with the new code.")
            done = self.run(flow_replay.command_for(function, *place), folder=target.root)
            if not done.ok:
                raise Aborted(f"{done.text}{done.error}Nothing was deployed: {STUCK_RUNS}")

    def _with_queues(self, engine: terraform.Terraform, plan: Plan) -> Plan:
        """Return a plan that imports the queues that an earlier destroy kept, and does not create them."""
        ids = resource_adoption.importable(plan, self.target.project, self.target.region)
        if not any(resource_adoption.QUEUE in address for address in ids):
            return plan
        kept = resource_adoption.queues(ids, project_facts.queues(self.target, self.run) or ())
        return resource_adoption.adopted(engine.folder, kept, engine.plan, CommandFailed) if kept else plan

    def _packaged(self) -> None:
        project = self.target.folder
        zips = build(self.target.catalogue, (), project.dist)
        working_copy.keep_catalogue(project, self.say)
        self.say(f"Packaged {counted(len(zips), 'function')}.")

    def _apply(self, engine: terraform.Terraform, plan: Plan, *options: str) -> None:
        applied(engine, plan, self._attempts(), *options)

    def _completed(self, engine: terraform.Terraform) -> bool:
        """Set and check what Terraform does not: dead letters, and the indexes that the database has."""
        place = dead_letter_subscriptions.place_of(engine.output("dead_letters"))
        kept = dead_letter_subscriptions.ensure(self.target, place, self.run, self.say)
        return field_settings.check(self.target, engine.state(), self.run, self.say) and kept

    def _attempts(self) -> Attempts:
        return Attempts(self.target, self.say, self.clock)

    def _site(self, engine: terraform.Terraform) -> Site:
        base_url = self.base_url or engine.output("base_url")
        if not base_url:
            raise Aborted(f"Nothing is deployed as {self.target.environment}. Run signalbox deploy first.")
        return Site(self.target, base_url, project_facts.account(self.target, self.run), self.run, self.clock)

    def _tested(self, engine: terraform.Terraform) -> bool:
        site = self._site(engine)
        self.say(f"Smoke test of {site.base_url}")
        works = smoke.passes(site, self.say)
        self.say(f"{WORKS}{self._first_call(site)}" if works else FAILED)
        return works

    def _first_call(self, site: Site) -> str:
        """Return the command that calls a function for people: the project's own if there is one."""
        catalogue = self.target.catalogue
        for_people = [each for each in catalogue.functions.values() if "people" in each.invoked_by]
        called = min(for_people, key=catalogue.is_of_the_kit, default=None)
        if called is None:
            return ""
        token = "" if called.open_to_all else AS_THE_PERSON  # an open function's code would receive its signature
        return FIRST_CALL.format(name=called.name, base_url=site.base_url, segment=called.segment, token=token)

    def _preparation(self) -> Preparation:
        return Preparation(self.target, self.say, self.agree, self.run, self.clock)

    def _terraform(self, account: str) -> terraform.Terraform:
        engine = terraform.of(self.target, account, self.run)
        resource_adoption.clear(engine.folder)
        if engine.init(f"bucket={self.target.state_bucket}", f"prefix={self.target.environment}"):
            file = working_copy.keep_lock_file(self.target.folder).relative_to(self.target.root)
            self.say(COMMIT.format(file=file))
        return engine


def confirmation(target: Target) -> str:
    """Return the words to type before an environment is destroyed."""
    guarded = target.environment == "prod" or target.setting("environment", "") == "prod"
    return f"{target.environment} {target.project}" if guarded else target.environment
