"""The stand-in reads as Google answers, and its schema is that of the provider which the files demand."""

import json

import pytest

from tests.infra.google_provider import values_read_back
from tests.infra.google_provider.renew_schema import renewed
from tests.infra.google_provider.server import SCHEMA
from tests.infra.google_provider.servicer import replaced_by
from tests.infra.test_google_provider import FUNCTION, SERVICE, value
from tests.infra.workspace import INFRA

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("given", "shown"), [("0.2s", "0.200s"), ("60s", "60s"), ("60.0s", "60s"), ("0.0001s", "0.000100s")]
)
def test_a_duration_is_read_back_in_googles_form(given: str, shown: str) -> None:
    queue = value("google_cloud_tasks_queue", ("retry_config",), min_backoff=given)
    assert values_read_back.read("google_cloud_tasks_queue", queue)["retry_config"][0]["min_backoff"] == shown


def test_a_dashboard_is_read_back_without_zeros() -> None:
    tile = {"xPos": 0, "yPos": 4, "widget": {"title": "", "lines": [0, 1]}}
    dashboard = value("google_monitoring_dashboard", dashboard_json=json.dumps({"tiles": [tile]}))
    shown = values_read_back.read("google_monitoring_dashboard", dashboard)["dashboard_json"]
    assert json.loads(shown) == {"tiles": [{"yPos": 4, "widget": {"lines": [0, 1]}}]}


def test_what_google_adds_to_a_function_is_kept_by_a_plan() -> None:
    function = value(FUNCTION, SERVICE, environment_variables={"A": "1"}) | {"effective_labels": {"app": "x"}}
    shown = values_read_back.read(FUNCTION, function)
    assert shown["service_config"][0]["environment_variables"] == {"A": "1", "LOG_EXECUTION_ID": "true"}
    assert shown["effective_labels"] == {"app": "x"} | values_read_back.FUNCTION_LABELS
    values_read_back.kept(FUNCTION, shown, function)
    assert function["service_config"] == shown["service_config"]


def test_the_schema_is_of_the_version_that_the_files_demand() -> None:
    version = json.loads(SCHEMA.read_text("utf-8"))["provider_version"]
    for file in ("versions.tf", "bootstrap/main.tf"):
        assert f'version = "{version}"' in (INFRA / file).read_text("utf-8"), "renew_schema.py renews the schema"


def test_the_source_of_an_object_replaces_it_and_its_digest_does_not() -> None:
    object_ = "google_storage_bucket_object"
    before = value(object_, name="a", bucket="b", source="a.zip", source_md5hash="1")
    assert replaced_by(object_, before, before | {"source_md5hash": "2"}) == []
    assert replaced_by(object_, before, before | {"source": "b.zip"}) == ["source"]


def test_a_schema_that_is_printed_becomes_the_one_that_is_kept() -> None:
    kept = json.loads(SCHEMA.read_text("utf-8"))
    resource = {"block": {"attributes": {"name": {"type": "string", "required": True, "description": "long"}}}}
    printed = {
        "provider_schemas": {
            "registry.terraform.io/hashicorp/google": {
                "provider": {"block": {"attributes": {"project": {"type": "string", "optional": True}}}},
                "resource_schemas": dict.fromkeys([*kept["resources"], "google_unused"], resource),
                "data_source_schemas": dict.fromkeys(kept["data_sources"], resource),
            }
        }
    }
    made = renewed(printed, "8.8.0", kept)
    assert (made["provider_version"], made["attribution"]) == ("8.8.0", kept["attribution"])
    assert set(made["resources"]) == set(kept["resources"])
    assert made["resources"]["google_project_service"] == {"attributes": {"name": {"type": "string", "required": True}}}
    assert made["provider"] == {"attributes": {"project": {"type": "string", "optional": True}}}
