"""A catalogue with `payloads: true`: a bucket for large values, which functions write and the sweeper deletes."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from signalbox.adapters.settings import from_environment
from signalbox.catalogue.reading import load
from tests.infra import applied_state
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Resource, Workspace

pytestmark = pytest.mark.slow

BUCKET = "google_storage_bucket.payloads[0]"
KEY = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"


def with_payloads(catalogue: dict[str, Any]) -> None:
    catalogue["payloads"] = True


@pytest.fixture(scope="module")
def applied(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with GoogleProvider() as google:
        made = Workspace(tmp_path_factory.mktemp("payloads"), google, zips, cmek_key=KEY)
        made.edit_catalogue(with_payloads)
        made.initialise()
        made.apply()
        yield made


@pytest.fixture(scope="module")
def resources(applied: Workspace) -> Mapping[str, Resource]:
    return applied.resources()


def test_the_bucket_is_private_and_encrypted_as_the_database_is(resources: Mapping[str, Resource]) -> None:
    bucket = resources[BUCKET].values
    assert (bucket["public_access_prevention"], bucket["uniform_bucket_level_access"]) == ("enforced", True)
    assert [each["default_kms_key_name"] for each in bucket["encryption"]] == [KEY]
    assert bucket["soft_delete_policy"][0]["retention_duration_seconds"] == 7 * 24 * 3600


def test_only_payloads_of_tasks_are_deleted_by_their_age(resources: Mapping[str, Resource]) -> None:
    [rule] = resources[BUCKET].values["lifecycle_rule"]
    [condition] = rule["condition"]
    assert (condition["age"], condition["matches_prefix"]) == (130, ["tasks/"])


def test_functions_create_and_read_and_only_the_account_of_the_sweeper_deletes(
    resources: Mapping[str, Resource],
) -> None:
    rights = [each.values for each in resources.values() if each.kind == "google_storage_bucket_iam_member"]
    deleters = {right["member"].split("@")[0] for right in rights if right["role"] == "roles/storage.objectUser"}
    creators = {right["member"].split("@")[0] for right in rights if right["role"] == "roles/storage.objectCreator"}
    readers = {right["member"].split("@")[0] for right in rights if right["role"] == "roles/storage.objectViewer"}
    assert deleters == {"serviceAccount:kit-functions"}
    assert creators == readers
    assert "serviceAccount:fn-quilt" in creators


def test_every_function_knows_the_bucket(applied: Workspace, resources: Mapping[str, Resource]) -> None:
    folders = {name: function.folder for name, function in load().functions.items()}
    found = applied_state.read(json.loads(json.dumps(applied.shown())), folders, load().root)
    name = resources[BUCKET].values["name"]
    assert {from_environment(each).payloads for each in found.environments.values()} == {f"gs://{name}"}
