"""Objectives are measured by metrics that exist; each alert names its row of the page, as does the certificate's."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from signalbox_tools.cli.main import cli
from tests.infra.conftest import DOMAIN
from tests.infra.test_alerts import POLICY
from tests.infra.workspace import INFRA, Resource, Workspace

pytestmark = pytest.mark.slow

BUCKETS = "google_logging_metric.duration"


@pytest.fixture(scope="module")
def made(with_options: Workspace) -> Mapping[str, Resource]:
    return with_options.resources()


@pytest.fixture(scope="module")
def objectives(made: Mapping[str, Resource]) -> dict[str, dict[str, Any]]:
    found = [each.values for each in made.values() if each.kind == "google_monitoring_slo"]
    return {each["slo_id"]: each for each in found}


def cut(objective: Mapping[str, Any]) -> tuple[str, float]:
    """Return the filter of an objective's distribution, and the largest good value."""
    [indicator] = objective["request_based_sli"]
    [distribution] = indicator["distribution_cut"]
    return distribution["distribution_filter"], distribution["range"][0]["max"]


def test_by_default_there_are_none(resources: Mapping[str, Resource]) -> None:
    assert [each for each in resources if "slo" in each or "duration" in each or "custom_service" in each] == []


def test_the_objectives_are_these(objectives: Mapping[str, Mapping[str, Any]]) -> None:
    assert {name: (each["goal"], cut(each)[1]) for name, each in objectives.items()} == {
        "waits": (0.999, 1000),
        "grants": (0.99, 10),
        "copies": (0.99, 60),
    }
    assert {each["rolling_period_days"] for each in objectives.values()} == {28}
    assert objectives["waits"]["display_name"] == "99.9 % of waits within 1000 ms"


def test_waits_are_those_of_this_deployments_function(objectives: Mapping[str, Mapping[str, Any]]) -> None:
    assert 'resource.labels.service_name="dev-semaphore-wait"' in cut(objectives["waits"])[0]


def test_each_duration_is_one_that_the_code_notes_and_its_bound_is_one_of_a_bucket(
    made: Mapping[str, Resource], objectives: Mapping[str, Mapping[str, Any]]
) -> None:
    code = "\n".join(path.read_text("utf-8") for path in (INFRA.parent / "shared").rglob("*.py"))
    metrics = {each.values["name"]: each.values for name, each in made.items() if name.startswith(BUCKETS)}
    for objective in (objectives["grants"], objectives["copies"]):
        filtered, bound = cut(objective)
        [name] = re.findall(r'metric\.type="logging\.googleapis\.com/user/([^"]+)"', filtered)
        metric = metrics[name]
        [field] = re.findall(r"EXTRACT\(jsonPayload\.(\w+)\)", metric["value_extractor"])
        assert f"log.note({field}=" in code
        assert f"jsonPayload.{field}>=0" in metric["filter"]
        assert bound in metric["bucket_options"][0]["explicit_buckets"][0]["bounds"]


def test_an_alert_watches_each_objectives_burn_rate_over_an_hour_and_a_day(
    made: Mapping[str, Resource], objectives: Mapping[str, Mapping[str, Any]]
) -> None:
    for name, objective in objectives.items():
        [policy] = [each.values for address, each in made.items() if address == f'{POLICY}.objective["{name}"]']
        filters = [each["condition_threshold"][0]["filter"] for each in policy["conditions"]]
        assert filters == [f'select_slo_burn_rate("{objective["name"]}", "{seconds}s")' for seconds in (3600, 86400)]
        assert [each["condition_threshold"][0]["threshold_value"] for each in policy["conditions"]] == [10, 2]


def test_the_certificate_is_watched_two_weeks_before_its_end(made: Mapping[str, Resource]) -> None:
    check = made['google_monitoring_uptime_check_config.domain["domain"]'].values
    assert check["monitored_resource"][0]["labels"]["host"] == DOMAIN
    assert (check["http_check"][0]["use_ssl"], check["http_check"][0]["validate_ssl"]) == (True, True)
    [condition] = made[f'{POLICY}.certificate["domain"]'].values["conditions"]
    [threshold] = condition["condition_threshold"]
    assert f'metric.labels.check_id="{check["uptime_check_id"]}"' in threshold["filter"]
    assert (threshold["comparison"], threshold["threshold_value"]) == ("COMPARISON_LT", 15)


def test_their_alerts_name_a_row_of_the_page_and_a_command(made: Mapping[str, Resource]) -> None:
    page = (INFRA.parent / "docs" / "operations.md").read_text("utf-8")
    said = [each.values["documentation"][0]["content"] for each in made.values() if each.kind == POLICY]
    rows = {row for text in said for row in re.findall(r'row "([^"]+)"', text)}
    assert rows >= {"Waits are slow", "Grants are late", "Copies are late", "The certificate ends soon"}
    assert [row for row in rows if f"| {row} |" not in page] == []
    assert {command in cli.commands for text in said for command in re.findall(r"`signalbox (\w+) ", text)} == {True}
