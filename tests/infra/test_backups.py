"""Prod's data is copied, where that is wanted."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from signalbox_tools.deploy import deployment_target
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.lost_tasks import refuse_lost_data
from signalbox_tools.deploy.plan_summary import read
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Resource, Workspace

pytestmark = pytest.mark.slow


def test_prod_is_copied_every_day_and_every_week(resources: Mapping[str, Resource]) -> None:
    daily = resources["google_firestore_backup_schedule.daily[0]"].values
    weekly = resources["google_firestore_backup_schedule.weekly[0]"].values
    assert (daily["database"], weekly["database"]) == ("signalbox-prod", "signalbox-prod")
    assert (len(daily["daily_recurrence"]), daily["retention"]) == (1, f"{7 * 86400}s")
    assert (weekly["weekly_recurrence"][0]["day"], weekly["retention"]) == ("SUNDAY", f"{98 * 86400}s")


def test_destroying_prod_takes_nothing_off_its_data(resources: Mapping[str, Resource], with_options: Workspace) -> None:
    """The database stays, and so do its indexes, its times to live and what copies it."""
    kept = {each.values["deletion_policy"] for each in resources.values() if each.kind.startswith("google_firestore")}
    assert kept == {"ABANDON"}
    dev = [each for each in with_options.resources().values() if each.kind.startswith("google_firestore")]
    fields = [each for each in dev if each.kind == "google_firestore_field"]
    assert {each.values["deletion_policy"] for each in fields if not each.values["ttl_config"]} == {"ABANDON"}
    assert {each.values["deletion_policy"] for each in fields if each.values["ttl_config"]} == {"DELETE"}
    assert {each.values["deletion_policy"] for each in dev if each not in fields} == {"DELETE"}


def test_prods_data_keeps_its_protection_if_its_file_says_that_it_is_dev(deployed: Workspace) -> None:
    """With an explicit name, the database stays the same, and only its protection would go."""
    deployed.plan(environment="dev", database="signalbox-prod")
    plan = read(json.loads(deployed.run("show", "-json", "planned").stdout))
    place = deployment_target.read("demo-project", "prod", root=deployed.infra.parent)
    with pytest.raises(Aborted, match="takes the protection against deletion and point-in-time recovery off the data"):
        refuse_lost_data(place, plan)


def test_without_backups_there_are_none(google: GoogleProvider, zips: Path, tmp_path: Path) -> None:
    made = Workspace(tmp_path, google, zips, named="dev")
    made.initialise()
    made.plan()
    kinds = {each.kind for each in made.planned().values()}
    assert "google_firestore_backup_schedule" not in kinds


def test_the_database_is_encrypted_with_the_chosen_key_and_each_access_is_logged(
    google: GoogleProvider, zips: Path, tmp_path: Path
) -> None:
    key = "projects/demo-keys/locations/us/keyRings/ring/cryptoKeys/key"
    made = Workspace(tmp_path, google, zips, database_location="nam5", cmek_key=key, data_access_logs=True)
    made.initialise()
    made.plan()
    planned = made.planned()
    assert (
        planned['google_firestore_database.database["signalbox-prod"]'].values["cmek_config"][0]["kms_key_name"] == key
    )
    logged = planned["google_project_iam_audit_config.data_access[0]"].values
    assert logged["service"] == "datastore.googleapis.com"
    elsewhere = " ".join(made.plan(check=False, cmek_key=key.replace("us", "europe")).stderr.split())
    assert "cmek_key must be in us." in elsewhere
    assert {each["log_type"] for each in logged["audit_log_config"]} == {"ADMIN_READ", "DATA_READ", "DATA_WRITE"}


def test_by_default_there_is_neither_key_nor_log_of_access(resources: Mapping[str, Resource]) -> None:
    assert resources['google_firestore_database.database["signalbox-prod"]'].values["cmek_config"] == []
    assert "google_project_iam_audit_config.data_access[0]" not in resources
