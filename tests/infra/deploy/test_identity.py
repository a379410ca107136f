"""Terraform calls Google as gcloud's account, so one login is enough."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from signalbox.catalogue.project import KIT
from signalbox_tools.deploy import deployment_target, terraform, working_copy
from signalbox_tools.deploy.programs import CommandFailed, Outcome
from signalbox_tools.deploy.terraform_identity import GIVEN, credentials
from tests.infra.deploy.gcloud import ACCOUNT, PROJECT
from tests.infra.deploy.scripted_programs import Script

DEV = deployment_target.read(PROJECT, "dev")


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GIVEN, raising=False)


def test_a_persons_calls_take_gclouds_token_and_count_against_the_project() -> None:
    assert credentials(DEV, ACCOUNT, Script())() == {
        GIVEN: "a-token",
        "USER_PROJECT_OVERRIDE": "true",
        "GOOGLE_BILLING_PROJECT": PROJECT,
    }


def test_a_service_accounts_calls_count_against_its_own_project() -> None:
    assert credentials(DEV, f"deployer@{PROJECT}.iam.gserviceaccount.com", Script())() == {GIVEN: "a-token"}


def test_every_command_takes_a_new_token_and_one_that_was_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    sign_in = credentials(DEV, ACCOUNT, script)
    sign_in()
    sign_in()
    assert script.asked == ["gcloud auth print-access-token"] * 2
    monkeypatch.setenv(GIVEN, "mine")
    assert GIVEN not in sign_in()
    assert len(script.asked) == 2


def test_without_a_token_gclouds_own_message_is_raised() -> None:
    with pytest.raises(CommandFailed, match="refused"):
        credentials(DEV, ACCOUNT, Script(**{"gcloud auth print-access-token": None}))()


class FirstInit(Script):
    """A Terraform that finds no lock file, and writes one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(**{"terraform providers lock": ""})
        self.folder = folder

    def __call__(self, command: Sequence[str], **options: object) -> Outcome:
        if command[1] == "init":
            (self.folder / working_copy.LOCK_FILE).touch()
        return super().__call__(command, **options)


def test_a_first_init_locks_the_provider_for_all_platforms_and_a_later_one_leaves_it(tmp_path: Path) -> None:
    script = FirstInit(tmp_path)
    engine = terraform.Terraform(tmp_path, tmp_path / "data", [], script, dict)
    assert (engine.init("bucket=b"), engine.init("bucket=b")) == (True, False)
    [locked] = [each for each in script.asked if "providers lock" in each]
    assert locked.count("-platform=") == len(terraform.PLATFORMS)
    assert (tmp_path / "plugins").is_dir()


def test_a_person_locks_the_provider_for_the_same_platforms() -> None:
    dry = subprocess.run(["make", "-n", "providers"], cwd=KIT.root, capture_output=True, text=True, check=True).stdout
    assert "for folder in infra infra/bootstrap; do terraform -chdir=$folder providers lock" in dry
    assert tuple(re.findall(r"-platform=(\w+)", dry)) == terraform.PLATFORMS
