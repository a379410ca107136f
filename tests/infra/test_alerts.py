"""Alerts have a recipient, and the plan warns if they have none."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.cli.main import cli
from signalbox_tools.costs.bill import METRIC_REFERENCES
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import INFRA, Resource, Workspace

pytestmark = pytest.mark.slow

POLICY = "google_monitoring_alert_policy"
METRICS = {
    "cloudtasks.googleapis.com/queue/depth",
    "cloudtasks.googleapis.com/queue/task_attempt_count",
    "cloudtasks.googleapis.com/queue/task_attempt_delays",
    "firestore.googleapis.com/api/request_count",
    "pubsub.googleapis.com/subscription/num_undelivered_messages",
    "pubsub.googleapis.com/subscription/oldest_unacked_message_age",
    "run.googleapis.com/request_count",
}
"""Google's own: a policy on a metric that does not exist is refused. Cloud Scheduler has none."""


FILTER_CHARACTERS_MAX, CONDITIONS_MAX = 2048, 6
"""Limits of Cloud Monitoring, for a filter and for a policy."""

CHARTS_OF_QUEUES = 2
CHART_CHARACTERS = 200
"""The part of a chart's filter around the names."""


@pytest.fixture(scope="module")
def conditions(resources: Mapping[str, Resource]) -> dict[str, dict[str, Any]]:
    """Return the conditions of all alerts by name, each with its kind and settings."""
    return dict(_conditions(each.values for each in resources.values() if each.kind == POLICY))


def _conditions(policies: Iterator[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for policy in policies:
        for condition in policy["conditions"]:
            [(kind, [settings])] = [(name, each) for name, each in condition.items() if "condition_" in name and each]
            yield condition["display_name"], {"kind": kind} | settings


def test_every_alert_has_a_title_of_its_own(conditions: Mapping[str, Any]) -> None:
    assert set(conditions) == {
        "A queue or a schedule was paused",
        "A schedule's call failed",
        "Calls may be missing",
        "Calls or records were refused",
        "Copies are wrong",
        "Events are not delivered",
        "Events were given up",
        "Functions are unavailable",
        "Firestore fails",
        "Flows or objects are stuck",
        "Functions fail",
        "Functions have no free instance",
        "Functions reject their queue",
        "No sweep is reported",
        "No sweep succeeds",
        "Queue depth is high",
        "Records cannot be read",
        "Runs are not archived",
        "Standings are wrong",
        "Tasks are late",
        "Tasks cannot be enqueued",
        "Tasks or events are given up",
    }


def test_the_bill_counts_the_metrics_of_their_conditions(conditions: Mapping[str, Any]) -> None:
    filters = [
        each[name] for each in conditions.values() for name in ("filter", "denominator_filter") if each.get(name)
    ]
    assert sum("metric.type=" in each for each in filters) == METRIC_REFERENCES


def test_every_metric_exists(conditions: Mapping[str, Any]) -> None:
    named = {name for each in conditions.values() for name in re.findall(r'metric\.type="([^"]+)"', each["filter"])}
    assert named == METRICS


def test_failures_are_a_share_of_the_requests_and_contention_is_none(conditions: Mapping[str, Any]) -> None:
    """0.1 failures a second are one in a thousand requests of a busy function, and all requests of a quiet one."""
    fails, unavailable = conditions["Functions fail"], conditions["Functions are unavailable"]
    assert 'response_code!="503"' in fails["filter"]
    assert 'response_code="503"' in unavailable["filter"]
    for each in (fails, unavailable):
        assert "response_code" not in each["denominator_filter"]
        assert 0 < each["threshold_value"] < 1
        assert each["denominator_aggregations"] == each["aggregations"]


def test_firestores_errors_are_a_share_of_this_databases_requests(conditions: Mapping[str, Any]) -> None:
    fails = conditions["Firestore fails"]
    assert 'resource.labels.database_id="signalbox-prod"' in fails["denominator_filter"]
    assert fails["filter"].startswith(f"{fails['denominator_filter']} AND metric.labels.response_code=one_of(")
    assert not {"OK", "ABORTED", "ALREADY_EXISTS", "FAILED_PRECONDITION", "NOT_FOUND"} & set(quoted(fails["filter"]))


def test_refused_requests_are_a_share_of_a_functions_requests(conditions: Mapping[str, Any]) -> None:
    refused = conditions["Functions have no free instance"]
    assert refused["filter"] == f'{refused["denominator_filter"]} AND metric.labels.response_code="429"'
    assert (refused["threshold_value"], refused["duration"]) == (0.05, "300s")


def test_one_unavailable_response_to_a_schedule_raises_no_alert(conditions: Mapping[str, Any]) -> None:
    """Cloud Scheduler calls again, and of sweeps that never succeed another alert says so."""
    assert conditions["A schedule's call failed"]["filter"].endswith("AND NOT httpRequest.status=503")


def test_every_alert_says_where_to_read_and_what_to_run(resources: Mapping[str, Resource]) -> None:
    page = (INFRA.parent / "docs" / "operations.md").read_text("utf-8")
    for policy in (each.values for each in resources.values() if each.kind == POLICY):
        [said] = policy["documentation"]
        [row] = re.findall(r'row "([^"]+)"', said["content"])
        assert f"| {row} | {policy['severity']} |" in page
        [command, arguments] = re.findall(r"`signalbox (\w+) ([^`]+)`", said["content"])[0]
        assert command in cli.commands
        assert arguments == "-p demo-project -e prod --region us-central1"
        assert said["subject"] == policy["display_name"]


def test_addresses_of_requests_that_succeeded_are_not_kept(resources: Mapping[str, Resource]) -> None:
    """They hold the values of queries. Warnings, errors and the functions' own lines are kept: alerts rest on them."""
    excluded = resources["google_logging_project_exclusion.requests"].values["filter"]
    assert excluded.endswith('log_id("run.googleapis.com/requests") AND severity<WARNING')
    assert '"documents"' in excluded


def test_logs_are_kept_for_a_month(resources: Mapping[str, Resource]) -> None:
    kept = resources["google_logging_project_bucket_config.default[0]"].values
    assert (kept["bucket_id"], kept["location"], kept["retention_days"]) == ("_Default", "global", 30)


def test_sweeps_that_fail_every_minute_are_noticed_in_ten(conditions: Mapping[str, Any]) -> None:
    absent, zero = conditions["No sweep is reported"], conditions["No sweep succeeds"]
    assert absent["kind"] == "condition_absent"
    assert (zero["comparison"], zero["threshold_value"]) == ("COMPARISON_LT", 1)
    assert (absent["duration"], zero["duration"]) == ("600s", "600s")
    for each in (absent, zero):
        assert 'service_name="sweep"' in each["filter"]
        assert 'response_code_class="2xx"' in each["filter"]


def test_events_are_watched_where_eventarc_keeps_them(conditions: Mapping[str, Any]) -> None:
    [pattern] = re.findall(r'regex\.full_match\("([^"]+)"\)', conditions["Events are not delivered"]["filter"])
    assert re.fullmatch(pattern, "eventarc-us-central1-link-fan-out-123456-sub-789")
    assert re.fullmatch(pattern, "eventarc-us-central1-shop-ordered-sub-789"), "the trigger of a handler"
    assert not re.fullmatch(pattern, "eventarc-us-central1-dev-link-fan-out-123456-sub-789")


def test_what_a_receiver_cannot_take_raises_an_alert_after_ten_minutes_and_until_a_person_has_it_delivered_again(
    conditions: Mapping[str, Any], resources: Mapping[str, Resource]
) -> None:
    waiting, given_up = conditions["Events are not delivered"], conditions["Events were given up"]
    assert (waiting["threshold_value"], given_up["threshold_value"]) == (600, 0)
    kept = resources['google_pubsub_subscription.dead_letters["events"]'].values["name"]
    assert f'resource.labels.subscription_id="{kept}"' in given_up["filter"]


def test_alerts_on_lines_take_those_of_this_deployments_database(conditions: Mapping[str, Any]) -> None:
    """Their filters name no function, so they are as short with 200 functions as with one."""
    stuck = conditions["Flows or objects are stuck"]["filter"]
    assert stuck == (
        'resource.type="cloud_run_revision" AND severity="ERROR" AND jsonPayload.database="signalbox-prod"'
        ' AND jsonPayload.message=("flow stuck" OR "turn refused" OR "payload damaged")'
    )


def test_a_paused_queue_raises_an_alert_at_once_and_another_deployments_does_not(conditions: Mapping[str, Any]) -> None:
    """A queue that is paused has no attempts, so `task_attempt_delays` has no points."""
    paused = conditions["A queue or a schedule was paused"]["filter"]
    methods, names = (re.compile(text) for text in re.findall(r'=~"([^"]+)"', paused.replace("\\\\", "\\")))
    assert methods.search("google.cloud.tasks.v2.CloudTasks.PauseQueue")
    assert not methods.search("google.cloud.tasks.v2.CloudTasks.ResumeQueue")
    assert names.search("projects/p/locations/us-central1/queues/tasks")
    assert names.search("projects/p/locations/us-central1/jobs/sweep")
    assert not names.search("projects/p/locations/us-central1/queues/dev-tasks")


@pytest.mark.parametrize("code", ["401", "403", "404", "permission_denied", "PERMISSION_DENIED", "unauthenticated"])
def test_attempts_that_cloud_run_refuses_raise_an_alert(conditions: Mapping[str, Any], code: str) -> None:
    """Google does not document the values of the label, so the filter takes each form."""
    rejected = conditions["Functions reject their queue"]
    [pattern] = re.findall(r'regex\.full_match\("([^"]+)"\)', rejected["filter"])
    assert re.fullmatch(pattern, code)
    assert not re.fullmatch(pattern, "ok")
    assert rejected["filter"].startswith(rejected["denominator_filter"])


def test_filters_stay_within_the_limit_with_two_hundred_functions(
    google: GoogleProvider, zips: Path, tmp_path: Path
) -> None:
    made = Workspace(tmp_path, google, zips)
    names = [f"own_function_number_{number:03}" for number in range(200)]

    def add(rows: dict[str, Any]) -> None:
        like = rows["deployments"]["tasks"]
        rows["deployments"] |= {each: like | {"function": each, "segment": each.replace("_", "-")} for each in names}

    made.edit_rows(add)
    for each in names:
        (tmp_path / "dist" / f"{each}.zip").write_bytes(b"zip")
    made.initialise()
    filters, logged = made.value("[values(local.thresholds)[*].filters, values(local.log_alerts)[*].filter]")
    assert max(map(len, filters)) <= CONDITIONS_MAX
    assert (
        max(map(len, [*(text for each in filters for text in each), *made.value("local.service_filters"), *logged]))
        <= FILTER_CHARACTERS_MAX
    )
    groups = made.value("local.charts[*].names")
    assert max(len(names) for each in groups for names in each) <= FILTER_CHARACTERS_MAX - CHART_CHARACTERS
    assert sum("own-function-number-199" in " ".join(each) for each in groups) == len(groups) - CHARTS_OF_QUEUES
    failing = " ".join(made.value("local.thresholds.failures.filters"))
    assert [each for each in names if failing.count(f'"{each.replace("_", "-")}"') != 1] == []


def test_the_jobs_whose_errors_are_watched_are_those_of_the_catalogue(conditions: Mapping[str, Any]) -> None:
    [jobs] = re.findall(r"job_id=\(([^)]+)\)", conditions["A schedule's call failed"]["filter"])
    assert quoted(jobs) == sorted(load().schedules)


def test_the_page_of_operations_names_every_alert(conditions: Mapping[str, Any]) -> None:
    page = (INFRA.parent / "docs" / "operations.md").read_text("utf-8")
    assert [title for title in conditions if f"| {title} |" not in page] == []


def test_the_command_of_an_alert_names_the_environments_file_and_not_its_purpose(
    google: GoogleProvider, zips: Path, tmp_path: Path
) -> None:
    """A second deployment of prod's data, in another region, has another file with the same purpose."""
    made = Workspace(tmp_path, google, zips, environment_name="east", region="us-east4")
    made.initialise()
    assert made.value("local.runbook_arguments") == "-p demo-project -e east --region us-east4"


def test_alerts_go_to_the_address_that_was_set(resources: Mapping[str, Resource]) -> None:
    [channel] = [each for each in resources.values() if each.kind == "google_monitoring_notification_channel"]
    assert (channel.values["type"], channel.values["labels"]) == ("email", {"email_address": "ops@example.com"})
    told = [each.values["notification_channels"] for each in resources.values() if each.kind == POLICY]
    assert told == [[channel.values["id"]]] * len(told)


def test_alerts_also_go_to_channels_that_exist(google: GoogleProvider, zips: Path, tmp_path: Path) -> None:
    other = "projects/demo-project/notificationChannels/123"
    made = Workspace(tmp_path, google, zips, alert_email=None, notification_channels=[other])
    made.initialise()
    assert "not sent to anyone" not in " ".join(made.plan().stdout.split())
    told = [each.values["notification_channels"] for each in made.planned().values() if each.kind == POLICY]
    assert told == [[other]] * len(told)


def test_the_plan_warns_if_alerts_have_no_recipient(google: GoogleProvider, zips: Path, tmp_path: Path) -> None:
    made = Workspace(tmp_path, google, zips, alert_email=None)
    made.initialise()
    assert "not sent to anyone: set `alert_email` or `notification_channels`" in " ".join(made.plan().stdout.split())


def quoted(text: str) -> list[str]:
    return re.findall(r'"([^"]+)"', text)
