"""No browser reaches the database directly: its rules permit nothing, also in a database that was restored."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Resource, Workspace

pytestmark = pytest.mark.slow

RELEASE, RULESET = "google_firebaserules_release.denied", "google_firebaserules_ruleset.denied"


def test_the_rules_of_the_database_permit_nothing(resources: Mapping[str, Resource]) -> None:
    release, ruleset = resources[RELEASE].values, resources[RULESET].values
    assert release["name"] == "cloud.firestore/signalbox-prod"
    assert release["ruleset_name"] == f"projects/demo-project/rulesets/{ruleset['name']}"
    [source] = ruleset["source"]
    rules = " ".join(source["files"][0]["content"].split())
    assert rules == (
        "rules_version = '2'; service cloud.firestore { match /databases/{database}/documents "
        "{ match /{document=**} { allow read, write: if false; } } }"
    )
    assert (release["deletion_policy"], ruleset["deletion_policy"]) == ("ABANDON", "ABANDON")


@pytest.mark.parametrize(
    ("database", "name"),
    [
        ("signalbox-prod-20260502-0300", "cloud.firestore/signalbox-prod-20260502-0300"),
        ("(default)", "cloud.firestore"),
    ],
    ids=["restored", "default"],
)
def test_a_database_that_exists_gets_the_rules_too(
    google: GoogleProvider, zips: Path, tmp_path: Path, database: str, name: str
) -> None:
    made = Workspace(tmp_path, google, zips, database=database, create_database=False)
    made.initialise()
    made.plan()
    assert made.planned()[RELEASE].values["name"] == name
