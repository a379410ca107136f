"""`make deploy` and what goes with it, typed in a clone: the real Terraform, on stand-ins for the cloud."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from infra.catalogue import load
from infra.deploy import target
from tests.infra.deploy.build import build
from tests.infra.deploy.clone import PROJECT as ROOT
from tests.infra.deploy.clone import Clone
from tests.infra.deploy.gcloud import PROJECT, Gcloud
from tests.infra.google_provider.server import GoogleProvider

TO = f"PROJECT={PROJECT}"
SMOKE_STEPS = 8
FUNCTION = "google_cloudfunctions2_function"
BUILD = ROOT / "cloudbuild.yaml"


def named(kind: str, google: GoogleProvider) -> list[str]:
    return [name for existing, name in google.cloud.existing if existing == kind]


def run_build(kit: Clone, said: dict[str, str]) -> dict[str, int]:
    """Run the project's build; `said` gets what its steps print. The tests that it runs are a short selection."""

    def run(command: list[str], folder: str, environment: dict[str, str]) -> int:
        ended = kit.run(*command, folder=folder, **environment)
        said[" ".join(command)] = ended.stdout
        return ended.returncode

    content = yaml.safe_load(BUILD.read_text())
    return build(content, str(kit.folder), run, PROJECT_ID=PROJECT, _TEST_ARGS="tests/unit/test_paths.py")


def assert_names_agree(google: GoogleProvider) -> None:
    """Hold the names that are compared with a project beforehand to those that Terraform has given."""
    place, names = target.read(PROJECT, "dev"), list(load().functions)
    last = {kind: {name.rpartition("/")[2] for name in named(kind, google)} for kind, _ in google.cloud.existing}
    assert last[FUNCTION] == {place.service(name) for name in names}
    assert last["google_firestore_database"] == {place.database}
    accounts = {f"fn-{place.service(name)}@{PROJECT}.iam.gserviceaccount.com" for name in names}
    assert accounts - last["google_service_account"] == set()


@pytest.mark.timeout(240)
def test_a_build_deploys_what_then_answers_a_second_deployment_changes_nothing_and_it_can_be_destroyed(
    clone: Callable[..., Clone], google: GoogleProvider
) -> None:
    kit, said = clone(answering=True), dict[str, str]()
    ended = run_build(kit, said)
    assert ended == dict.fromkeys(["gcloud", "terraform", "test", "package", "plan", "deploy"], 0), said
    *_, deployed = said.values()
    assert deployed.count("\n  ok ") == SMOKE_STEPS
    assert_names_agree(google)

    operations = len(google.cloud.operations)
    again = kit.make("deploy", TO)
    assert (again.returncode, "No changes." in again.stdout) == (0, True), again.stdout
    assert len(google.cloud.operations) == operations

    destroyed = kit.make("destroy", TO, "CONFIRM=dev")
    assert (destroyed.returncode, "What stays:" in destroyed.stdout) == (0, True), destroyed.stdout
    assert named(FUNCTION, google) == []


def test_the_build_file_is_one_that_cloud_build_takes() -> None:
    command: Sequence[str | Path] = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.cloudbuild")
    subprocess.run([*command, BUILD], check=True)


def test_everything_that_is_missing_is_said_at_once_before_anything_is_changed(
    clone: Callable[..., Clone], gcloud: Gcloud, google: GoogleProvider
) -> None:
    gcloud.answer(
        **{
            f"billing projects describe {PROJECT}": {"billingEnabled": False},
            f"storage buckets describe gs://{PROJECT}-signalbox-state": None,
            "functions regions list": "europe-west1",
        }
    )
    kit = clone()
    catalogue = kit.folder / "infra" / "catalogue.yaml"
    catalogue.write_text(catalogue.read_text().replace("    function: sweep\n", "    function: sweeper\n"))
    stopped = kit.make("deploy", TO, "YES=1")
    wanted = ("Billing is off", f"make bootstrap {TO} REGION=us-central1", "us-central1 is no region", "sweeper")
    assert [text for text in wanted if text not in stopped.stdout] == []
    assert (stopped.returncode, google.cloud.operations) == (2, [])


def test_a_project_is_prepared_once(clone: Callable[..., Clone], gcloud: Gcloud, google: GoogleProvider) -> None:
    gcloud.answer(**{f"storage buckets describe gs://{PROJECT}-signalbox-state": None})
    kit = clone()
    assert kit.make("bootstrap", TO, "YES=1").returncode == 0
    assert named("google_storage_bucket", google) == [target.read(PROJECT, "dev").state_bucket]
    operations = len(google.cloud.operations)
    again = kit.make("bootstrap", TO)
    assert (again.returncode, "No changes." in again.stdout) == (0, True), again.stdout
    assert len(google.cloud.operations) == operations
