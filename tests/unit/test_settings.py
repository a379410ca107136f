"""Settings: defaults for a laptop, everything else from the environment."""

import dataclasses

import pytest

from shared.adapters.settings import EMBEDDED, from_environment
from shared.rules.indexes import parse


def test_an_empty_environment_gives_a_laptop() -> None:
    settings = from_environment({})
    assert settings.project == "demo-signalbox"
    assert settings.database == "(default)"
    assert settings.function_url == "http://127.0.0.1:8080/{function}"
    assert (settings.firestore_emulator, settings.tasks_emulator, settings.tasks_account) == ("", "", "")
    assert settings.triggers == {}
    assert settings.indexes is None


def test_every_setting_has_its_variable() -> None:
    settings = from_environment(
        {
            "SIGNALBOX_PROJECT": "p",
            "SIGNALBOX_LOCATION": "europe-west1",
            "SIGNALBOX_DATABASE": "d",
            "FIRESTORE_EMULATOR_HOST": EMBEDDED,
            "CLOUD_TASKS_EMULATOR_HOST": "h:1",
            "SIGNALBOX_EVENTS_URL": "http://h:2",
            "SIGNALBOX_FUNCTION_URL": "https://{function}.example",
            "SIGNALBOX_QUEUE_PREFIX": "x-",
            "SIGNALBOX_TASKS_ACCOUNT": "tasks@p.example",
            "SIGNALBOX_TRIGGERS": '{"documents": "documents/{key}"}',
            "SIGNALBOX_TASK_FUNCTIONS": '["kitchen"]',
            "SIGNALBOX_TASK_QUEUES": '["tasks", "slow"]',
            "SIGNALBOX_INDEXES": '[{"collection": "documents", "fields": ["a.b", "-c"]}]',
        }
    )
    assert dataclasses.astuple(settings) == (
        "p",
        "europe-west1",
        "d",
        "embedded",
        "h:1",
        "http://h:2",
        "https://{function}.example",
        "x-",
        "tasks@p.example",
        {"documents": "documents/{key}"},
        {"kitchen"},
        {"tasks", "slow"},
        (dataclasses.astuple(parse("documents", ["a.b", "-c"])),),
    )


def test_the_platforms_project_counts_when_the_kits_own_is_not_set() -> None:
    assert from_environment({"GOOGLE_CLOUD_PROJECT": "g"}).project == "g"
    assert from_environment({"GOOGLE_CLOUD_PROJECT": "g", "SIGNALBOX_PROJECT": "s"}).project == "s"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        from_environment({}).project = "other"  # type: ignore[misc]
