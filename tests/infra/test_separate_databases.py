"""Functions of another database on the real Terraform: what each account may do ends at its database."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.catalogue_lock import lock, lock_of
from signalbox_tools.deploy import deployment_target
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.test_small_projects import empty_zips
from tests.infra.workspace import Resource, Workspace
from tests.unit.catalogue.test_databases import project

pytestmark = pytest.mark.slow

DATABASES = ("", "payments")
FIRST, PAYMENTS = "dev-", "dev-payments-"
Applied = dict[str, dict[str, Resource]]


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applied]:
    """Return the applied resources of a project's two databases, in one project of Google's."""
    folder = tmp_path_factory.mktemp("databases")
    file = project(folder / "shop")
    lock(file)
    with GoogleProvider() as google:
        yield {each: resources(folder / (each or "first"), file, each, google) for each in DATABASES}


def resources(folder: Path, file: Path, database: str, google: GoogleProvider) -> dict[str, Resource]:
    folder.mkdir()
    target = deployment_target.read("demo-project", f"dev.{database}".rstrip("."), root=file.parent)
    workspace = Workspace(folder / "copy", google, empty_zips(target.catalogue, folder / "zips"), "dev", examples=False)
    workspace._given |= dict(target.settings or {}) if database else {}
    for each in DATABASES:
        (workspace.infra / lock_of(Path("catalogue.yaml"), each).name).write_text(lock_of(file, each).read_text())
    workspace.initialise()
    workspace.apply()
    return workspace.resources()


def members(resources: dict[str, Resource], kind: str) -> set[str]:
    """Return the accounts that bindings and members of a kind name."""
    named = [each.values for each in resources.values() if each.kind.startswith(kind)]
    return {
        member for values in named for member in (*values.get("members", ()), *filter(None, [values.get("member")]))
    }


def of_database(database: str) -> str:
    """Return the beginning of the names of its resources."""
    return PAYMENTS if database else FIRST


def is_of(member: str, database: str) -> bool:
    name = member.partition(":")[2].partition("@")[0].partition("-")[2]
    return name.startswith(PAYMENTS) if database else name.startswith(FIRST) and not name.startswith(PAYMENTS)


@pytest.mark.parametrize("database", DATABASES)
def test_the_right_to_a_database_is_that_of_its_own_accounts_alone(applied: Applied, database: str) -> None:
    [binding] = [
        each.values
        for each in applied[database].values()
        if each.address.startswith("google_project_iam_binding.database")
    ]
    [condition] = binding["condition"]
    assert condition["expression"] == (
        f'resource.name == "projects/demo-project/databases/signalbox-dev{"-payments" if database else ""}"'
    )
    assert binding["members"]
    assert [member for member in binding["members"] if not is_of(member, database)] == []


@pytest.mark.parametrize("database", DATABASES)
def test_no_account_of_another_database_enqueues_or_acts_as_an_account_of_queues(
    applied: Applied, database: str
) -> None:
    enqueuers = members(applied[database], "google_cloud_tasks_queue_iam_binding")
    acting = members(applied[database], "google_service_account_iam_binding")
    assert enqueuers
    assert [member for member in enqueuers | acting if not is_of(member, database)] == []
    queues = {each.values["name"] for each in applied[database].values() if each.kind == "google_cloud_tasks_queue"}
    assert all(name.startswith(of_database(database)) for name in queues)


def test_only_the_invoking_account_calls_a_function_of_another_database(applied: Applied) -> None:
    invokers = {
        (each.values["service"], each.values["member"])
        for resources in applied.values()
        for each in resources.values()
        if each.kind == "google_cloud_run_service_iam_member" and each.values["member"].startswith("serviceAccount:fn-")
    }
    assert [(name, member.partition("@")[0]) for name, member in invokers] == [
        ("dev-payments-cards", "serviceAccount:fn-dev-orders")
    ]


def test_each_database_has_its_own_rules_sweeper_triggers_and_list_of_functions(applied: Applied) -> None:
    first, payments = applied.values()
    release = {
        name: each.values["name"] for name, each in payments.items() if each.kind == "google_firebaserules_release"
    }
    assert list(release.values()) == ["cloud.firestore/signalbox-dev-payments"]
    jobs = {each.values["name"] for each in payments.values() if each.kind == "google_cloud_scheduler_job"}
    assert jobs == {"dev-payments-sweep"}
    [content] = [
        each.values["content"]
        for each in payments.values()
        if each.kind == "google_storage_bucket_object" and each.values["name"] == "catalogue.json"
    ]
    assert set(json.loads(content)["calling_queues"]) == {"cards", "semaphore_admit"}
    databases = {
        each.values["name"]
        for each in (*first.values(), *payments.values())
        if each.kind == "google_firestore_database"
    }
    assert databases == {"signalbox-dev", "signalbox-dev-payments"}


def test_a_line_of_a_function_raises_no_alert_of_another_database(applied: Applied) -> None:
    """A line names a database itself, so a function could raise any alert, and hide others: one is sent each hour."""
    filters = {
        each: [
            conditions["condition_matched_log"][0]["filter"]
            for resource in applied[each].values()
            if resource.address.startswith("google_monitoring_alert_policy.logged")
            for conditions in resource.values["conditions"]
            if "jsonPayload.database" in conditions["condition_matched_log"][0]["filter"]
        ]
        for each in DATABASES
    }
    for each, expected in (
        ("", 'service_name=~"^dev-" AND NOT resource.labels.service_name=~"^dev-(payments)-"'),
        ("payments", 'service_name=~"^dev-payments-"'),
    ):
        assert filters[each]
        assert [text for text in filters[each] if expected not in text] == []


def test_the_function_that_invokes_has_the_others_address(applied: Applied) -> None:
    [orders] = [
        each
        for each in applied[""].values()
        if each.kind == "google_cloudfunctions2_function" and each.values["name"] == "dev-orders"
    ]
    [configuration] = orders.values["service_config"]
    variables = configuration["environment_variables"]
    assert json.loads(variables["SIGNALBOX_ELSEWHERE"]) == {"cards": "payments-cards"}
    [cards] = [
        each.values["name"]
        for each in applied["payments"].values()
        if each.values.get("name") == "dev-payments-cards" and each.kind == "google_cloudfunctions2_function"
    ]
    assert variables["SIGNALBOX_FUNCTION_URL"].startswith("https://dev-{function}-")
    assert cards == "dev-payments-cards"


def test_the_catalogue_of_each_is_what_its_lock_has(applied: Applied, tmp_path: Path) -> None:
    file = project(tmp_path)
    functions = {
        each: {
            r.values["name"].removeprefix(of_database(each)).replace("-", "_")
            for r in applied[each].values()
            if r.kind == "google_cloudfunctions2_function"
        }
        for each in DATABASES
    }
    assert functions == {each: set(load(file, database=each).functions) for each in DATABASES}
