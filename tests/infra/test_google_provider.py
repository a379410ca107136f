"""The fake provider refuses what the services refuse: otherwise the tests in this folder would prove little."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.infra.google_provider import service_requirements
from tests.infra.google_provider.argument_refusals import refusals
from tests.infra.google_provider.resource_values import attributes, empty, nested
from tests.infra.google_provider.server import SCHEMA
from tests.infra.google_provider.servicer import Cloud
from tests.infra.workspace import INFRA

pytestmark = pytest.mark.slow

RESOURCES: dict[str, Any] = json.loads(SCHEMA.read_text("utf-8"))["resources"]
FUNCTION = "google_cloudfunctions2_function"
SERVICE = ("service_config",)


def value(kind: str, within: tuple[str, ...] = (), **given: Any) -> dict[str, Any]:
    """Return a resource of which only this is set, or that is set within a block of it."""
    block = RESOURCES[kind]
    for name in within:
        block = nested(block)[name]["block"]
    made = empty(block) | given
    return value(kind, within[:-1], **{within[-1]: [made]}) if within else made


@pytest.mark.parametrize(
    ("kind", "wrong", "complaint"),
    [
        ("google_service_account", {"account_id": "quilt"}, "account_id of google_service_account must match"),
        ("google_service_account", {"account_id": "fn-" + "a" * 28}, "account_id of google_service_account must match"),
        ("google_cloud_tasks_queue", {"name": "semaphore_admit"}, "name of google_cloud_tasks_queue must match"),
        ("google_cloud_tasks_queue", {"within": ("retry_config",), "min_backoff": "0.2"}, "min_backoff of"),
        (FUNCTION, {"name": "a" * 64}, "name of google_cloudfunctions2_function must match"),
        (FUNCTION, {"within": SERVICE, "ingress_settings": "NOBODY"}, "expected ingress_settings to be one of"),
        (FUNCTION, {"within": SERVICE, "available_memory": "512"}, "available_memory of"),
        (
            FUNCTION,
            {"within": SERVICE, "available_cpu": "0.5", "max_instance_request_concurrency": 2},
            "concurrency 2 needs at least one CPU",
        ),
        (
            "google_firestore_index",
            {"within": ("fields",), "order": "ASCENDING", "array_config": "CONTAINS"},
            "google_firestore_index takes exactly one of",
        ),
        (
            "google_cloud_scheduler_job",
            {"within": ("http_target",), "oidc_token": [{}], "oauth_token": [{}]},
            "google_cloud_scheduler_job takes at most one of",
        ),
        ("google_storage_bucket_object", {"source": "a", "content": "b"}, "takes exactly one of"),
    ],
)
def test_what_a_service_would_refuse_is_refused(kind: str, wrong: Mapping[str, Any], complaint: str) -> None:
    assert complaint in " ".join(text for text, _ in refusals(kind, value(kind, **wrong), RESOURCES[kind]))


def test_an_event_is_handled_in_nine_minutes() -> None:
    wrong = value(FUNCTION, SERVICE, timeout_seconds=600) | {"event_trigger": [{}]}
    assert "an event is handled within 540 seconds, got 600" in [text for text, _ in refusals(FUNCTION, wrong, {})]


def test_creating_what_exists_is_refused() -> None:
    cloud = Cloud()
    queue = {"id": "projects/p/locations/l/queues/tasks"}
    assert cloud.record("create", "google_cloud_tasks_queue", queue) is None
    refused = cloud.record("create", "google_cloud_tasks_queue", queue)
    assert refused
    assert "already exists" in refused.text
    assert cloud.record("delete", "google_cloud_tasks_queue", queue) is None
    assert [each.verb for each in cloud.operations] == ["create", "delete"]


def test_the_fake_provider_knows_of_every_kind_what_replaces_it() -> None:
    assert set(service_requirements.REPLACED_BY) == set(RESOURCES)
    unknown = [
        (kind, name)
        for kind, names in service_requirements.REPLACED_BY.items()
        for name in names - attributes(RESOURCES[kind]).keys() - nested(RESOURCES[kind]).keys()
    ]
    assert unknown == []


def test_the_schema_holds_what_the_files_use_and_nothing_else() -> None:
    text = "\n".join(path.read_text("utf-8") for path in INFRA.rglob("*.tf"))
    assert [kind for kind in RESOURCES if f'resource "{kind}"' not in text] == []
    known = [*RESOURCES, "terraform_data"]  # Terraform's own needs no provider
    assert text.count('resource "') == sum(text.count(f'resource "{kind}"') for kind in known)
