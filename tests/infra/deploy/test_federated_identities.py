"""A person who signed in through a workforce pool is named as IAM does, and learns why the smoke test cannot call."""

import pytest

from signalbox_tools.deploy import deployment_target
from signalbox_tools.deploy.deployment_client import tokens
from signalbox_tools.deploy.prerequisites import member
from signalbox_tools.deploy.programs import CommandFailed
from tests.infra.deploy.scripted_programs import Script

ANN = "principal://iam.googleapis.com/locations/global/workforcePools/staff/subject/ann@example.com"


@pytest.mark.parametrize(
    ("account", "named"),
    [
        (ANN, ANN),
        ("ann@example.com", "user:ann@example.com"),
        ("ci@p.iam.gserviceaccount.com", "serviceAccount:ci@p.iam.gserviceaccount.com"),
    ],
)
def test_an_account_is_named_as_iam_names_it(account: str, named: str) -> None:
    assert member(account) == named


def test_an_identity_without_a_token_is_told_to_call_as_another_account() -> None:
    with pytest.raises(CommandFailed, match="gcloud config set auth/impersonate_service_account signalbox-deployer@"):
        tokens(
            deployment_target.read("demo-project", "dev"), ANN, Script(**{"gcloud auth print-identity-token": None})
        )("https://shop.example")
