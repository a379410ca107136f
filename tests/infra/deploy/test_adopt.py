"""What exists and is not in the state is taken into it: queues that a destroy kept, and what a killed apply left."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.deploy import deployment_steps, resource_adoption, smoke
from signalbox_tools.deploy.plan_summary import Plan, read
from signalbox_tools.deploy.programs import CommandFailed
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.project_copy import Project
from tests.infra.deploy.scripted_programs import Script
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.google_provider.service_requirements import NUMBERED
from tests.infra.workspace import INFRA

pytestmark = pytest.mark.slow

QUEUE = 'google_cloud_tasks_queue.queue["tasks"]'


def ids(plan: Plan) -> Mapping[str, str]:
    return resource_adoption.importable(plan, PROJECT, "us-central1")


def test_what_is_named_by_its_values_has_an_id_and_rights_have_none() -> None:
    values = {
        QUEUE: {"name": "dev-tasks", "location": "us-central1", "project": None},
        "google_storage_bucket.sources": {"name": "sources"},
        'module.function["a"].google_cloudfunctions2_function.function': {"name": "a", "location": "us-central1"},
        "google_project_iam_member.build_logs": {"role": "r", "member": "m"},
        'google_service_account.kit["build"]': {"account_id": "kit-build"},
    }
    changes = [{"address": each, "change": {"actions": ["create"], "after": after}} for each, after in values.items()]
    assert list(ids(read({"resource_changes": changes})).values()) == [
        f"projects/{PROJECT}/locations/us-central1/queues/dev-tasks",
        "sources",
        f"projects/{PROJECT}/locations/us-central1/functions/a",
        f"projects/{PROJECT}/serviceAccounts/kit-build@{PROJECT}.iam.gserviceaccount.com",
    ]


SET_AGAIN = re.compile(r"_iam_|google_project_service$|google_firestore_field$|_bucket_object$|_bucket_config$")
OTHERWISE = {"google_firestore_index", "google_firestore_backup_schedule", *NUMBERED}
"""Kinds that gcloud lists, or that Google numbers: a second one is made (infra/README.md names them)."""


def test_every_kind_of_resource_is_adopted_set_again_or_named_as_an_exception() -> None:
    files = [*INFRA.glob("*.tf"), *INFRA.glob("modules/*/*.tf"), *INFRA.glob("bootstrap/*.tf")]
    kinds = {kind for file in files for kind in re.findall(r'(?m)^resource "(google_\w+)"', file.read_text("utf-8"))}
    left = {each for each in kinds if not SET_AGAIN.search(each)} - resource_adoption.IDS.keys() - OTHERWISE
    assert left == set()


def test_a_trigger_of_eventarc_is_adopted_by_its_name() -> None:
    address = 'google_eventarc_trigger.handler["shop-ordered"]'
    after = {"name": "dev-shop-ordered", "location": "nam5"}
    plan = read({"resource_changes": [{"address": address, "change": {"actions": ["create"], "after": after}}]})
    assert ids(plan) == {address: f"projects/{PROJECT}/locations/nam5/triggers/dev-shop-ordered"}


def test_a_composite_index_is_known_by_its_fields() -> None:
    near = 'google_firestore_index.composite["signalbox-dev/near"]'
    fields = [
        {"field_path": "tags", "order": None, "array_config": "CONTAINS"},
        {"field_path": "name", "order": "ASCENDING", "array_config": ""},
    ]
    plan = Plan(created_values={near: {"collection": "documents", "fields": fields}, "a.b": {"name": "x"}})
    group = "projects/p/databases/d/collectionGroups/documents/indexes"
    other = {"name": f"{group}/1", "fields": [{"fieldPath": "name", "order": "ASCENDING"}]}
    listed = [{"fieldPath": "tags", "arrayConfig": "CONTAINS"}, {"fieldPath": "name", "order": "ASCENDING"}]
    same = {"name": f"{group}/2", "fields": [*listed, {"fieldPath": "__name__", "order": "ASCENDING"}]}
    assert resource_adoption.indexes(plan, [other, same]) == {near: f"{group}/2"}
    assert resource_adoption.indexes(plan, [other]) == {}


def test_a_backup_schedule_is_known_by_how_often_it_runs() -> None:
    schedules = [f"google_firestore_backup_schedule.{name}[0]" for name in ("daily", "weekly")]
    weekly = {"weekly_recurrence": [{"day": "SUNDAY"}], "daily_recurrence": []}
    daily: dict[str, Any] = {"weekly_recurrence": [], "daily_recurrence": [{}]}
    plan = Plan(created_values={schedules[0]: daily, schedules[1]: weekly, "a.b": {"name": "x"}})
    path = "projects/p/databases/d/backupSchedules"
    listed = [
        {"name": f"{path}/7", "weeklyRecurrence": {"day": "SUNDAY"}},
        {"name": f"{path}/1", "dailyRecurrence": {}},
    ]
    assert resource_adoption.backup_schedules(plan, listed) == {schedules[0]: f"{path}/1", schedules[1]: f"{path}/7"}
    assert resource_adoption.backup_schedules(plan, listed[:1]) == {schedules[1]: f"{path}/7"}


def test_what_is_absent_is_left_out_and_any_other_error_is_raised(tmp_path: Path) -> None:
    absent = """Error: Cannot import non-existent remote object

While attempting to import an existing object to
"google_cloud_tasks_queue.queue[\\"tasks\\"]", the provider detected that no object exists with the given id."""
    tried: list[str] = []

    def plan() -> Plan:
        tried.append((tmp_path / resource_adoption.FILE).read_text())
        if len(tried) == 1:
            raise CommandFailed(absent)
        return Plan(imported=("a.b",))

    assert resource_adoption.adopted(tmp_path, {QUEUE: "q", "a.b": "b"}, plan, CommandFailed).imported == ("a.b",)
    assert (tried[0].count("import {"), tried[1].count("import {")) == (2, 1)
    assert not (tmp_path / resource_adoption.FILE).exists()

    def fails() -> Plan:
        raise CommandFailed("Error: quota")

    with pytest.raises(CommandFailed, match="quota"):
        resource_adoption.adopted(tmp_path, {"a.b": "b"}, fails, CommandFailed)


@pytest.fixture
def project(own_google: GoogleProvider, zips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project that is prepared, in which nothing is deployed."""
    monkeypatch.setattr(deployment_steps, "build", lambda *_: [])
    monkeypatch.setattr(smoke, "passes", lambda *_: True)
    return Project(tmp_path / "clone", own_google, zips, Script())


@pytest.mark.marathon
def test_a_deployment_after_a_destroy_takes_up_the_queues(project: Project) -> None:
    steps = project.flow([], answer="dev")
    project.flow([]).deploy()
    steps.destroy()
    kept = [name.rpartition("/")[2] for kind, name in project.google.cloud.existing if kind == resource_adoption.QUEUE]
    purged = [each.split()[4] for each in project.gcloud.asked if each.startswith("gcloud tasks queues purge")]
    assert sorted(purged) == sorted(kept)

    project.gcloud.answers["gcloud tasks queues list"] = "\n".join(kept)
    said = list[str]()
    assert project.flow(said).deploy()
    adopted = [line for line in "\n".join(said).splitlines() if line.startswith("  adopts")]
    assert len(adopted) == len(kept) == len(load().queues)
    assert steps.plan().empty


LOST = (
    QUEUE,
    'google_firestore_database.database["signalbox-dev"]',
    "google_storage_bucket.sources",
    'google_service_account.kit["build"]',
    'google_cloud_scheduler_job.schedule["sweep"]',
    "google_project_iam_member.build_logs",
    'module.function["sweep"].google_cloudfunctions2_function.function',
)


@pytest.mark.marathon
def test_resources_of_a_killed_apply_are_adopted(project: Project) -> None:
    project.flow([]).deploy()
    before = frozenset(project.google.cloud.existing)
    project.terraform("state", "rm", *LOST)
    with pytest.raises(CommandFailed, match="signalbox adopt"):
        project.flow([]).deploy()
    said = list[str]()
    project.flow(said).adopt()
    adopted = {line.split()[1] for line in "\n".join(said).splitlines() if line.startswith("  adopts")}
    assert adopted <= set(LOST)
    assert adopted >= {"google_storage_bucket.sources", 'google_firestore_database.database["signalbox-dev"]'}
    assert (project.flow([]).plan().empty, frozenset(project.google.cloud.existing)) == (True, before)
    assert not any(project.folder.glob("infra/*.generated.tf"))
