"""What people may choose in the catalogue and the variables reaches the plan."""

import base64
import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from signalbox.adapters.settings import from_environment
from signalbox.catalogue.reading import load
from signalbox.history.model import HistoryRule
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Resource, Workspace

pytestmark = pytest.mark.slow

FUNCTION = 'module.function["{}"].google_cloudfunctions2_function.function'
ALL = "group:all@b.org"
SMALL = {"memory": "1Gi", "cpu": 0.5, "concurrency": 1, "timeout_seconds": 30, "instances_max": 2}
CHOSEN: dict[str, Any] = {
    "database": "(default)",
    "create_database": False,
    "database_location": "eur3",
    "invokers": [ALL],
    "alert_email": "a@b.org",
}
KEPT: dict[str, dict[str, Any]] = {
    "rents": {"prefix": "rent-", "versions_max": 5},
    "invoices": {"type": "Invoice"},
    "few": {"keys": ["a", "b"]},
}
NEAR = {"collection": "documents", "fields": ["tags[]", "address.zipcode", "-name"]}


@dataclasses.dataclass(frozen=True)
class Planned:
    """What a plan would make, and what it printed."""

    resources: Mapping[str, Resource]
    printed: str


PAINTING = {
    "function": "quilt",
    "task": "paint",
    "arguments": {"row": 1, "column": 2},
    "cron": "0 * * * *",
    "local_every_seconds": 60,
}


@pytest.fixture(scope="module")
def chosen(google: GoogleProvider, zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Return the plan of a deployment in which everything was chosen otherwise."""
    made = Workspace(tmp_path_factory.mktemp("chosen"), google, zips, **CHOSEN)
    made.edit_catalogue(choose)
    made.initialise()
    return Planned(printed=made.plan().stdout, resources=made.planned())


def choose(catalogue: dict[str, Any]) -> None:
    catalogue["functions"]["documents"].update(public=True, cors=["https://app.example.com"])
    catalogue["functions"]["quilt"].update(SMALL)
    catalogue["queues"]["flows"].update(shards=3, concurrent_max=50)
    catalogue["indexes"] = {"near": NEAR}
    catalogue["history"] = KEPT
    catalogue["schedules"]["painting"] = PAINTING


def test_a_public_function_is_open_to_all_and_no_other_is(chosen: Planned) -> None:
    public = [each for each, resource in chosen.resources.items() if resource.values.get("member") == "allUsers"]
    assert public == ['module.function["documents"].google_cloud_run_service_iam_member.invoker["everybody"]']


def test_the_plan_warns_of_what_is_public(chosen: Planned) -> None:
    assert "Warning: Check block assertion failed" in chosen.printed
    assert "Anybody in the world may call documents" in chosen.printed


def test_a_public_function_accepts_no_token_without_its_signature(chosen: Planned) -> None:
    signatures = {name: signatures_of(chosen.resources[FUNCTION.format(name)]) for name in load().functions}
    assert signatures == {name: "checked" if name == "documents" else "removed" for name in signatures}


def test_the_origins_of_pages_are_a_setting_of_their_function_alone(chosen: Planned) -> None:
    variables = {name: variables_of(chosen.resources[FUNCTION.format(name)]) for name in load().functions}
    found = {name: each["SIGNALBOX_ORIGINS"] for name, each in variables.items() if "SIGNALBOX_ORIGINS" in each}
    assert found == {"documents": '{"documents":["https://app.example.com"]}'}


def variables_of(function: Resource) -> Mapping[str, str]:
    variables: Mapping[str, str] = function.values["service_config"][0]["environment_variables"]
    return variables


def signatures_of(function: Resource) -> str:
    variables: Mapping[str, str] = function.values["service_config"][0]["environment_variables"]
    return variables["SIGNALBOX_SIGNATURES"]


def test_nothing_is_public_by_default(resources: Mapping[str, Resource]) -> None:
    members = {each.values.get("member") for each in resources.values()}
    assert not members & {"allUsers", "allAuthenticatedUsers"}


def test_invokers_may_call_what_is_for_people_and_nothing_else(chosen: Planned) -> None:
    invoked = [
        each.values["service"] for each in chosen.resources.values() if each.values.get("member") == "group:all@b.org"
    ]
    people = [function.segment for function in load().functions.values() if "people" in function.invoked_by]
    assert sorted(invoked) == sorted(people)


def test_an_instance_gets_the_size_in_the_catalogue(chosen: Planned) -> None:
    [service] = chosen.resources[FUNCTION.format("quilt")].values["service_config"]
    assert (service["available_memory"], service["available_cpu"]) == ("1Gi", "0.5")
    assert (service["max_instance_request_concurrency"], service["timeout_seconds"]) == (1, 30)
    assert service["max_instance_count"] == 2


def test_a_queue_is_made_in_shards_each_with_its_rates_and_its_rights(chosen: Planned) -> None:
    shards = [each for each in chosen.resources if each.startswith('google_cloud_tasks_queue.queue["flows')]
    assert shards == [f'google_cloud_tasks_queue.queue["{name}"]' for name in ("flows", "flows-2", "flows-3")]
    rates = [chosen.resources[each].values["rate_limits"][0] for each in shards]
    assert [(each["max_concurrent_dispatches"], each["max_dispatches_per_second"]) for each in rates] == [(50, 500)] * 3
    rights = [f'google_cloud_tasks_queue_iam_binding.enqueuers["{name}"]' for name in ("flows", "flows-2", "flows-3")]
    assert [chosen.resources[each].values["name"] for each in rights] == ["flows", "flows-2", "flows-3"]


def test_functions_that_enqueue_to_a_queue_know_its_shards_and_no_other_function_is_deployed_for_them(
    chosen: Planned,
) -> None:
    functions = load().functions.values()
    counts = {each.name: variables_of(chosen.resources[FUNCTION.format(each.name)]) for each in functions}
    known = {name for name, variables in counts.items() if from_environment(variables).queue_shards == {"flows": 3}}
    assert known == {each.name for each in functions if "flows" in each.enqueues}
    assert {"shop", "sweep"} <= known


def test_the_documents_whose_versions_are_kept_are_a_setting_of_every_function(chosen: Planned) -> None:
    variables = [variables_of(chosen.resources[FUNCTION.format(name)]) for name in load().functions]
    rules = {from_environment(each).history for each in variables}
    by_name = [HistoryRule.from_json(entry) for _, entry in sorted(KEPT.items())]
    assert [list(map(HistoryRule.from_json, json.loads(text))) for text in rules] == [by_name]


def test_a_composite_index_is_made_of_its_catalogue_entry(chosen: Planned) -> None:
    index = chosen.resources['google_firestore_index.composite["(default)/near"]'].values
    found = [(each["field_path"], each["order"], each["array_config"]) for each in index["fields"]]
    assert (index["collection"], index["query_scope"]) == ("documents", "COLLECTION")
    assert found == [("tags", None, "CONTAINS"), ("address.zipcode", "ASCENDING", None), ("name", "DESCENDING", None)]


def test_a_schedule_of_a_task_has_the_kit_enqueue_it(chosen: Planned) -> None:
    painting, sweep = (
        chosen.resources[f'google_cloud_scheduler_job.schedule["{name}"]'].values["http_target"][0]
        for name in ("painting", "sweep")
    )
    assert (sweep["body"] or None, sweep["headers"] or None) == (None, None)
    assert painting["headers"] == {"Content-Type": "application/json"}
    assert json.loads(base64.b64decode(painting["body"])) == {
        "function": "quilt",
        "task": "paint",
        "payload": {"row": 1, "column": 2},
    }


def test_triggers_follow_the_database_where_it_is(chosen: Planned) -> None:
    [trigger] = chosen.resources[FUNCTION.format("link_fan_out")].values["event_trigger"]
    databases = [each["value"] for each in trigger["event_filters"] if each["attribute"] == "database"]
    assert (trigger["trigger_region"], databases) == ("eur3", ["(default)"])


def test_a_database_that_exists_is_not_made(chosen: Planned) -> None:
    assert "google_firestore_database" not in {each.kind for each in chosen.resources.values()}


def test_less_than_a_cpu_for_many_requests_is_refused(google: GoogleProvider, zips: Path, tmp_path: Path) -> None:
    made = Workspace(tmp_path, google, zips)
    made.edit_rows(lambda rows: rows["deployments"]["quilt"]["resources"].update(cpu=0.5))
    made.initialise()
    complaint = " ".join(made.plan(check=False).stderr.split())
    assert "below a full one an instance handles one request at a time" in complaint


def test_the_dashboard_holds_no_value_that_its_service_leaves_out(resources: Mapping[str, Resource]) -> None:
    dashboard = json.loads(resources["google_monitoring_dashboard.dashboard"].values["dashboard_json"])
    assert list(left_out("dashboard", dashboard)) == []
    assert len(dashboard["mosaicLayout"]["tiles"]) > 2


def left_out(path: str, value: Any) -> Iterator[str]:
    """Return the places of zeros and of what is empty: read back, the service's answer lacks them."""
    if value in (None, "", 0, [], {}):
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from left_out(f"{path}.{name}", each)
