"""A budget of the project warns where it is wanted. A deployment neither reads nor changes it: its account may not."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Workspace, by_address

pytestmark = pytest.mark.slow

ACCOUNT = "0123AB-CDEF01-234567"
CHANNEL = "projects/demo-project/notificationChannels/123"
WANTED = (f"-var=billing_account={ACCOUNT}", "-var=budget=20", f'-var=budget_channels=["{CHANNEL}"]')


@pytest.fixture(scope="module")
def prepared(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with GoogleProvider() as google:
        made = Workspace(tmp_path_factory.mktemp("budget"), google, zips)
        made.run("-chdir=bootstrap", "init", "-input=false")
        yield made


def bootstrap(workspace: Workspace, *variables: str) -> None:
    command = ("-chdir=bootstrap", "apply", "-input=false", "-auto-approve", "-var=project_id=demo-project")
    workspace.run(*command, *variables)


def test_the_bootstrap_makes_a_budget_of_the_project_alone_and_only_if_it_is_wanted(prepared: Workspace) -> None:
    bootstrap(prepared)
    assert "google_billing_budget" not in {each.kind for each in prepared.resources("bootstrap").values()}
    bootstrap(prepared, *WANTED)
    made = by_address(prepared.shown("bootstrap")["values"])
    budget = made['google_billing_budget.budget["project"]'].values
    [filtered], [amount] = budget["budget_filter"], budget["amount"]
    assert budget["billing_account"] == ACCOUNT
    [project] = filtered["projects"]
    assert re.fullmatch(r"projects/\d+", project)
    assert amount["specified_amount"][0]["units"] == "20"
    assert sorted(each["threshold_percent"] for each in budget["threshold_rules"]) == [0.5, 0.9, 1, 1]
    assert budget["all_updates_rule"][0]["monitoring_notification_channels"] == [CHANNEL]
    assert made['google_project_service.budgets["project"]'].values["service"] == "billingbudgets.googleapis.com"


def test_a_deployment_has_no_budget_which_its_account_could_not_read(prepared: Workspace) -> None:
    files = [path.read_text("utf-8") for path in prepared.infra.glob("*.tf")]
    assert not any("billing" in text for text in files)
