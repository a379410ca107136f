"""After a command was killed (SIGKILL permits no cleaning up), the next command succeeds."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from signalbox_tools.deploy import deployment_steps, deployment_target, resource_adoption, smoke
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.deployment_steps import Deployment
from signalbox_tools.deploy.programs import CommandFailed, Outcome
from signalbox_tools.deploy.state_lock import described
from signalbox_tools.deploy.terraform import LOCKED
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.project_copy import Project
from tests.infra.deploy.scripted_programs import Script
from tests.infra.google_provider.server import GoogleProvider

pytestmark = pytest.mark.slow

LOCK = f"""╷
│ Error: {LOCKED}
│
│ Error message: HTTP remote state already locked: ID=7-7
│ Lock Info:
│   ID:        7-7
│   Path:
│   Operation: OperationTypeApply
│   Who:       ann@laptop
│   Created:   2026-05-01 10:00:00.5 +0000 UTC
╵
"""
MADE = 100


@pytest.fixture
def project(own_google: GoogleProvider, zips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project that is prepared, in which nothing is deployed."""
    monkeypatch.setattr(deployment_steps, "build", lambda *_: [])
    monkeypatch.setattr(smoke, "passes", lambda *_: True)
    return Project(tmp_path / "clone", own_google, zips, Script())


class Killed(subprocess.Popen[str]):
    """Terraform; one apply is killed after so many operations on the cloud."""

    google: GoogleProvider
    left = 1

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        super().__init__(command, **options)
        if command[1] == "apply" and Killed.left:
            Killed.left -= 1
            enough = len(self.google.cloud.operations) + MADE
            while len(self.google.cloud.operations) < enough and self.poll() is None:
                time.sleep(0.005)
            self.kill()


def kill_the_next_apply(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Killed, "google", project.google, raising=False)
    monkeypatch.setattr(Killed, "left", 1)
    monkeypatch.setattr(subprocess, "Popen", Killed)


@pytest.mark.marathon
def test_terraform_that_is_killed_leaves_a_lock_that_is_released_and_resources_that_are_adopted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_the_next_apply(project, monkeypatch)
    with pytest.raises(CommandFailed, match=r"killed by signal 9.*signalbox unlock.*signalbox adopt"):
        project.flow([]).deploy()
    with pytest.raises(CommandFailed, match=r"To do: .*signalbox unlock"):
        project.flow([]).deploy()
    project.flow(said := list[str]()).unlock()
    assert [line.partition(" since")[0].partition("@")[2] != "" for line in said if "holds the lock of dev" in line]
    before = set(project.google.cloud.existing)
    project.flow(said).adopt()
    assert before <= set(project.google.cloud.existing)
    assert project.flow([]).plan().empty


@pytest.mark.marathon
def test_a_destroy_that_was_killed_can_be_continued(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.flow([]).deploy()
    steps = project.flow(said := list[str](), answer="dev")
    kill_the_next_apply(project, monkeypatch)
    with pytest.raises(CommandFailed, match="killed by signal 9"):
        steps.destroy()
    with pytest.raises(CommandFailed, match=r"To do: .*signalbox unlock"):
        steps.destroy()
    steps.unlock()
    steps.destroy()
    assert {kind for kind, _ in project.google.cloud.existing} == {"google_cloud_tasks_queue", "google_firestore_field"}
    assert "What stays:" in said[-1]


def test_resources_of_a_killed_bootstrap_are_adopted_by_the_next_one(project: Project) -> None:
    project.flow([]).bootstrap()
    before = set(project.google.cloud.existing)
    project.terraform("state", "rm", "google_service_account.deployer", folder="bootstrap")
    described = f"gcloud iam service-accounts describe {deployment_target.read(PROJECT, 'dev').deployer}"
    project.gcloud.answers[described] = "there"
    project.flow(said := list[str]()).bootstrap()
    assert "  adopts    google_service_account.deployer" in "\n".join(said)
    assert set(project.google.cloud.existing) == before


def test_the_locks_of_the_environment_and_of_the_bootstrap_are_shown_and_released_after_it_was_confirmed(
    place: deployment_target.Target,
) -> None:
    free = Outcome(0, "No such resource instance")
    script = Script(**{"terraform untaint": [Outcome(1, error=LOCK), Outcome(1, error=LOCK), free]})
    script.answers["terraform force-unlock"] = ""
    with pytest.raises(Aborted, match="not confirmed"):
        Deployment(place, lambda _: None, lambda _: "n", script).unlock()
    assert script.count("terraform force-unlock") == 0
    Deployment(place, (said := list[str]()).append, lambda _: "y", script).unlock()
    assert said[0] == "ann@laptop holds the lock of dev since 2026-05-01 10:00:00.5 +0000 UTC (OperationTypeApply)."
    assert said[-1] == "The lock of the bootstrap is free."
    assert [each for each in script.asked if "force-unlock" in each] == ["terraform force-unlock -no-color -force 7-7"]


def test_an_error_other_than_a_lock_is_reported(place: deployment_target.Target) -> None:
    with pytest.raises(CommandFailed, match="no bucket"):
        Deployment(
            place, lambda _: None, lambda _: "y", Script(**{"terraform untaint": Outcome(1, error="no bucket")})
        ).unlock()
    assert described("no bucket") == {}


def test_imports_that_a_killed_adopt_left_are_not_planned(
    place: deployment_target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment_steps, "build", lambda *_: [])
    left = place.infra / resource_adoption.FILE
    left.write_text("import {}")
    Deployment(place, lambda _: None, lambda _: "y", Script()).plan()
    assert not left.exists()


def test_a_bootstrap_that_was_killed_after_its_bucket_is_offered_again(place: deployment_target.Target) -> None:
    account = f"gcloud iam service-accounts describe {place.deployer}"
    script = Script(**{account: [Outcome(1, error="NOT_FOUND: Unknown service account"), place.deployer]})
    with pytest.raises(Aborted, match="the bootstrap was not finished"):
        Deployment(place, lambda _: None, lambda _: "y", Script(**{account: Outcome(1, error="NOT_FOUND")})).plan()
    assert Deployment(place, lambda _: None, lambda _: "y", script, base_url="http://x/").deploy()
    assert script.count("gcloud storage buckets create") == 0
    assert (script.count("gcloud storage buckets update"), script.count("terraform apply")) == (1, 2)
