"""The same data served from another region: a second deployment on a database that it does not own."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import INFRA, Resource, Workspace

pytestmark = pytest.mark.slow

DATABASE = "signalbox-prod"
FIRST = {"region": "us-central1", "database_location": "nam5"}
OTHER = {"region": "us-east4", "database_location": "nam5", "prefix": "east", "database": DATABASE}


@pytest.fixture(scope="module")
def both(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Workspace]]:
    """Deploy in one region, then in the other with a separate state and environment file."""
    with GoogleProvider() as google, GoogleProvider() as elsewhere:
        first = Workspace(tmp_path_factory.mktemp("first"), google, zips, **FIRST)
        other = Workspace(
            tmp_path_factory.mktemp("other"), elsewhere, zips, **OTHER, create_database=False, backups=False
        )
        for each in (first, other):
            each.initialise()
            each.apply()
        yield first, other


@pytest.fixture(scope="module")
def moved(both: tuple[Workspace, Workspace]) -> Mapping[str, Resource]:
    return both[1].resources()


def of(resources: Mapping[str, Resource], kind: str) -> list[dict[str, Any]]:
    return [each.values for each in resources.values() if each.kind == kind]


def test_functions_and_queues_are_in_the_other_region(moved: Mapping[str, Resource]) -> None:
    for kind in ("google_cloudfunctions2_function", "google_cloud_tasks_queue"):
        assert {each["location"] for each in of(moved, kind)} == {"us-east4"}


def test_they_use_the_same_database_and_do_not_own_it(moved: Mapping[str, Resource]) -> None:
    assert of(moved, "google_firestore_database") == []
    [trigger] = moved['module.function["link_fan_out"].google_cloudfunctions2_function.function'].values[
        "event_trigger"
    ]
    assert trigger["trigger_region"] == "nam5"
    services = [each["service_config"][0] for each in of(moved, "google_cloudfunctions2_function")]
    assert {each["environment_variables"]["SIGNALBOX_DATABASE"] for each in services} == {DATABASE}


def test_no_name_of_the_first_deployment_is_taken(both: tuple[Workspace, Workspace]) -> None:
    """Names of accounts, functions and queues: those of the first may still exist, and cannot be deleted."""
    for kind, field in (
        ("google_service_account", "account_id"),
        ("google_cloudfunctions2_function", "name"),
        ("google_cloud_tasks_queue", "name"),
        ("google_storage_bucket", "name"),
        ("google_artifact_registry_repository", "repository_id"),
    ):
        first, other = ({each[field] for each in of(workspace.resources(), kind)} for workspace in both)
        assert first
        assert first.isdisjoint(other), kind


def test_the_page_names_the_settings_that_were_applied() -> None:
    page = (INFRA.parent / "docs" / "region-outage.md").read_text("utf-8")
    [file] = re.findall(r"```json\n({.*?)```", page, re.DOTALL)
    assert json.loads(file) == {"environment": "prod", **OTHER, "create_database": False, "backups": False}
