"""Terraform accepts the files, brings them about, finds nothing left to do, and takes away only its own."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.infra.workspace import INFRA, Resource, Workspace

SHARED = {"google_project_service"}  # what is turned on for one is on for all, and stays on


Existing = set[tuple[str, str]]


@dataclass(frozen=True)
class Beside:
    """What exists in the project: with prod alone, with dev applied beside it, and when dev was destroyed."""

    prod: Existing
    both: Existing
    after: Existing
    dev: Mapping[str, Resource]


@pytest.fixture(scope="module")
def beside(deployed: Workspace, zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    """Apply dev beside prod; the stand-in refuses to create what exists."""
    existing = deployed.google.cloud.existing
    prod = set(existing)
    dev = Workspace(tmp_path_factory.mktemp("dev"), deployed.google, zips, named="dev")
    dev.initialise()
    dev.apply()
    both, resources = set(existing), dev.resources()
    dev.destroy()
    return Beside(prod, both, set(existing), resources)


def test_the_files_are_formatted(deployed: Workspace) -> None:
    assert deployed.run("fmt", "-check", "-recursive", str(INFRA), check=False).stdout == ""


@pytest.mark.parametrize("folder", [".", "bootstrap"])
def test_the_files_are_valid(deployed: Workspace, folder: str) -> None:
    deployed.run(f"-chdir={folder}", "init", "-input=false")
    assert "The configuration is valid" in deployed.run(f"-chdir={folder}", "validate").stdout


def test_what_was_applied_leaves_nothing_to_do(deployed: Workspace) -> None:
    assert not deployed.differs()


def test_two_environments_share_a_project_and_nothing_in_it(beside: Beside) -> None:
    kinds = Counter(kind for kind, _ in beside.prod if kind not in SHARED)
    assert Counter(kind for kind, _ in beside.both - beside.prod) == kinds


def test_the_end_of_one_environment_leaves_the_other_as_it_was(beside: Beside) -> None:
    assert beside.after == beside.prod


def test_only_the_data_of_prod_is_protected(beside: Beside, resources: Mapping[str, Resource]) -> None:
    address = "google_firestore_database.database[0]"
    prod, dev = resources[address].values, beside.dev[address].values
    assert (prod["delete_protection_state"], prod["deletion_policy"]) == ("DELETE_PROTECTION_ENABLED", "ABANDON")
    assert (dev["delete_protection_state"], dev["deletion_policy"]) == ("DELETE_PROTECTION_DISABLED", "DELETE")


def test_outputs_say_where_everything_is(deployed: Workspace) -> None:
    outputs = deployed.outputs()
    assert set(outputs) == {"accounts", "base_url", "database", "queues", "urls"}
    assert outputs["base_url"] == "https://us-central1-demo-project.cloudfunctions.net/"
    assert outputs["database"] == "signalbox-prod"
    assert outputs["queues"]["tasks"] == "projects/demo-project/locations/us-central1/queues/tasks"
    assert outputs["accounts"]["sweep"] == "fn-sweep@demo-project.iam.gserviceaccount.com"
    assert outputs["accounts"]["tasks"] == "kit-tasks@demo-project.iam.gserviceaccount.com"
