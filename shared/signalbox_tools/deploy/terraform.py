"""Run Terraform for one deployment, with its own state, working files and variables.

Every change goes through a saved plan, so that exactly the plan that was shown is applied. The state is in the
project's bucket under the environment's name.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from signalbox_tools.deploy import plan_summary, working_copy
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.prerequisites import member
from signalbox_tools.deploy.programs import CommandFailed, Outcome, Run
from signalbox_tools.deploy.terraform_identity import credentials

CACHE = "TF_PLUGIN_CACHE_DIR"
PLATFORMS = ("darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64")
LOCKED = "Error acquiring the state lock"
LOCK_WAIT = "120s"  # another deployment of the same environment ends in this time, or is dead


class Terraform:
    """Terraform in one folder; `data` takes its working files and the plan, `sign_in` returns its credentials."""

    def __init__(
        self,
        folder: Path,
        data: Path,
        variables: list[str],
        run: Run,
        sign_in: Callable[[], dict[str, str]],
    ) -> None:
        self._plan_file = data / "plan"
        self._kept_plan = data / "kept-plan"
        self.folder = folder
        self._data = data
        self._variables = variables
        self._run = run
        self._sign_in = sign_in

    def init(self, *backend: str) -> bool:
        """Fetch the provider and connect to the state. Return whether it wrote the providers' lock file.

        The lock file of a first `init` has checksums for all platforms, so that it can be committed and used
        everywhere.
        """
        self._data.mkdir(parents=True, exist_ok=True)
        self._data.with_name("plugins").mkdir(exist_ok=True)
        file = self.folder / working_copy.LOCK_FILE
        there = file.exists()
        self._do("init", "-reconfigure", *(f"-backend-config={each}" for each in backend))
        if there or not file.exists():
            return False
        self._run_checked("providers", "lock", "-no-color", *(f"-platform={each}" for each in PLATFORMS))
        return True

    def plan(self, *options: str) -> plan_summary.Plan:
        """Plan, and save the plan for `apply`."""
        self._do("plan", f"-lock-timeout={LOCK_WAIT}", f"-out={self._plan_file}", *self._variables, *options)
        return self.saved()

    def keep_plan(self) -> None:
        """Keep the saved plan for a later command, which applies it without a question."""
        self._plan_file.replace(self._kept_plan)

    def forget_kept_plan(self) -> None:
        """Delete the plan that an earlier command kept."""
        self._kept_plan.unlink(missing_ok=True)

    def kept_plan(self) -> plan_summary.Plan | None:
        """Return the plan that `keep_plan` kept, for `apply`, or None. Plans of other commands are never returned."""
        if not self._kept_plan.exists():
            return None
        shutil.copyfile(self._kept_plan, self._plan_file)
        return self.saved()

    def saved(self) -> plan_summary.Plan:
        """Return the saved plan."""
        return plan_summary.read(self._json("show", "-json", str(self._plan_file)))

    def apply(self, watch: Callable[[str], None]) -> Outcome:
        """Apply the saved plan and return the outcome. A plan can be applied once.

        `watch` gets each line of the output.
        """
        command = (
            "terraform",
            "apply",
            "-input=false",
            "-no-color",
            f"-lock-timeout={LOCK_WAIT}",
            str(self._plan_file),
        )
        outcome = self._run(command, folder=self.folder, environment=self._environment(), watch=watch)
        for plan in (self._plan_file, self._kept_plan):
            plan.unlink(missing_ok=True)
        return outcome

    def tainted(self) -> list[str]:
        """Return the addresses of resources that a failed create has left incomplete."""
        return plan_summary.tainted(self.state())

    def state(self) -> dict[str, Any]:
        """Return the state, as `terraform show -json` prints it."""
        shown: dict[str, Any] = self._json("show", "-json")
        return shown

    def untaint(self, address: str) -> None:
        """Take the mark off a resource that a failed create left, so that it is not replaced."""
        self._run_checked("untaint", "-no-color", f"-lock-timeout={LOCK_WAIT}", address)

    def lock_refusal(self) -> str:
        """Return the refusal of a command that takes the lock and changes nothing; empty if the lock is free."""
        command = ("terraform", "untaint", "-no-color", "-lock-timeout=0s", "-allow-missing", "terraform_data.none")
        outcome = self._run(command, folder=self.folder, environment=self._environment())
        if not outcome.ok and LOCKED not in outcome.error:
            raise CommandFailed(outcome.error.strip())
        return outcome.error if not outcome.ok else ""

    def unlock(self, lock_id: str) -> None:
        """Release a lock that another command holds."""
        self._run_checked("force-unlock", "-no-color", "-force", lock_id)

    def output(self, name: str) -> Any:
        """Return an output of the state, or None."""
        return self.outputs().get(name)

    def outputs(self) -> dict[str, Any]:
        """Return the outputs of the state."""
        return {name: each["value"] for name, each in self._json("output", "-json").items()}

    def _json(self, *arguments: str) -> Any:
        outcome = self._run(("terraform", *arguments), folder=self.folder, environment=self._environment())
        return json.loads(_checked(outcome).text)

    def _do(self, goal: str, *arguments: str) -> None:
        self._run_checked(goal, "-input=false", "-no-color", *arguments)

    def _run_checked(self, *arguments: str) -> None:
        _checked(self._run(("terraform", *arguments), folder=self.folder, environment=self._environment()))

    def _environment(self) -> dict[str, str]:
        own = {"TF_DATA_DIR": str(self._data), "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
        if CACHE not in os.environ:  # the provider has 100 MB, and each deployment its own folder
            own[CACHE] = str(self._data.with_name("plugins"))
        return own | self._sign_in()


def of(target: Target, account: str, run: Run) -> Terraform:
    """Return Terraform for the functions of an environment, deployed by an account."""
    values = {"project_id": target.project, "region": target.region, "deployer": member(account)}
    values["environment_name"] = target.environment
    working_copy.renew(target.folder)
    if target.folder.own:
        # The state contains the path, so it is the same on every machine.
        values["dist_dir"] = os.path.relpath(target.folder.dist, target.infra)
    target.write_variables()
    file = f"-var-file={os.path.relpath(target.variables, target.infra)}"
    sign_in = credentials(target, account, run)
    return Terraform(target.infra, target.work, [file, *_given(values)], run, sign_in)


def of_project(target: Target, account: str, run: Run) -> Terraform:
    """Return Terraform for a project's bootstrap (`infra/bootstrap`); its state is also in the project's bucket."""
    working_copy.renew(target.folder)
    data = target.work.with_name(f"{target.project}-bootstrap")
    values = _given({"project_id": target.project, "region": target.region})
    sign_in = credentials(target, account, run)
    return Terraform(target.infra / "bootstrap", data, values, run, sign_in)


def _given(values: dict[str, str]) -> list[str]:
    return [f"-var={name}={value}" for name, value in values.items()]


def _checked(outcome: Outcome) -> Outcome:
    if not outcome.ok:
        raise CommandFailed(outcome.error.strip() or outcome.text.strip())
    return outcome
