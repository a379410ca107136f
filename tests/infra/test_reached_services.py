"""What a deployment needs around it: APIs, whom Terraform's calls count against, time to build, Cloud Shell."""

import re
from collections.abc import Mapping

import pytest
import yaml

from signalbox_tools.deploy.project_facts import APIS, EVENTS_APIS
from tests.infra.google_provider.service_requirements import API_OF
from tests.infra.workspace import INFRA, Resource

pytestmark = pytest.mark.slow

PROJECT = INFRA.parent


def test_the_apis_of_all_that_is_made_and_of_events_are_enabled(resources: Mapping[str, Resource]) -> None:
    needed = {api for each in resources.values() for api in API_OF.get(each.kind, ())}
    assert needed <= APIS | EVENTS_APIS
    assert {"eventarc.googleapis.com", "eventarcpublishing.googleapis.com", "pubsub.googleapis.com"} == EVENTS_APIS


def test_a_persons_calls_of_the_api_of_budgets_count_against_the_project() -> None:
    versions = (INFRA / "bootstrap" / "budget.tf").read_text("utf-8")
    assert re.search(r"user_project_override\s*=\s*true", versions)
    assert re.search(r"billing_project\s*=\s*var\.project_id", versions)


def test_a_build_has_two_hours_and_its_log_can_be_followed() -> None:
    assert yaml.safe_load((PROJECT / "cloudbuild.yaml").read_text("utf-8"))["timeout"] == "7200s"
    page = (INFRA / "README.md").read_text("utf-8")
    assert all(command in page for command in ("gcloud beta builds submit", "gcloud beta builds log"))


def test_the_readme_opens_cloud_shell() -> None:
    assert "https://shell.cloud.google.com/cloudshell/open" in (PROJECT / "README.md").read_text("utf-8")
