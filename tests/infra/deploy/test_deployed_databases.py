"""`signalbox` deploys the functions of each database as a deployment of its own, with the real Terraform."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.infra.deploy.gcloud import PROJECT, Gcloud
from tests.infra.deploy.user_clone import fake_environment
from tests.infra.google_provider.server import GoogleProvider
from tests.unit.catalogue.test_databases import project

pytestmark = [pytest.mark.marathon, pytest.mark.timeout(1_500)]

SECONDS_MAX = 600
FUNCTION = "google_cloudfunctions2_function"
FIRST = {"dev-orders", "dev-sweep", "dev-link-fan-out", "dev-link-refresh", "dev-link-verify", "dev-verifications"}
PAYMENTS = {"dev-payments-cards", "dev-payments-sweep", "dev-payments-semaphore-admit"}


class Shop:
    """A project with two databases, and the commands that run in it."""

    def __init__(self, folder: Path, google: GoogleProvider, gcloud: Gcloud, state_url: str) -> None:
        self.folder, self.google, self._gcloud = folder, google, gcloud
        fakes = fake_environment(google.environment(), gcloud.folder / "bin", state_url, "")
        self._variables = {**os.environ, **fakes, "TF_VAR_rights_seconds": "0"}

    def run(self, *arguments: str) -> str:
        command = (sys.executable, "-m", "signalbox_tools", *arguments)
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    def list_functions(self) -> None:
        """Have gcloud list the functions that are deployed, those of the first database."""
        labels = {"app": "signalbox", "environment": "dev"}  # by the provider's settings, which this one leaves out
        listed = [
            {"name": each["id"], "labels": each["effective_labels"] | labels, "state": "ACTIVE"}
            for (kind, _), each in self.google.cloud.existing.items()
            if kind == FUNCTION
        ]
        self._gcloud.answer(**{"functions list --v2 --regions=-": listed})

    def names(self, kind: str) -> set[str]:
        return {name.rpartition("/")[2] for each, name in self.google.cloud.existing if each == kind}


@pytest.fixture
def shop(tmp_path: Path, own_google: GoogleProvider, gcloud: Gcloud, state_url: str) -> Shop:
    project(tmp_path / "shop")
    return Shop(tmp_path / "shop", own_google, gcloud, state_url)


def test_the_databases_of_an_environment_are_planned_together_and_destroyed_one_by_one(shop: Shop) -> None:
    planned = shop.run("plan", "-p", PROJECT)
    assert "--- the database payments ---" in planned
    assert shop.google.cloud.operations == []
    shop.run("adopt", "-p", PROJECT, "--yes")
    shop.list_functions()
    shop.run("adopt", "-p", PROJECT, "-e", "dev.payments", "--yes")
    assert shop.names(FUNCTION) == FIRST | PAYMENTS
    assert shop.names("google_firestore_database") == {"signalbox-dev", "signalbox-dev-payments"}
    assert (shop.folder / "signalbox.payments.lock.yaml").is_file()
    again = shop.run("plan", "-p", PROJECT)
    assert again.count("No changes.") == 2, again
    destroyed = shop.run("destroy", "-p", PROJECT, "-e", "dev.payments", "--confirm", "dev.payments")
    assert "separate deployment" not in destroyed
    assert shop.names(FUNCTION) == FIRST
    assert "signalbox destroy -e dev.payments" in shop.run("destroy", "-p", PROJECT, "--confirm", "dev")
