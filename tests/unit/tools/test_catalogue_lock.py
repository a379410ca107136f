"""The lock has finished rows: what Terraform deploys of each function, queue, trigger, schedule and index."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from signalbox.catalogue.reading import CATALOGUE, Catalogue, load, parse
from signalbox_tools.catalogue_lock import lock, lock_of, rows_of, text_of

QUEUE = {
    "dispatches_per_second": 1,
    "concurrent_max": 8,
    "attempts_max": -1,
    "backoff_min_seconds": 0.2,
    "backoff_max_seconds": 60.0,
    "doublings_max": 8,
}
PAGE = "https://app.example.com"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("functions/shop", "functions/tasks", "examples/toy"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "main.py").write_text("")
    return tmp_path


def catalogue(root: Path, shop: dict[str, Any], **sections: Any) -> Catalogue:
    """Return a catalogue with a function of these settings, an example, and the queues of tasks and objects."""
    functions = {
        "shop": {"folder": "functions/shop", "invoked_by": ["people"], **shop},
        "toy": {"folder": "examples/toy", "invoked_by": ["people"]},
        "tasks": {"invoked_by": ["people", "schedule"]},
    }
    queues = {"tasks": QUEUE, "objects": QUEUE}
    return parse({"functions": functions, "queues": queues, **sections}, root)


def test_the_committed_lock_is_that_of_the_catalogue_and_the_code() -> None:
    assert text_of(load(CATALOGUE)) in lock_of(CATALOGUE).read_text("utf-8"), (
        "run `signalbox catalogue` and commit the lock"
    )


def test_a_lock_is_written_only_if_it_has_changed(root: Path) -> None:
    file = root / "infra" / "catalogue.yaml"
    file.parent.mkdir()
    file.write_text("functions:\n  shop: {}\n")
    assert [lock(file), lock(file)] == [[lock_of(file)], []]


def test_a_lock_is_read_as_the_rows_that_were_written(root: Path) -> None:
    found = catalogue(root, {"env": {"NAME": "a: b"}, "cors": [PAGE], "public": True})
    assert yaml.safe_load(text_of(found)) == rows_of(found)


def test_a_private_function_is_one_deployment_with_all_its_settings(root: Path) -> None:
    settings = {"memory": "1Gi", "secrets": {"KEY": "mail", "OLD": "mail:3"}, "vpc": {"network": "office"}}
    row = rows_of(catalogue(root, {**settings, "env": {"NAME": "x"}, "roles": ["roles/aiplatform.user"]}))
    assert row["deployments"]["shop"] == {
        "function": "shop",
        "segment": "shop",
        "part": "",
        "example": False,
        "kit_account": False,
        "callers": ["people"],
        "queues": [],
        "public": False,
        "open": False,
        "enqueues": [],
        "invokes": [],
        "invokers_elsewhere": [],
        "roles": ["roles/aiplatform.user"],
        "secrets": {"KEY": {"secret": "mail", "version": "latest"}, "OLD": {"secret": "mail", "version": "3"}},
        "archives": [],
        "isolated": False,
        "vpc": {"network": "office", "subnetwork": None, "egress": "private-ranges"},
        "resources": {
            "memory": "1Gi",
            "cpu": 1,
            "concurrency": 16,
            "timeout_seconds": 540,
            "instances_max": 10,
            "instances_min": 0,
            "runtime": "python313",
        },
        "env": {
            "NAME": "x",
            "SIGNALBOX_CALLING_QUEUES": "{}",
            "SIGNALBOX_QUEUE_BACKOFFS": "{}",
            "SIGNALBOX_SPLIT_FUNCTIONS": "[]",
            "SIGNALBOX_SIGNATURES": "removed",
            "SIGNALBOX_TIMEOUT_SECONDS": "540",
        },
    }


def test_an_open_function_with_tasks_is_two_deployments_with_different_callers(root: Path) -> None:
    settings = {"auth": "firebase", "cors": [PAGE], "archives": ["bucket-a"], "objects": ["Cart"], "exposes": ["Cart"]}
    rows = rows_of(catalogue(root, {**settings, "invoked_by": ["people", "queue"], "tasks": ["mail"]}))
    people, tasks = (rows["deployments"][name] for name in ("shop", "shop_tasks"))
    named = ("segment", "part", "callers", "open", "enqueues", "archives")
    assert [[row[name] for name in named] for row in (people, tasks)] == [
        ["shop", "people", ["people"], True, ["objects", "tasks"], []],
        ["shop-tasks", "tasks", ["queue"], False, [], ["bucket-a"]],
    ]
    assert people["queues"] == tasks["queues"] == ["objects", "tasks"]
    both = {
        "SIGNALBOX_CALLING_QUEUES": '{"shop":["objects","tasks"]}',
        "SIGNALBOX_QUEUE_BACKOFFS": '{"objects":[0.2,60,8],"tasks":[0.2,60,8]}',
        "SIGNALBOX_SPLIT_FUNCTIONS": '["shop"]',
        "SIGNALBOX_TIMEOUT_SECONDS": "540",
    }
    assert people["env"] == both | {
        "SIGNALBOX_SIGNATURES": "checked",
        "SIGNALBOX_OPEN": '{"shop":["Cart"]}',
        "SIGNALBOX_AUTH": '{"shop":"firebase"}',
        "SIGNALBOX_ORIGINS": f'{{"shop":["{PAGE}"]}}',
        "SIGNALBOX_PART": "people",
    }
    assert tasks["env"] == both | {
        "SIGNALBOX_SIGNATURES": "removed",
        "SIGNALBOX_PART": "tasks",
        "THREADED_TIMEOUT_ENABLED": "true",
    }


def test_only_a_function_below_the_folder_of_examples_is_an_example(root: Path) -> None:
    rows = rows_of(catalogue(root, {}))["deployments"]
    assert {name: row["example"] for name, row in rows.items()} == {"shop": False, "toy": True, "tasks": False}


def test_a_function_of_the_kit_runs_as_the_kits_account_unless_its_entry_has_more_rights(root: Path) -> None:
    def has_kit_account(**entry: Any) -> bool:
        functions = {
            "shop": {"invoked_by": ["people"]},
            "rates": {"folder": "examples/toy", "invoked_by": ["people"], **entry},
        }
        rows = rows_of(parse({"functions": functions, "queues": {"tasks": QUEUE}}, root))["deployments"]
        assert not rows["shop"]["kit_account"]
        return bool(rows["rates"]["kit_account"])

    assert has_kit_account()
    for more in (
        {"secrets": {"KEY": "mail"}},
        {"roles": ["roles/aiplatform.user"]},
        {"isolated": True},
        {"invokes": ["shop"]},
    ):
        assert not has_kit_account(**more)


def test_a_queues_durations_have_the_form_in_which_google_returns_them(root: Path) -> None:
    assert rows_of(catalogue(root, {}))["queues"]["tasks"] == {
        "account": "tasks",
        "dispatches_per_second": 1,
        "concurrent_max": 8,
        "attempts_max": -1,
        "backoff_min": "0.200s",
        "backoff_max": "60s",
        "doublings_max": 8,
    }


def test_a_queue_is_as_many_queues_of_cloud_tasks_as_it_has_shards(root: Path) -> None:
    sharded = {"tasks": {**QUEUE, "shards": 3}, "objects": QUEUE}
    rows = rows_of(catalogue(root, {"enqueues": ["tasks", "objects"]}, queues=sharded))
    assert list(rows["queues"]) == ["tasks", "tasks-2", "tasks-3", "objects"]
    assert rows["queues"]["tasks-3"] == rows["queues"]["tasks"] == rows["queues"]["objects"]
    assert rows["deployments"]["shop"]["enqueues"] == ["objects", "tasks", "tasks-2", "tasks-3"]
    counts = {name: row["env"].get("SIGNALBOX_QUEUE_SHARDS") for name, row in rows["deployments"].items()}
    assert counts == {"shop": '{"tasks":3}', "toy": None, "tasks": None}
    assert rows["shared"]["task_queues"] == ["tasks"]


def test_a_trigger_with_a_handler_delivers_to_the_deployment_for_tasks(root: Path) -> None:
    shop = {"public": True, "invoked_by": ["people", "queue", "event"], "tasks": ["packed"]}
    event = "google.cloud.firestore.document.v1.created"
    packed = {"function": "shop", "event": event, "document": "orders/{id}", "handler": "packed"}
    assert rows_of(catalogue(root, shop, triggers={"shop-packed": packed}))["triggers"] == {
        "shop-packed": {
            "function": "shop",
            "deployment": "shop_tasks",
            "path": "/document-events/packed",
            "event": event,
            "document": "orders/{id}",
        }
    }


def test_the_schedule_of_a_task_calls_the_function_that_enqueues_it(root: Path) -> None:
    shop = {"invoked_by": ["people", "queue"], "tasks": ["mail"]}
    nightly = {"function": "shop", "task": "mail", "cron": "0 6 * * *", "arguments": {"to": "a"}}
    assert rows_of(catalogue(root, shop, schedules={"nightly": nightly}))["schedules"] == {
        "nightly": {
            "function": "shop",
            "segment": "tasks",
            "cron": "0 6 * * *",
            "time_zone": "Etc/UTC",
            "call": {"function": "shop", "task": "mail", "payload": {"to": "a"}},
        }
    }


def test_an_index_has_its_fields_as_firestore_names_them(root: Path) -> None:
    near = {"collection": "documents", "fields": ["tags[]", "address.zipcode", "-name"]}
    [row] = rows_of(catalogue(root, {}, indexes={"near": near}))["indexes"].values()
    assert row["fields"] == [
        {"path": "tags", "order": None, "array": "CONTAINS"},
        {"path": "address.zipcode", "order": "ASCENDING", "array": None},
        {"path": "name", "order": "DESCENDING", "array": None},
    ]
