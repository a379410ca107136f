"""The database is exported to a bucket in another location, where that is wanted, and a failure is noticed."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from signalbox_tools.deploy import deployment_target
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.lost_tasks import refuse_lost_data
from signalbox_tools.deploy.plan_summary import read
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.google_provider.service_requirements import NAMES
from tests.infra.workspace import INFRA, Resource, Workspace

pytestmark = pytest.mark.slow

BUCKET = "demo-project-signalbox-exports"
ACCOUNT = "serviceAccount:kit-exports@demo-project.iam.gserviceaccount.com"
MINUTES_MAX = 25 * 60
"""The longest window of an alert, with the time for which its condition must hold."""


@pytest.fixture(scope="module")
def exporting(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with GoogleProvider() as google:
        made = Workspace(tmp_path_factory.mktemp("exports"), google, zips, exports={"bucket_location": "us-east4"})
        made.initialise()
        made.apply()
        yield made


@pytest.fixture(scope="module")
def made(exporting: Workspace) -> Mapping[str, Resource]:
    return exporting.resources()


def test_an_export_begins_each_night_and_goes_to_the_other_location(made: Mapping[str, Resource]) -> None:
    job = made['google_cloud_scheduler_job.export["database"]'].values
    [target] = job["http_target"]
    [token] = target["oauth_token"]
    assert (job["name"], job["schedule"], job["time_zone"]) == ("signalbox-export", "0 3 * * *", "Etc/UTC")
    assert target["uri"] == (
        "https://firestore.googleapis.com/v1/projects/demo-project/databases/signalbox-prod:exportDocuments"
    )
    assert json.loads(base64.b64decode(target["body"])) == {"outputUriPrefix": f"gs://{BUCKET}"}
    assert token["scope"] == "https://www.googleapis.com/auth/cloud-platform"


def test_old_exports_are_deleted_and_those_of_prod_outlive_the_deployment(made: Mapping[str, Resource]) -> None:
    bucket = made['google_storage_bucket.exports["database"]'].values
    [rule] = bucket["lifecycle_rule"]
    assert (bucket["name"], bucket["location"], bucket["public_access_prevention"]) == (BUCKET, "us-east4", "enforced")
    assert (rule["action"][0]["type"], rule["condition"][0]["age"]) == ("Delete", 7)
    assert bucket["soft_delete_policy"][0]["retention_duration_seconds"] == 0
    assert (bucket["deletion_policy"], bucket["force_destroy"]) == ("ABANDON", False)


def test_the_account_of_exports_may_export_this_database_into_this_bucket_and_do_nothing_else(
    made: Mapping[str, Resource],
) -> None:
    granted = [
        (each.kind, each.values)
        for each in made.values()
        if "_iam_" in each.kind and ACCOUNT in (each.values.get("member"), *(each.values.get("members") or ()))
    ]
    assert sorted((kind, values["role"]) for kind, values in granted) == [
        ("google_project_iam_member", "roles/datastore.importExportAdmin"),
        ("google_storage_bucket_iam_member", "roles/storage.admin"),
    ]
    rights = {values["role"]: values for _, values in granted}
    [condition] = rights["roles/datastore.importExportAdmin"]["condition"]
    assert condition["expression"] == 'resource.name == "projects/demo-project/databases/signalbox-prod"'
    assert rights["roles/storage.admin"]["bucket"] == BUCKET


def test_a_build_may_grant_the_role_and_create_the_schedule(made: Mapping[str, Resource]) -> None:
    assert 'google_service_account_iam_member.builder_acts_as["kit-exports"]' in made
    assert '"roles/datastore.importExportAdmin"' in (INFRA / "bootstrap" / "deployer.tf").read_text("utf-8")


def test_a_refused_call_a_failed_export_and_a_day_without_one_raise_an_alert(made: Mapping[str, Resource]) -> None:
    policies = {each.values["display_name"]: each.values for each in made.values() if "alert_policy" in each.kind}
    refused = _filter(policies["signalbox: A schedule's call failed"], "condition_matched_log")
    failed = _filter(policies["signalbox: An export failed"], "condition_matched_log")
    paused = _filter(policies["signalbox: A queue or a schedule was paused"], "condition_matched_log")
    assert '"signalbox-export"' in refused
    assert "FirestoreAdmin.ExportDocuments" in failed
    assert '"/databases/signalbox-prod$" AND severity>="ERROR"' in failed
    assert "|signalbox-export)" in paused
    [missing] = policies["signalbox: Exports are missing"]["conditions"][0]["condition_threshold"]
    [window] = missing["aggregations"]
    minutes = sum(int(each.removesuffix("s")) for each in (window["alignment_period"], missing["duration"])) / 60
    assert minutes == MINUTES_MAX
    assert (missing["comparison"], missing["evaluation_missing_data"]) == (
        "COMPARISON_LT",
        "EVALUATION_MISSING_DATA_ACTIVE",
    )
    assert f'bucket_name="{BUCKET}"' in missing["filter"]


def test_the_page_of_operations_has_a_row_for_each_of_their_alerts(made: Mapping[str, Resource]) -> None:
    page = (INFRA.parent / "docs" / "operations.md").read_text("utf-8")
    for name in ("An export failed", "Exports are missing"):
        [policy] = [each.values for each in made.values() if each.values.get("display_name") == f"signalbox: {name}"]
        assert f"| {name} | {policy['severity']} |" in page
        assert f'row "{name}"' in policy["documentation"][0]["content"]


def test_exports_that_are_not_daily_have_no_alert_on_a_day_without_one(exporting: Workspace) -> None:
    """The window of an alert has 25 hours at most, so a week without an export cannot be told from the others."""
    weekly = {"bucket_location": "us", "schedule": "0 3 * * 0"}
    exporting.plan(exports=weekly)
    assert not any("no_exports" in address for address in exporting.planned())


@pytest.mark.parametrize(
    "place",
    [
        {"exports": {"bucket_location": "us-central1"}},
        {"exports": {"bucket_location": "europe-west1"}, "region": "europe-west1", "database_location": "eur3"},
    ],
)
def test_a_bucket_where_the_database_or_the_functions_are_is_refused(
    exporting: Workspace, place: dict[str, Any]
) -> None:
    refused = exporting.plan(check=False, **place)
    assert "Exports are for the outage of that location: choose another one." in " ".join(refused.stderr.split())


def test_another_location_is_refused_since_the_exports_would_be_lost(exporting: Workspace) -> None:
    exporting.plan(exports={"bucket_location": "us-west1"})
    plan = read(json.loads(exporting.run("show", "-json", "planned").stdout))
    place = deployment_target.read("demo-project", "prod", root=exporting.infra.parent)
    with pytest.raises(Aborted, match=f"replaces the bucket {BUCKET}, with all exports in it") as stopped:
        refuse_lost_data(place, plan)
    assert '"bucket_location": "us-east4"' in str(stopped.value)


def test_by_default_nothing_is_exported(resources: Mapping[str, Resource]) -> None:
    assert [address for address in resources if "export" in address] == []


def test_the_longest_project_and_prefix_fit_into_the_buckets_name() -> None:
    [bound] = re.findall(r"length\(var\.prefix\) <= (\d+)", (INFRA / "variables.tf").read_text("utf-8"))
    [name] = re.findall(r'name += "\$\{var.project_id\}-(.*)"', (INFRA / "exports.tf").read_text("utf-8"))
    longest = f"{'p' * 30}-{name.replace('${local.name_prefix}', 'x' * int(bound) + '-')}"
    assert re.fullmatch(NAMES["google_storage_bucket"]["name"], longest)


def _filter(policy: Mapping[str, Any], kind: str) -> str:
    [condition] = policy["conditions"]
    found: str = condition[kind][0]["filter"]
    return found
