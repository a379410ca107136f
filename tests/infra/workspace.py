"""A copy of the project's Terraform files with a separate state, and the real Terraform to run on them.

workspace = Workspace(folder, google, zips)
workspace.initialise()
workspace.apply()
workspace.resources()["google_cloud_tasks_queue.queue[\"tasks\"]"].values["name"]
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from signalbox.catalogue.reading import CATALOGUE, load, parse
from signalbox.catalogue.writing import written
from signalbox_tools.catalogue_lock import text_of
from tests.infra.google_provider.server import GoogleProvider

INFRA = Path(__file__).parents[2] / "infra"
VARIABLES = {
    "examples": True,
    "project_id": "demo-project",
    "deployer": "user:ann@example.com",
    "alert_email": "ops@example.com",
}
OTHERS = (".terraform", ".terraform.lock.hcl")
SECONDS_MAX = 110  # ends a run that hangs; no statement about how quick a run should be
NOTHING_TO_DO = 0
SOMETHING_TO_DO = 2


class TerraformError(AssertionError):
    """Terraform ended with an error; the message is all that it printed."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the state."""

    address: str
    kind: str
    values: dict[str, Any]


class Workspace:
    """Terraform's files in `folder`/infra, and a `dist` next to that folder."""

    def __init__(self, folder: Path, google: GoogleProvider, zips: Path, named: str = "prod", **variables: Any) -> None:
        self.infra = folder / "infra"
        self.lock = self.infra / "catalogue.lock.yaml"
        self._catalogue: dict[str, Any] = {}
        self.google = google
        self._file = f"-var-file=environments/{named}.tfvars.json"
        self.environment: dict[str, str] = {}
        self._given = VARIABLES | variables
        shutil.copytree(INFRA, self.infra, ignore=_unwanted)
        add_examples(self.infra / "environments")
        shutil.copytree(zips, folder / "dist")
        for root in (self.infra, self.infra / "bootstrap"):
            (root / "backend_override.tf").write_text(google.states.backend())

    def run(self, *command: str, check: bool = True, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of Terraform's. Raises `TerraformError` when it fails, unless `check` is False."""
        ended = subprocess.run(
            ["terraform", *command, *(["-no-color"] if command[0] not in ("fmt", "console") else [])],
            cwd=self.infra,
            input=given,
            env=self.google.environment() | self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        if check and ended.returncode:
            raise TerraformError(f"terraform {' '.join(command)}\n{ended.stdout}\n{ended.stderr}")
        return ended

    def initialise(self) -> None:
        """Prepare the folder and connect it to its state."""
        self.run("init", "-input=false")

    def apply(self, **variables: Any) -> str:
        """Apply the files; return the output."""
        return self.run("apply", "-auto-approve", "-input=false", *self.arguments(variables)).stdout

    def destroy(self) -> None:
        """Remove everything."""
        self.run("destroy", "-auto-approve", "-input=false", *self.arguments())

    def plan(self, check: bool = True, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Return the output of a plan; the plan is kept in the file ``planned``."""
        return self.run("plan", "-input=false", "-out=planned", *self.arguments(variables), check=check)

    def changes(self) -> dict[str, list[str]]:
        """Return the actions of the saved plan, by address; unchanged resources are not listed."""
        shown = json.loads(self.run("show", "-json", "planned").stdout)
        actions = {each["address"]: each["change"]["actions"] for each in shown.get("resource_changes", [])}
        return {address: action for address, action in actions.items() if action not in (["no-op"], ["read"])}

    def differs(self) -> bool:
        """Return whether a plan would do anything."""
        ended = self.run("plan", "-input=false", "-detailed-exitcode", *self.arguments(), check=False)
        if ended.returncode not in (NOTHING_TO_DO, SOMETHING_TO_DO):
            raise TerraformError(ended.stdout + ended.stderr)
        return ended.returncode == SOMETHING_TO_DO

    def value(self, expression: str) -> Any:
        """Return the value of an expression that needs no resource."""
        said = self.run("console", *self.arguments(), given=f"jsonencode({expression})\n").stdout
        return json.loads(json.loads(said))

    def shown(self, folder: str = ".") -> dict[str, Any]:
        """Return the output of ``terraform show -json`` for the folder's state."""
        said: dict[str, Any] = json.loads(self.run(f"-chdir={folder}", "show", "-json").stdout)
        return said

    def resources(self, folder: str = ".") -> dict[str, Resource]:
        """Return the resources that were applied in the folder, by address."""
        return by_address(self.shown(folder).get("values", {}))

    def planned(self) -> dict[str, Resource]:
        """Return the resources after the saved plan is applied, by address; unknown values are omitted."""
        return by_address(json.loads(self.run("show", "-json", "planned").stdout)["planned_values"])

    def outputs(self) -> dict[str, Any]:
        """Return the outputs."""
        return {name: each["value"] for name, each in json.loads(self.run("output", "-json").stdout).items()}

    def edit_catalogue(self, edit: Any) -> None:
        """Apply `edit` to the content of the catalogue in place, and write its lock, which Terraform reads."""
        self._catalogue = self._catalogue or yaml.safe_load(written(load(CATALOGUE)))
        edit(self._catalogue)
        self.lock.write_text(text_of(parse(self._catalogue, INFRA.parent)), "utf-8")

    def edit_rows(self, edit: Any) -> None:
        """Apply `edit` to the rows of the lock in place: to what no catalogue could declare."""
        content = yaml.safe_load(self.lock.read_text("utf-8"))
        edit(content)
        self.lock.write_text(yaml.safe_dump(content), "utf-8")

    def arguments(self, more: Mapping[str, Any] = MappingProxyType({})) -> list[str]:
        """Return the command line's part that sets the variables, with some `more`."""
        given = {name: value for name, value in {**self._given, **more}.items() if value is not None}
        return [self._file, *(f"-var={name}={_text(value)}" for name, value in given.items())]


def add_examples(environments: Path) -> None:
    """Let the environment dev of a copy deploy the kit's examples, as its own file does not."""
    file = environments / "dev.tfvars.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "examples": True}), "utf-8")


def _unwanted(path: str, names: list[str]) -> list[str]:
    """Name what Terraform does not read of a folder within ``infra/``."""
    read = (".tf", ".tfvars.json", ".hcl", "catalogue.yaml", "catalogue.lock.yaml")
    return [each for each in names if each in OTHERS or not (Path(path, each).is_dir() or each.endswith(read))]


def by_address(values: Mapping[str, Any]) -> dict[str, Resource]:
    """Return the resources in the values that ``terraform show -json`` reports, by address."""
    listed = _listed(values.get("root_module", {}))
    return {each["address"]: Resource(each["address"], each["type"], each["values"]) for each in listed}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _listed(module: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (each for each in module.get("resources", []) if each["mode"] == "managed")
    for child in module.get("child_modules", []):
        yield from _listed(child)
