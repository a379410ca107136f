"""What was applied is what the catalogue declares, and its parts fit together."""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signalbox.adapters.settings import from_environment
from signalbox.catalogue.parts import FUNCTIONS as FUNCTIONS_OF_THE_KIT
from signalbox.catalogue.reading import Catalogue, CatalogueError, Function, Trigger, load
from signalbox.catalogue.writing import written
from signalbox.history.model import HistoryRule
from tests.infra import applied_state
from tests.infra.applied_state import AppliedState
from tests.infra.stack_from_state import settings_of
from tests.infra.workspace import Resource, Workspace

pytestmark = pytest.mark.slow

FUNCTIONS = 'module.function["{}"].google_cloudfunctions2_function.function'


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load()


@pytest.fixture(scope="module")
def shown(deployed: Workspace) -> str:
    """Return the applied resources, as Terraform reports them."""
    return json.dumps(deployed.shown())


@pytest.fixture(scope="module")
def found(shown: str, catalogue: Catalogue) -> AppliedState:
    return read(shown, catalogue)


def read(shown: str, catalogue: Catalogue) -> AppliedState:
    folders = {name: function.folder for name, function in catalogue.functions.items()}
    return applied_state.read(json.loads(shown), folders, catalogue.root)


def test_every_function_is_deployed_as_the_catalogue_declares(found: AppliedState, catalogue: Catalogue) -> None:
    assert plain(found.catalogue.functions) == plain(with_the_rights_of_their_account(catalogue.functions))


def with_the_rights_of_their_account(functions: Mapping[str, Function]) -> dict[str, Function]:
    """Return functions, those of the kit with the queues of all of them: they share an account."""
    kits = {name: each for name, each in functions.items() if name in FUNCTIONS_OF_THE_KIT}
    queues = tuple(sorted({queue for each in kits.values() for queue in each.enqueues}))
    return {**functions, **{name: replace(each, enqueues=queues) for name, each in kits.items()}}


def test_every_queue_is_set_as_the_catalogue_declares(found: AppliedState, catalogue: Catalogue) -> None:
    assert found.catalogue.queues == catalogue.queues


def test_every_trigger_is_that_of_the_catalogue(found: AppliedState, catalogue: Catalogue) -> None:
    assert set(map(declared, found.catalogue.triggers.values())) == set(map(declared, catalogue.triggers.values()))


def declared(trigger: Trigger) -> tuple[str, str, str, str]:
    return trigger.function, trigger.event, trigger.document, trigger.handler


def test_a_trigger_with_a_handler_delivers_to_its_function_as_its_account(resources: Mapping[str, Resource]) -> None:
    made = resources['google_eventarc_trigger.document["shop-ordered"]'].values
    [destination] = made["destination"]
    assert destination["cloud_run_service"] == [
        {"service": "shop", "region": "us-central1", "path": "/document-events/ordered"}
    ]
    criteria = {each["attribute"]: (each["value"], each["operator"] or "") for each in made["matching_criteria"]}
    assert criteria == {
        "type": ("google.cloud.firestore.document.v1.created", ""),
        "database": ("signalbox-prod", ""),
        "document": ("orders/{order}", "match-path-pattern"),
    }
    account = "kit-events@demo-project.iam.gserviceaccount.com"
    assert (made["service_account"], made["event_data_content_type"]) == (account, "application/protobuf")
    variables = resources[FUNCTIONS.format("shop")].values["service_config"][0]["environment_variables"]
    assert variables["SIGNALBOX_EVENTS_ACCOUNT"] == account
    assert resources[FUNCTIONS.format("shop")].values["event_trigger"] == []


def test_every_schedule_is_that_of_the_catalogue(found: AppliedState, catalogue: Catalogue) -> None:
    schedules = {name: (each.function, each.cron) for name, each in found.catalogue.schedules.items()}
    assert schedules == {name: (each.function, each.cron) for name, each in catalogue.schedules.items()}


def test_every_index_is_that_of_the_catalogue(found: AppliedState, catalogue: Catalogue) -> None:
    assert found.catalogue.indexes == catalogue.indexes


def test_an_index_is_read_back_as_it_was_written(shown: str, catalogue: Catalogue) -> None:
    fields = [("tags", None), ("address.zipcode", "ASCENDING"), ("name", "DESCENDING")]
    values = {"collection": "documents", "fields": [{"field_path": path, "order": order} for path, order in fields]}
    state = json.loads(shown)
    near = {"mode": "managed", "type": applied_state.INDEX, "index": "near", "values": values}
    state["values"]["root_module"]["resources"].append(near)
    index = read(json.dumps(state), catalogue).catalogue.indexes["near"]
    assert (index.collection, index.fields) == ("documents", ("tags[]", "address.zipcode", "-name"))


def test_every_folder_of_functions_is_deployed(found: AppliedState, catalogue: Catalogue) -> None:
    folders = {path.parent for path in (catalogue.root / "functions").glob("*/main.py")}
    assert folders <= {function.folder for function in found.catalogue.functions.values()}


def test_every_function_reads_its_settings_from_its_environment(found: AppliedState, catalogue: Catalogue) -> None:
    for name, environment in found.environments.items():
        own = from_environment(environment)
        assert own.task_callers(name) == from_environment(environment).with_catalogue(found.shared).task_callers(name)
        assert own.calling_queues == {each: queues for each, queues in catalogue.calling_queues.items() if each == name}
        assert own.queue_backoffs.keys() == catalogue.calling_queues.get(name, frozenset())
        assert own.catalogue == "demo-project-signalbox-sources/catalogue.json"
        settings = own.with_catalogue(found.shared)
        assert (settings.project, settings.location) == ("demo-project", "us-central1")
        assert (settings.database, settings.queue_prefix) == ("signalbox-prod", "")
        assert (settings.task_functions, settings.task_queues) == (catalogue.task_functions, catalogue.task_queues)
        assert json.loads(settings.task_parameters) == catalogue.task_parameters
        assert settings.calling_queues == catalogue.calling_queues
        assert settings.object_classes == catalogue.object_classes
        assert settings.flow_functions == catalogue.flow_functions
        assert tuple(map(HistoryRule.from_json, json.loads(settings.history))) == catalogue.history_rules
        assert re.fullmatch(r"https://\{function\}-[0-9]{12}\.us-central1\.run\.app", settings.function_url)
        assert settings.account_of("links") == "qu-kit-workers@demo-project.iam.gserviceaccount.com"


def test_functions_have_the_same_environment_but_for_their_threads(found: AppliedState, catalogue: Catalogue) -> None:
    threads = {name: str(function.concurrency) for name, function in catalogue.functions.items()}
    environments = {name: dict(environment) for name, environment in found.environments.items()}
    for environment in environments.values():
        assert environment.pop("SIGNALBOX_REVISION").isdecimal()  # a time, which may pass while all are applied
    common = {name: value for name, value in environments["sweep"].items() if name != "THREADS"}
    ended = {
        name: {"THREADED_TIMEOUT_ENABLED": "true"} if "queue" in each.invoked_by else {}
        for name, each in catalogue.functions.items()
    }
    common.pop("THREADED_TIMEOUT_ENABLED", None)
    for environment in (common, *environments.values()):
        environment.pop("SIGNALBOX_CALLING_QUEUES")
        environment.pop("SIGNALBOX_QUEUE_BACKOFFS")
        environment.pop("SIGNALBOX_PARTS", None)
        environment.pop("SIGNALBOX_EVENTS_ACCOUNT", None)
        environment.pop("SIGNALBOX_PARTS", None)
    assert environments == {name: common | {"THREADS": threads[name]} | ended[name] for name in catalogue.functions}
    assert common["SIGNALBOX_SCHEDULER_ACCOUNT"] == "kit-scheduler@demo-project.iam.gserviceaccount.com"
    assert common["SIGNALBOX_SIGNATURES"] == "removed"


def test_the_entry_point_of_every_zip_is_its_folder(found: AppliedState, resources: Mapping[str, Resource]) -> None:
    for name in found.catalogue.functions:
        built = resources[FUNCTIONS.format(name)].values["build_config"][0]
        assert (built["entry_point"], built["runtime"]) == (name, "python313")


def test_what_people_do_not_call_is_closed_to_the_outside(
    resources: Mapping[str, Resource], catalogue: Catalogue
) -> None:
    inner = {each.segment for each in catalogue.functions.values() if "people" not in each.invoked_by}
    functions = [each.values for each in resources.values() if each.kind == "google_cloudfunctions2_function"]
    closed = {each["name"] for each in functions if each["service_config"][0]["ingress_settings"] != "ALLOW_ALL"}
    assert closed == inner
    assert inner >= {"batch-expand", "link-fan-out", "link-refresh", "link-verify", "semaphore-admit", "sweep"}


def test_a_trigger_is_in_the_region_of_the_database_and_retries(resources: Mapping[str, Resource]) -> None:
    [trigger] = resources[FUNCTIONS.format("link_fan_out")].values["event_trigger"]
    database = resources['google_firestore_database.database["signalbox-prod"]'].values
    filters = {each["attribute"]: (each["value"], each["operator"]) for each in trigger["event_filters"]}
    assert (trigger["trigger_region"], trigger["retry_policy"]) == (database["location_id"], "RETRY_POLICY_RETRY")
    assert filters == {"database": (database["name"], None), "document": ("documents/{key}", "match-path-pattern")}


def test_queues_of_users_tasks_never_give_up(resources: Mapping[str, Resource], catalogue: Catalogue) -> None:
    queues = {
        each.values["name"]: each.values for each in resources.values() if each.kind == "google_cloud_tasks_queue"
    }
    assert {queues[name]["retry_config"][0]["max_attempts"] for name in catalogue.task_queues} == {-1}


SCHEDULER, TASKS, WORKERS = "kit-scheduler@demo-project", "qu-tasks@demo-project", "qu-kit-workers@demo-project"
BUILD = "kit-build@demo-project"
LISTENS_TO = '"attribute": "database", "operator": null, "value": "{}"'
CALLS_AS = '"service_account_email": "{}'
EXPECTS = '"SIGNALBOX_TASKS_ACCOUNT": "{}'


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ('"service": "sweep"', '"service": "swept"', "invoked_by must name at least one of"),
        (LISTENS_TO.format("signalbox-prod"), LISTENS_TO.format("(default)"), r"triggers\.link-fan-out: listens to"),
        (CALLS_AS.format(SCHEDULER), CALLS_AS.format(TASKS), r"schedules\.\w+: calls as"),
        (EXPECTS.format("qu-{queue}"), EXPECTS.format("kit-{queue}"), "invoked_by"),
        (".us-central1.run.app/", ".run.app/", r"schedules\.\w+: calls https"),
    ],
)
def test_what_cannot_work_in_the_cloud_is_refused(
    shown: str, catalogue: Catalogue, right: str, wrong: str, complaint: str
) -> None:
    assert right in shown
    with pytest.raises(CatalogueError, match=complaint):
        read(shown.replace(right, wrong), catalogue)


def test_a_function_that_may_not_act_as_a_queues_account_hands_it_no_task(shown: str, catalogue: Catalogue) -> None:
    right = f'"service_account_id": "projects/demo-project/serviceAccounts/{WORKERS}'
    assert right in shown
    found = read(shown.replace(right, right.replace(WORKERS, BUILD)), catalogue)
    assert "links" not in {queue for function in found.catalogue.functions.values() for queue in function.enqueues}


def test_functions_with_different_settings_cannot_share_a_process(found: AppliedState) -> None:
    environments = dict(found.environments)
    environments["sweep"] = {**environments["sweep"], "SIGNALBOX_DATABASE": "another"}
    with pytest.raises(
        CatalogueError, match=r"functions\.\w+: other functions have other values of SIGNALBOX_DATABASE"
    ):
        settings_of(replace(found, environments=environments))


def test_the_applied_state_survives_the_file_that_the_local_stack_reads(found: AppliedState, tmp_path: Path) -> None:
    (tmp_path / "catalogue.yaml").write_text(written(found.catalogue, elsewhere=True))
    assert replace(load(tmp_path / "catalogue.yaml"), root=found.catalogue.root) == found.catalogue


def test_a_state_with_nothing_in_it_is_refused() -> None:
    with pytest.raises(CatalogueError, match="nothing was applied"):
        applied_state.read({}, {}, Path())


def plain(functions: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return functions as values in which the order of queues and callers does not count."""
    values = {name: dataclasses.asdict(function) for name, function in functions.items()}
    unordered = ("enqueues", "invoked_by", "tasks")
    return {name: each | {field: set(each[field]) for field in unordered} for name, each in values.items()}
