"""Terraform accepts the files, brings them about, and finds nothing left to do."""

import pytest

from tests.infra.workspace import INFRA, Workspace

pytestmark = pytest.mark.slow


def test_the_files_are_formatted(deployed: Workspace) -> None:
    assert deployed.run("fmt", "-check", "-recursive", str(INFRA), check=False).stdout == ""


@pytest.mark.parametrize("folder", [".", "bootstrap"])
def test_the_files_are_valid(deployed: Workspace, folder: str) -> None:
    deployed.run(f"-chdir={folder}", "init", "-input=false")
    assert "The configuration is valid" in deployed.run(f"-chdir={folder}", "validate").stdout


def test_what_was_applied_leaves_nothing_to_do(deployed: Workspace) -> None:
    assert not deployed.differs()


def test_outputs_name_where_everything_is(deployed: Workspace) -> None:
    outputs = deployed.outputs()
    names = "accounts", "base_url", "database", "dead_letters", "deployer", "prefix", "queues", "region", "urls"
    assert sorted(outputs) == sorted(names)
    assert (outputs["region"], outputs["prefix"]) == ("us-central1", "")
    assert outputs["base_url"] == "https://us-central1-demo-project.cloudfunctions.net/"
    assert outputs["database"] == "signalbox-prod"
    assert outputs["queues"]["tasks"] == "projects/demo-project/locations/us-central1/queues/tasks"
    assert outputs["accounts"]["sweep"] == "kit-functions@demo-project.iam.gserviceaccount.com"
    assert outputs["accounts"]["queue tasks"] == "qu-tasks@demo-project.iam.gserviceaccount.com"
