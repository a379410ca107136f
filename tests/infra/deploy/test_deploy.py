"""`signalbox deploy` and what goes with it, typed in a clone: the real Terraform, on fakes of the cloud."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from signalbox_tools.deploy import deployment_target
from tests.infra.deploy.gcloud import PROJECT, Gcloud
from tests.infra.deploy.user_clone import PROJECT as ROOT
from tests.infra.deploy.user_clone import Clone
from tests.infra.google_provider.server import GoogleProvider

pytestmark = pytest.mark.slow

TO = f"PROJECT={PROJECT}"
BUILD = ROOT / "cloudbuild.yaml"


def named(kind: str, google: GoogleProvider) -> list[str]:
    return [name for existing, name in google.cloud.existing if existing == kind]


def test_the_build_file_is_one_that_cloud_build_takes() -> None:
    command: Sequence[str | Path] = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.cloudbuild")
    subprocess.run([*command, BUILD], check=True)


def test_the_images_of_the_build_are_of_exact_versions() -> None:
    exact = re.compile(r"[\w./-]+:\d+\.\d+\.\d+(-[a-z]+)?(@sha256:[0-9a-f]{64})?")
    assert [each["name"] for each in content()["steps"] if not exact.fullmatch(each["name"])] == []


def test_a_build_audits_its_packages_before_it_plans_and_keeps_their_list() -> None:
    steps = [each["id"] for each in content()["steps"]]
    assert steps.index("audit") < steps.index("sbom") < steps.index("package") < steps.index("plan")
    waits = {each["id"]: each.get("waitFor") for each in content()["steps"]}
    assert (waits["package"], waits["sbom"]) == (["sbom"], ["audit"])
    assert content()["artifacts"]["objects"]["paths"] == ["dist/sbom.json"]


def content() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(BUILD.read_text("utf-8"))
    return read


def test_everything_that_is_missing_is_reported_at_once_before_any_change(
    clone: Clone, gcloud: Gcloud, own_google: GoogleProvider
) -> None:
    gcloud.answer(
        **{
            f"billing projects describe {PROJECT}": {"billingEnabled": False},
            f"storage buckets describe gs://{PROJECT}-signalbox-state": None,
            "functions regions list": "europe-west1",
        }
    )
    catalogue = clone.folder / "infra" / "catalogue.yaml"
    catalogue.write_text(catalogue.read_text().replace("    function: sweep\n", "    function: sweeper\n"))
    stopped = clone.make("deploy", TO, "YES=1")
    wanted = (
        "Billing is off",
        f"signalbox bootstrap -p {PROJECT} -e dev --region us-central1",
        "us-central1 is not a region",
        "sweeper",
    )
    assert [text for text in wanted if text not in stopped.stdout] == []
    assert (stopped.returncode, own_google.cloud.operations) == (2, [])


def test_a_project_is_prepared_once(clone: Clone, gcloud: Gcloud, own_google: GoogleProvider) -> None:
    gcloud.answer(**{f"storage buckets describe gs://{PROJECT}-signalbox-state": None})
    assert clone.make("bootstrap", TO, "YES=1").returncode == 0
    created = [each for each in gcloud.asked if each[:3] == ["storage", "buckets", "create"]]
    assert [each[3] for each in created] == [f"gs://{deployment_target.read(PROJECT, 'dev').state_bucket}"]
    assert {"--uniform-bucket-level-access", "--public-access-prevention"} <= set(created[0])
    assert named("google_service_account", own_google)
    assert not list((clone.folder / "infra" / "bootstrap").glob("terraform.tfstate*"))
    operations = len(own_google.cloud.operations)
    gcloud.answer()
    shutil.rmtree(clone.folder / ".local")  # as on another machine
    again = clone.make("bootstrap", TO)
    assert (again.returncode, "No changes." in again.stdout) == (0, True), again.stdout
    assert len(own_google.cloud.operations) == operations
