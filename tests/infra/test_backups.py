"""Prod's data is copied, and a budget warns, where they are wanted."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Resource, Workspace

ACCOUNT = "0123AB-CDEF01-234567"


@pytest.fixture(scope="module")
def warned(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Return a deployment with a budget."""
    with GoogleProvider() as google:
        made = Workspace(tmp_path_factory.mktemp("warned"), google, zips, billing_account=ACCOUNT, budget=20)
        made.initialise()
        made.apply()
        yield made


def test_prod_is_copied_every_day_and_every_week(resources: Mapping[str, Resource]) -> None:
    daily = resources["google_firestore_backup_schedule.daily[0]"].values
    weekly = resources["google_firestore_backup_schedule.weekly[0]"].values
    assert (daily["database"], weekly["database"]) == ("signalbox-prod", "signalbox-prod")
    assert (len(daily["daily_recurrence"]), daily["retention"]) == (1, f"{7 * 86400}s")
    assert (weekly["weekly_recurrence"][0]["day"], weekly["retention"]) == ("SUNDAY", f"{98 * 86400}s")


def test_without_backups_and_billing_account_there_are_none(google: GoogleProvider, zips: Path, tmp_path: Path) -> None:
    made = Workspace(tmp_path, google, zips, named="dev")
    made.initialise()
    made.plan()
    kinds = {each.kind for each in made.planned().values()}
    assert not kinds & {"google_firestore_backup_schedule", "google_billing_budget"}


def test_a_budget_covers_the_project_alone_and_tells_whom_the_alerts_tell(warned: Workspace) -> None:
    made = warned.resources()
    budget = made['google_billing_budget.budget["project"]'].values
    [filtered], [amount] = budget["budget_filter"], budget["amount"]
    assert budget["billing_account"] == ACCOUNT
    assert [each.startswith("projects/") and each.rpartition("/")[2].isdigit() for each in filtered["projects"]] == [
        True
    ]
    assert amount["specified_amount"][0]["units"] == "20"
    assert sorted(each["threshold_percent"] for each in budget["threshold_rules"]) == [0.5, 0.9, 1, 1]
    channel = made['google_monitoring_notification_channel.email["email"]'].values["id"]
    assert budget["all_updates_rule"][0]["monitoring_notification_channels"] == [channel]


def test_what_was_applied_leaves_nothing_to_do(warned: Workspace) -> None:
    assert not warned.differs()
