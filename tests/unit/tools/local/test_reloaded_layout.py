"""A reload applies all that follows from the catalogue, and restarts the services alone that it concerns."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from signalbox.adapters.settings import Settings
from signalbox.catalogue.reading import Catalogue, load
from signalbox_tools.console.routes import map_of
from signalbox_tools.local.cloud_tasks.queue_configuration import read_queues
from signalbox_tools.local.services.command_lines import services
from signalbox_tools.local.services.function_settings import environment_of, settings_of
from signalbox_tools.local.services.ports_and_sockets import StackLayout, plan, with_catalogue

QUEUE = {
    "dispatches_per_second": 1,
    "concurrent_max": 1,
    "attempts_max": -1,
    "backoff_min_seconds": 1,
    "backoff_max_seconds": 1,
    "doublings_max": 1,
}
BEFORE: dict[str, Any] = {
    "functions": {"desk": {"folder": "desk", "invoked_by": ["people", "queue", "schedule"], "tasks": ["work"]}},
    "queues": {"tasks": QUEUE},
    "schedules": {"daily": {"function": "desk", "cron": "0 0 * * *", "local_every_seconds": 9}},
}
AFTER: dict[str, Any] = {
    "functions": {
        "desk": {
            "folder": "desk",
            "invoked_by": ["people", "queue"],
            "enqueues": ["flows"],
            "tasks": ["work", "rest"],
            "objects": ["Cart"],
            "flows": ["order"],
            "exposes": ["Cart"],
            "parameters": {"work": ["shelf"]},
            "auth": "firebase",
            "cors": ["https://app.example.com"],
        },
        "noted": {"folder": "desk", "invoked_by": ["event"]},
        "swept": {"folder": "desk", "invoked_by": ["schedule"]},
        "stored": {"folder": "desk", "invoked_by": ["people"], "database": "cellar"},
    },
    "queues": dict.fromkeys(("tasks", "flows", "objects", "slow"), QUEUE | {"backoff_max_seconds": 7, "shards": 2}),
    "schedules": {"hourly": {"function": "swept", "cron": "0 * * * *", "local_every_seconds": 3}},
    "triggers": {
        "n": {"function": "noted", "event": "google.cloud.firestore.document.v1.written", "document": "documents/{key}"}
    },
    "indexes": {"near": {"collection": "documents", "fields": ["a", "-b"]}},
    "history": {"kept": {"prefix": "k-"}},
    "documents": {"written_by": "kit"},
    "api": [],
}
OTHERS = {"cellar": "http://127.0.0.1:7/"}
OF_THE_MACHINE = {
    "firestore_emulator",
    "function_url",
    "keys_url",
    "tasks_emulator",
}
"""The settings that name addresses."""

OF_NO_CATALOGUE = OF_THE_MACHINE | {
    "archives",
    "base_url",
    "callback_keys",
    "catalogue",
    "database",
    "events_account",
    "in_cloud",
    "location",
    "part",
    "payloads",
    "project",
    "queue_prefix",
    "revision",
    "scheduler_account",
    "signatures_removed",
    "spans_endpoint",
    "storage_emulator",
    "tasks_account",
    "timeout_seconds",
    "tokens_unsigned",
    "user_keys_url",
}


def catalogue_of(root: Path, content: dict[str, Any]) -> Catalogue:
    for folder in ("desk", "infra"):
        (root / folder).mkdir(exist_ok=True)
    (root / "desk" / "main.py").write_text("")
    (root / "infra" / "catalogue.yaml").write_text(yaml.safe_dump(content))
    return load(root / "infra" / "catalogue.yaml")


@pytest.fixture
def layouts(tmp_path: Path) -> tuple[StackLayout, StackLayout, Settings]:
    """Return a running stack's layout, the same one reloaded, and the settings of one that starts with the latter."""
    before = catalogue_of(tmp_path, BEFORE)
    file = tmp_path / "infra" / "catalogue.yaml"
    layout = plan(file, before, tmp_path, None, None, settings_of(before), None, "", others=OTHERS)
    after = catalogue_of(tmp_path, AFTER)
    fresh = plan(file, after, tmp_path, None, None, settings_of(after), None, "", others=OTHERS)
    for opened in (layout, fresh):
        opened.close()
    return layout, with_catalogue(layout, after), fresh.settings


def test_a_reload_applies_every_setting_that_a_start_would(layouts: tuple[StackLayout, StackLayout, Settings]) -> None:
    before, reloaded, fresh = layouts
    for field in dataclasses.fields(Settings):
        if field.name not in OF_THE_MACHINE:
            assert getattr(reloaded.settings, field.name) == getattr(fresh, field.name), field.name
        changes = getattr(before.settings, field.name) != getattr(reloaded.settings, field.name)
        assert changes == (field.name not in OF_NO_CATALOGUE), field.name


def test_a_function_that_a_running_stack_of_another_database_gets_is_invoked_without_a_restart(
    layouts: tuple[StackLayout, StackLayout, Settings],
) -> None:
    before, reloaded, _ = layouts
    assert (before.settings.elsewhere, reloaded.settings.elsewhere) == ({}, {"stored": "http://127.0.0.1:7/stored"})


def test_a_reload_restarts_the_services_whose_part_of_the_catalogue_has_changed(
    layouts: tuple[StackLayout, StackLayout, Settings],
) -> None:
    before, reloaded, _ = layouts
    assert changed(before, reloaded) == {"cloud-tasks", "events-deliver", "functions", "scheduler"}
    other_users = dataclasses.replace(before, settings=dataclasses.replace(before.settings, auth={"desk": "firebase"}))
    assert changed(before, other_users) == {"functions"}


def test_the_local_queues_are_the_shards_of_the_catalogue(layouts: tuple[StackLayout, StackLayout, Settings]) -> None:
    _, reloaded, _ = layouts
    [options] = [each for service in services(reloaded) for each in service.command if each.startswith("--queues=")]
    queues = read_queues(options.removeprefix("--queues="))
    assert {queue.name.rpartition("/")[2] for queue in queues} == set(reloaded.catalogue.shards)
    assert {"flows", "flows-2", "slow-2"} < set(reloaded.catalogue.shards)


def test_the_map_of_the_console_has_each_shard_between_those_that_fill_it_and_those_that_it_calls(
    layouts: tuple[StackLayout, StackLayout, Settings],
) -> None:
    system = map_of(layouts[1].catalogue)
    [calls] = {tuple(each["calls"]) for each in system["queues"] if each["name"].startswith("flows")}
    assert calls == ("desk",)
    assert len(system["queues"]) == 8
    [desk] = [each for each in system["functions"] if each["name"] == "desk"]
    assert desk["enqueues"] == ["flows", "flows-2"]


def changed(before: StackLayout, after: StackLayout) -> set[str]:
    first = {each.name: (each.command, each.environment) for each in services(before)}
    return {each.name for each in services(after) if first[each.name] != (each.command, each.environment)}


def test_settings_reach_the_functions(layouts: tuple[StackLayout, StackLayout, Settings]) -> None:
    _, reloaded, _ = layouts
    environment = environment_of(reloaded.settings)
    assert environment["SIGNALBOX_OPEN"] == '{"desk": ["Cart"]}'
    assert environment["SIGNALBOX_AUTH"] == '{"desk": "firebase"}'
