"""A restore from the backup of prod: pause, restore, switch, adopt, with the real Terraform.

The stand-in's restored database has the composite indexes of the backup, as Google's does, and each function, field and
index takes its time. `signalbox restore` itself waits for Google's operation, which depends on the data and is not
measured.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.deploy import deployment_steps, deployment_target, smoke
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.queue_pauses import Stillness
from signalbox_tools.deploy.rollback_and_restore import Recovery
from tests.infra.deploy.gcloud import PROJECT, REGION
from tests.infra.deploy.project_copy import Project
from tests.infra.deploy.scripted_programs import Script
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.google_provider.service_delays import Delays
from tests.infra.google_provider.service_requirements import API_OF

pytestmark = [pytest.mark.slow, pytest.mark.marathon, pytest.mark.timeout(600)]

OLD, NEW = "signalbox-prod", "signalbox-prod-20260502-0300"
BACKUP = f"projects/{PROJECT}/locations/{REGION}/backups/b"
DATABASE = 'google_firestore_database.database["{}"]'
PROTECTION = ("point_in_time_recovery_enablement", "delete_protection_state")
INDEX = "google_firestore_index"


@pytest.fixture
def project(own_google: GoogleProvider, zips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project whose prod is deployed, and has a backup."""
    monkeypatch.setattr(deployment_steps, "build", lambda *_: [])
    monkeypatch.setattr(smoke, "passes", lambda *_: True)
    backup = {"name": BACKUP, "database": f"projects/{PROJECT}/databases/{OLD}", "state": "READY"}
    gcloud = Script(
        **{
            "gcloud firestore backups list": json.dumps([backup | {"snapshotTime": "2026-05-02T03:00:00Z"}]),
            "gcloud firestore databases restore": "",
            "gcloud scheduler jobs list": _listed("jobs", load().schedules, "ENABLED"),
            "gcloud tasks queues list --format=json": _listed("queues", load().queues, "RUNNING"),
            "gcloud scheduler jobs pause": "",
            "gcloud tasks queues pause": "",
        }
    )
    project = Project(tmp_path / "clone", own_google, zips, gcloud, "prod")
    catalogue = project.folder / "infra" / "catalogue.yaml"
    near = "indexes:\n  near: {collection: documents, fields: [zipcode, -name]}\n"
    catalogue.write_text(catalogue.read_text("utf-8").replace("indexes: {}\n", near), "utf-8")
    assert project.flow([]).deploy()
    own_google.cloud.delays = delays = Delays(0, project.clock)
    delays.known_at |= {api: 0.0 for apis in API_OF.values() for api in apis}
    return project


def test_a_restored_database_is_taken_into_use(project: Project) -> None:
    place = deployment_target.read(PROJECT, "prod", root=project.folder)
    before = {each for each in project.google.cloud.existing if each[0].startswith("google_firestore")}
    said: list[str] = []
    queues, schedules = tuple(place.catalogue.queues), tuple(place.catalogue.schedules)
    Stillness(place, queues, schedules, said.append, project.run).pause()
    Recovery(place, said.append, lambda _: "y", project.run).restore()
    assert project.gcloud.count("gcloud scheduler jobs pause") == len(load().schedules)
    assert project.gcloud.count("gcloud firestore databases restore") == 1
    deployment_target.read(PROJECT, "prod", root=project.folder).keep("database", NEW)
    with pytest.raises(Aborted, match=f"creates an empty database in place of the database {OLD}"):
        project.flow(said).deploy()  # the name is wrong, or the restore has not begun
    _restore(project)

    began = project.clock.now()
    assert project.flow(said).adopt()
    minutes = (project.clock.now() - began) / 60
    assert project.flow([]).plan().empty

    cloud = project.google.cloud
    used = {
        value["service_config"][0]["environment_variables"]["SIGNALBOX_DATABASE"]
        for (kind, _), value in cloud.existing.items()
        if kind == "google_cloudfunctions2_function"
    }
    assert used == {NEW}
    restored = cloud.existing["google_firestore_database", f"projects/{PROJECT}/databases/{NEW}"]
    assert restored["point_in_time_recovery_enablement"] == "POINT_IN_TIME_RECOVERY_ENABLED"
    assert restored["delete_protection_state"] == "DELETE_PROTECTION_ENABLED"
    managed = project.terraform("state", "list").text.splitlines()
    assert [each for each in managed if each.startswith("google_firestore_database")] == [DATABASE.format(NEW)]
    released = {value["name"] for (kind, _), value in cloud.existing.items() if kind == "google_firebaserules_release"}
    assert released == {f"cloud.firestore/{OLD}", f"cloud.firestore/{NEW}"}
    assert before <= cloud.existing.keys()  # the old database keeps its data, indexes and settings
    rebuilt = sum(each.verb == "update" and each.kind.endswith("2_function") for each in cloud.operations)
    print(f"switched in {minutes:.0f} minutes, {rebuilt} functions")  # noqa: T201  read with -s; time is not asserted


def _listed(kind: str, names: Any, state: str) -> str:
    path = f"projects/{PROJECT}/locations/{REGION}/{kind}"
    return json.dumps([{"name": f"{path}/{name.replace('_', '-')}", "state": state} for name in names])


def _restore(project: Project) -> None:
    """Make the restored database, with the old one's composite indexes; gcloud lists those."""
    cloud, listed = project.google.cloud, []
    for (kind, name), value in list(cloud.existing.items()):
        if kind == "google_firestore_database":
            bare = {name: text.replace("ENABLED", "DISABLED") for name, text in value.items() if name in PROTECTION}
            cloud.existing[kind, name.replace(OLD, NEW)] = value | bare | {"id": name.replace(OLD, NEW), "name": NEW}
        if kind == INDEX:
            own = name.replace(f"/databases/{OLD}/", f"/databases/{NEW}/")
            cloud.existing[kind, own] = value | {"id": own, "name": own, "database": NEW}
            fields = [
                {"fieldPath": each["field_path"], "order": each["order"], "arrayConfig": each["array_config"]}
                for each in value["fields"]
            ]
            listed.append({"name": own, "fields": fields})
    assert listed
    databases = [{"name": f"projects/{PROJECT}/databases/{each}", "locationId": REGION} for each in (OLD, NEW)]
    project.gcloud.answers["gcloud firestore databases list"] = json.dumps(databases)
    project.gcloud.answers["gcloud firestore indexes composite list"] = json.dumps(listed)
