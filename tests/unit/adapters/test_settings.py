"""Settings: defaults for a laptop, everything else from the environment."""

import dataclasses

import pytest

from signalbox.adapters.settings import SQLITE, from_environment
from signalbox.core.records.composite_indexes import parse
from signalbox_tools.local.services.function_settings import environment_of


def test_an_empty_environment_yields_the_local_settings() -> None:
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
            "FIRESTORE_EMULATOR_HOST": SQLITE,
            "CLOUD_TASKS_EMULATOR_HOST": "h:1",
            "SIGNALBOX_BASE_URL": "https://base.example/",
            "SIGNALBOX_CALLBACK_KEYS": "a key of callbacks",
            "SIGNALBOX_FUNCTION_URL": "https://{function}.example",
            "SIGNALBOX_QUEUE_PREFIX": "x-",
            "SIGNALBOX_TASKS_ACCOUNT": "tasks@p.example",
            "SIGNALBOX_TRIGGERS": '{"documents": "documents/{key}"}',
            "SIGNALBOX_TASK_FUNCTIONS": '{"kitchen": ["cook"]}',
            "SIGNALBOX_TASK_QUEUES": '["tasks", "slow"]',
            "SIGNALBOX_SCHEDULER_ACCOUNT": "scheduler@p.example",
            "SIGNALBOX_KEYS_URL": "http://h:3/certs",
            "SIGNALBOX_SIGNATURES": "removed",
            "K_SERVICE": "documents",
            "SIGNALBOX_CALLING_QUEUES": '{"kitchen": ["slow"]}',
            "SIGNALBOX_INDEXES": '[{"collection": "documents", "fields": ["a.b", "-c"]}]',
            "SIGNALBOX_QUEUE_BACKOFFS": '{"tasks": [0.2, 60, 8]}',
            "SIGNALBOX_TIMEOUT_SECONDS": "60",
            "SIGNALBOX_ORIGINS": '{"albums": ["https://a.example"]}',
            "SIGNALBOX_AUTH": '{"albums": "firebase"}',
            "SIGNALBOX_USER_KEYS_URL": "http://h:4/certs",
            "SIGNALBOX_SPLIT_FUNCTIONS": '["albums"]',
            "SIGNALBOX_PART": "people",
            "SIGNALBOX_OPEN": '{"albums": ["albums"]}',
            "SIGNALBOX_OBJECT_CLASSES": '{"Counter": "counters"}',
            "SIGNALBOX_FLOW_FUNCTIONS": '{"checkout": "shop"}',
            "SIGNALBOX_HISTORY": '[{"prefix": "c-", "versions_max": 5}, {"keys": ["a"]}]',
            "SIGNALBOX_DOCUMENT_WRITERS": "kit",
            "SIGNALBOX_CATALOGUE": "bucket/catalogue.json",
            "SIGNALBOX_TASK_PARAMETERS": '{"kitchen": {"cook": ["dish", "pot?"]}}',
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:5",
            "SIGNALBOX_EVENTS_ACCOUNT": "events@p.example",
            "SIGNALBOX_ARCHIVES": "/var/archives",
            "STORAGE_EMULATOR_HOST": "http://h:6",
            "SIGNALBOX_PAYLOADS": "gs://payloads",
            "SIGNALBOX_QUEUE_SHARDS": '{"slow": 3}',
            "SIGNALBOX_PARTS": '["documents"]',
            "SIGNALBOX_TIMEOUTS": '{"albums": 60}',
            "SIGNALBOX_ELSEWHERE": '{"cards": "payments-cards"}',
        }
    )
    assert dataclasses.astuple(settings) == (
        "p",
        "europe-west1",
        "d",
        "sqlite",
        "h:1",
        "https://{function}.example",
        "x-",
        "tasks@p.example",
        {"documents": "documents/{key}"},
        {"kitchen": {"cook"}},
        {"tasks", "slow"},
        "scheduler@p.example",
        "http://h:3/certs",
        True,
        True,
        (dataclasses.astuple(parse("documents", ["a.b", "-c"])),),
        {"kitchen": {"slow"}},
        {"tasks": (0.2, 60, 8)},
        {"slow": 3},
        60,
        {"albums": {"https://a.example"}},
        {"albums": "firebase"},
        "http://h:4/certs",
        False,
        {"albums"},
        "people",
        {"albums": {"albums"}},
        {"Counter": "counters"},
        {"checkout": "shop"},
        0,
        '[{"prefix": "c-", "versions_max": 5}, {"keys": ["a"]}]',
        "kit",
        "bucket/catalogue.json",
        "https://base.example/",
        "a key of callbacks",
        '{"kitchen": {"cook": ["dish", "pot?"]}}',
        "http://h:5",
        "events@p.example",
        "/var/archives",
        "http://h:6",
        "gs://payloads",
        {"documents"},
        {"albums": 60},
        {"cards": "payments-cards"},
    )


def test_the_revision_is_counted_where_turns_of_flows_run() -> None:
    deployed = {"SIGNALBOX_REVISION": "20261122215501"}
    assert from_environment(deployed).revision == 20261122215501
    assert from_environment({**deployed, "SIGNALBOX_PART": "people"}).revision == 0
    assert from_environment({"K_REVISION": "shop-00012-abc"}).revision == 0


def test_signatures_are_checked_unless_the_settings_declare_that_they_were() -> None:
    assert not from_environment({}).signatures_removed
    with pytest.raises(ValueError, match="choose from checked, removed"):
        from_environment({"SIGNALBOX_SIGNATURES": "none"})


def test_no_deployed_function_accepts_unsigned_tokens() -> None:
    assert from_environment({"SIGNALBOX_USER_TOKENS": "unsigned"}).tokens_unsigned
    assert not from_environment({"SIGNALBOX_USER_TOKENS": "unsigned", "K_SERVICE": "albums"}).tokens_unsigned
    assert not from_environment({}).tokens_unsigned


def test_a_functions_address_is_made_of_its_url_segment() -> None:
    settings = from_environment({"SIGNALBOX_FUNCTION_URL": "https://x-{function}-1.example"})
    assert settings.address_of("link_fan_out") == "https://x-link-fan-out-1.example"
    split = dataclasses.replace(settings, split_functions=frozenset({"photo_albums"}))
    assert split.address_of("photo_albums") == "https://x-photo-albums-tasks-1.example"
    assert split.address_of("link_fan_out") == "https://x-link-fan-out-1.example"


def test_the_local_stack_hands_on_the_settings_that_it_chose() -> None:
    chosen = from_environment(
        {
            "SIGNALBOX_QUEUE_PREFIX": "x-",
            "SIGNALBOX_SCHEDULER_ACCOUNT": "scheduler@p.example",
            "SIGNALBOX_SIGNATURES": "removed",
            "SIGNALBOX_TASK_FUNCTIONS": '{"kitchen": ["cook"]}',
            "SIGNALBOX_TASK_QUEUES": "[]",
            "SIGNALBOX_ORIGINS": '{"albums": ["https://a.example"]}',
            "SIGNALBOX_AUTH": '{"albums": "firebase"}',
            "SIGNALBOX_USER_TOKENS": "unsigned",
            "SIGNALBOX_SPLIT_FUNCTIONS": '["albums"]',
            "SIGNALBOX_INDEXES": '[{"collection": "documents", "fields": ["a[]", "-b"]}]',
            "SIGNALBOX_QUEUE_BACKOFFS": '{"slow": [10, 600, 3]}',
            "SIGNALBOX_QUEUE_SHARDS": '{"slow": 3}',
            "SIGNALBOX_PARTS": '["documents"]',
            "SIGNALBOX_TIMEOUTS": '{"albums": 60}',
            "SIGNALBOX_ELSEWHERE": '{"cards": "payments-cards"}',
        }
    )
    assert from_environment(environment_of(chosen)) == chosen
    assert (chosen.timeout_of("albums"), chosen.timeout_of("kitchen")) == (60, 540)


def test_the_platforms_project_counts_when_the_kits_own_is_not_set() -> None:
    assert from_environment({"GOOGLE_CLOUD_PROJECT": "g"}).project == "g"
    assert from_environment({"GOOGLE_CLOUD_PROJECT": "g", "SIGNALBOX_PROJECT": "s"}).project == "s"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        from_environment({}).project = "other"  # type: ignore[misc]  # the assignment is what must fail


def test_a_queue_calls_only_its_own_functions_and_as_an_account_that_it_shares_with_those_of_its_kind() -> None:
    settings = from_environment(
        {
            "SIGNALBOX_TASKS_ACCOUNT": "qu-{queue}@p.example",
            "SIGNALBOX_CALLING_QUEUES": '{"link_refresh": ["links"], "mine": ["later", "tasks", "flows"]}',
        }
    )
    assert settings.account_of("links") == settings.account_of("admit") == "qu-kit-workers@p.example"
    assert settings.account_of("objects") == "qu-tasks@p.example"
    assert settings.task_callers("link_refresh") == {"qu-kit-workers@p.example"}
    assert settings.task_callers("mine") == {"qu-later@p.example", "qu-tasks@p.example"}
    assert settings.task_callers("documents") == frozenset()


def test_one_account_for_all_queues_may_call_every_function() -> None:
    settings = from_environment({"SIGNALBOX_TASKS_ACCOUNT": "tasks@p.example"})
    assert settings.task_callers("anything") == {"tasks@p.example"}
    assert from_environment({}).task_callers("anything") == frozenset()
