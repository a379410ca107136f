"""The folder in which Terraform runs for a user's own project has the kit's files and the project's, and no others."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.project import KIT, Project
from signalbox_tools.deploy import deployment_target, programs, working_copy
from signalbox_tools.deploy.programs import Outcome
from signalbox_tools.deploy.project_readiness import Preparation
from signalbox_tools.setup.wheel import FILES
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.scripted_programs import Script
from tests.infra.google_provider.server import GoogleProvider

BUDGET = {"billing_account": "0123AB-CDEF01-234567", "budget": 20}


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    """Return a project with a budget."""
    (tmp_path / "signalbox.yaml").write_text("functions: {}\n")
    (tmp_path / "bootstrap").mkdir()
    (tmp_path / "bootstrap" / "budget.auto.tfvars.json").write_text(json.dumps(BUDGET))
    return Project.at(tmp_path)


def test_the_settings_of_the_bootstrap_are_those_of_the_project_now(shop: Project) -> None:
    kept = shop.root / "bootstrap" / "budget.auto.tfvars.json"
    used = shop.infra / "bootstrap" / kept.name
    working_copy.renew(shop)
    assert json.loads(used.read_text()) == BUDGET
    kept.write_text(json.dumps(BUDGET | {"budget": 30}))
    working_copy.renew(shop)
    assert json.loads(used.read_text())["budget"] == 30
    kept.unlink()
    working_copy.renew(shop)
    assert not used.exists()
    assert (shop.infra / "bootstrap" / "main.tf").read_bytes() == (KIT.infra / "bootstrap" / "main.tf").read_bytes()


def test_the_settings_of_a_clones_bootstrap_go_into_no_other_project(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(KIT.infra / "bootstrap", clone / "infra" / "bootstrap")
    (clone / "infra" / "bootstrap" / "github.auto.tfvars.json").write_text("{}")
    monkeypatch.setattr(working_copy, "KIT", type(KIT)(clone))
    working_copy.renew(shop)
    there = {path.name for path in (shop.infra / "bootstrap").iterdir()}
    assert ("main.tf" in there, "state_lifecycle.json" in there) == (True, True)
    assert "github.auto.tfvars.json" not in there
    packed = {path.name for pattern in FILES for path in clone.glob(pattern)}
    assert "main.tf" in packed
    assert "github.auto.tfvars.json" not in packed


def test_what_a_clone_keeps_of_its_deployments_goes_into_no_wheel_and_no_other_project(
    place: deployment_target.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own := tmp_path / "own").mkdir()
    (own / "signalbox.yaml").write_text("functions: {}\n")
    before = packed(place.root)
    place.keep("alert_email", "ann@example.com")
    deployment_target.read(PROJECT, "staging", root=place.root).keep("billing_account", "0123AB-CDEF01-234567")
    kept = {name: deployment_target.read(PROJECT, name, root=place.root).settings for name in ("dev", "staging")}
    assert kept["dev"] == {**(place.settings or {}), "alert_email": "ann@example.com"}
    assert kept["staging"] == {"billing_account": "0123AB-CDEF01-234567"}
    assert packed(place.root) == before
    monkeypatch.setattr("signalbox.catalogue.project.KIT", type(KIT)(place.root))
    assert deployment_target.read(PROJECT, "dev", root=own).settings == place.settings
    assert deployment_target.read(PROJECT, "staging", root=own).settings is None


def packed(root: Path) -> dict[Path, bytes]:
    """Return the kit's own files in a wheel that is built in a folder."""
    return {path: path.read_bytes() for pattern in FILES for path in root.glob(pattern) if path.is_file()}


@pytest.mark.slow
def test_the_first_command_of_a_new_project_bootstraps_it_with_the_budget_that_its_file_asks_for(
    shop: Project, own_google: GoogleProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terraform reads the lock of the catalogue, which no command has written before."""
    for name, value in own_google.environment().items():
        monkeypatch.setenv(name, value)
    gcloud, said = Script(), list[str]()

    def run(command: Sequence[str], **options: Any) -> Outcome:
        if command[0] == "gcloud":
            return gcloud(command)
        (options["folder"] / "backend_override.tf").write_text(backend)
        return programs.run([each for each in command if not each.startswith("-backend-config")], **options)

    backend = own_google.states.backend()
    place = deployment_target.read(PROJECT, "dev", root=shop.root)
    Preparation(place, said.append, lambda _: "y", run).bootstrap()
    [budget] = [value for (kind, _), value in own_google.cloud.existing.items() if kind == "google_billing_budget"]
    assert budget["amount"][0]["specified_amount"][0]["units"] == "20"
    assert said[0] == "signalbox.lock.yaml has changed: commit it, so that a changed right shows in a diff."
