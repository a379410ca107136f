"""Run Terraform for one deployment, with its own state, working files and variables.

Every change goes through a saved plan, so that what is applied is what was shown. The state is in the project's bucket
under the environment's name.
"""

import json
from pathlib import Path
from typing import Any

from infra.deploy import plans
from infra.deploy.commands import CommandFailed, Outcome, Run
from infra.deploy.prerequisites import member
from infra.deploy.target import Target

LOCK_WAIT = "120s"  # another deployment of the same environment ends in this time, or is dead


class Terraform:
    """Terraform in one folder; `data` takes its working files and the plan."""

    def __init__(self, folder: Path, data: Path, variables: list[str], run: Run, workspace: str = "") -> None:
        self.plan_file = data / "plan"
        self._folder = folder
        self._data = data
        self._variables = variables
        self._run = run
        self._workspace = {"TF_WORKSPACE": workspace} if workspace else {}

    def init(self, *backend: str) -> None:
        """Fetch the provider and connect to the state."""
        self._data.mkdir(parents=True, exist_ok=True)
        self._do("init", "-reconfigure", *(f"-backend-config={each}" for each in backend))

    def plan(self, *options: str) -> plans.Plan:
        """Plan, and save the plan for `apply`."""
        self._do("plan", f"-lock-timeout={LOCK_WAIT}", f"-out={self.plan_file}", *self._variables, *options)
        return plans.read(self._json("show", "-json", str(self.plan_file)))

    def apply(self) -> Outcome:
        """Apply the saved plan and return the outcome; a plan can be applied once."""
        command = ("terraform", "apply", "-input=false", "-no-color", f"-lock-timeout={LOCK_WAIT}", str(self.plan_file))
        outcome = self._run(command, folder=self._folder, environment=self._environment(), shown=True)
        self.plan_file.unlink(missing_ok=True)
        return outcome

    def output(self, name: str) -> Any:
        """Return an output of the state, or None."""
        return self._json("output", "-json").get(name, {}).get("value")

    def _json(self, *arguments: str) -> Any:
        outcome = self._run(("terraform", *arguments), folder=self._folder, environment=self._environment())
        return json.loads(_checked(outcome).text)

    def _do(self, goal: str, *arguments: str) -> None:
        command = ("terraform", goal, "-input=false", "-no-color", *arguments)
        _checked(self._run(command, folder=self._folder, environment=self._environment()))

    def _environment(self) -> dict[str, str]:
        return {"TF_DATA_DIR": str(self._data), "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", **self._workspace}


def of(target: Target, account: str, run: Run) -> Terraform:
    """Return Terraform for the functions of an environment, deployed by an account."""
    values = {"project_id": target.project, "region": target.region, "deployer": member(account)}
    file = f"-var-file=environments/{target.environment}.tfvars"
    return Terraform(target.infra, target.work, [file, *_given(values)], run)


def of_project(target: Target, run: Run) -> Terraform:
    """Return Terraform for a project's bootstrap (`infra/bootstrap`); its state stays on this machine."""
    data = target.work.with_name(f"{target.project}-bootstrap")
    values = _given({"project_id": target.project, "region": target.region})
    return Terraform(target.infra / "bootstrap", data, values, run, workspace=target.project)


def _given(values: dict[str, str]) -> list[str]:
    return [f"-var={name}={value}" for name, value in values.items()]


def _checked(outcome: Outcome) -> Outcome:
    if not outcome.ok:
        raise CommandFailed(outcome.error.strip() or outcome.text.strip())
    return outcome
