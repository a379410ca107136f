"""A gcloud that answers from what exists in the stand-in's cloud, and changes it: functions, revisions, queues, data.

A backup of each database is made whenever it is asked for. A restored database has the composite indexes of the backup,
and no protection, as Google's has.

A test of a second day uses it with `project_copy.Project`: Terraform and gcloud then see the same project.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from signalbox_tools.deploy.programs import Outcome
from signalbox_tools.deploy.rollback_and_restore import SERVICE_LABEL
from tests.infra.deploy import real_gcloud
from tests.infra.deploy.gcloud import REGION
from tests.infra.deploy.scripted_programs import Script
from tests.infra.google_provider.server import GoogleProvider

FUNCTION, QUEUE, DATABASE = "google_cloudfunctions2_function", "google_cloud_tasks_queue", "google_firestore_database"
INDEX, PROTECTION = "google_firestore_index", ("point_in_time_recovery_enablement", "delete_protection_state")
BACKED_UP_AT = datetime(2026, 5, 2, 3, tzinfo=UTC)
FIRST_AT = datetime(2026, 5, 1, tzinfo=UTC)
A_DEPLOYMENT = timedelta(hours=3)


class GcloudOfTheCloud(Script):
    """Answers about the cloud of a provider; `tasks` are the addresses of waiting tasks, by queue."""

    def __init__(self, google: GoogleProvider, environment: str = "dev") -> None:
        super().__init__(
            **{
                "gcloud functions regions list": f"{REGION}\neurope-west1",
                "gcloud functions runtimes list": "python313",
            }
        )
        self.google = google
        self.labels = {"app": "signalbox", "environment": environment}
        """The provider's default labels (infra/versions.tf), which the stand-in does not add."""
        self.tasks: dict[str, list[str]] = {}
        self.deployments = 0
        self.pins: dict[str, str] = {}
        self.revisions: dict[str, list[tuple[int, str]]] = {}
        self.paused: set[str] = set()
        self._seen = 0

    def deployed(self) -> None:
        """Note the revisions that the last deployment made: Terraform sends all traffic to a function's newest one."""
        operations = self.google.cloud.operations
        for each in operations[self._seen :]:
            if each.kind == FUNCTION and each.verb != "delete":
                own = self.revisions.setdefault(each.value["name"], [])
                own.append((self.deployments, f"{each.value['name']}-{len(own) + 1:05}"))
                self.pins.pop(each.value["name"], None)
        self._seen = len(operations)
        self.deployments += 1

    def __call__(self, command: Sequence[str], **options: object) -> Outcome:
        words = [each for each in command[1:] if not each.startswith("--")]
        given = dict(each.removeprefix("--").partition("=")[::2] for each in command if each.startswith("--"))
        depth = next((size for size in (3, 2) if hasattr(self, _method(words[:size]))), 0)
        if not depth:
            return super().__call__(command, **options)
        self.asked.append(" ".join(command))
        found = getattr(self, _method(words[:depth]))(given, *words[depth:])
        return Outcome(0, found if isinstance(found, str) else json.dumps(found))

    def _existing(self, kind: str, location: str = "") -> list[dict[str, Any]]:
        found = [value for (each, _), value in self.google.cloud.existing.items() if each == kind]
        return [each for each in found if not location or each["location"] == location]

    def functions_list(self, *_: object) -> Any:
        return [
            {"name": each["id"], "labels": each["effective_labels"] | self.labels, "state": "ACTIVE"}
            for each in self._existing(FUNCTION)
        ]

    def firestore_databases_list(self, *_: object) -> Any:
        return [{"name": each["id"], "locationId": each["location_id"]} for each in self._existing(DATABASE)]

    def tasks_queues_list(self, given: dict[str, str]) -> Any:
        found = self._existing(QUEUE, given["location"])
        listed = [{"name": each["id"], "state": self._state(each, "RUNNING")} for each in found]
        return listed if given["format"] == "json" else "\n".join(each["name"] for each in found)

    def scheduler_jobs_list(self, given: dict[str, str]) -> Any:
        found = [each for each in self._existing("google_cloud_scheduler_job") if each["region"] == given["location"]]
        return [{"name": each["id"], "state": self._state(each, "ENABLED")} for each in found]

    def _state(self, value: dict[str, Any], running: str) -> str:
        return "PAUSED" if value["name"] in self.paused else running

    def tasks_queues_pause(self, _: dict[str, str], name: str) -> str:
        self.paused.add(name)
        return ""

    def tasks_queues_resume(self, _: dict[str, str], name: str) -> str:
        self.paused.remove(name)
        return ""

    scheduler_jobs_pause, scheduler_jobs_resume = tasks_queues_pause, tasks_queues_resume

    def firestore_backups_list(self, given: dict[str, str]) -> Any:
        return [
            {
                "name": f"{each['id']}/b",
                "database": each["id"],
                "state": "READY",
                "snapshotTime": BACKED_UP_AT.isoformat(),
            }
            for each in self._existing(DATABASE)
            if each["location_id"] == given["location"]
        ]

    def firestore_databases_restore(self, given: dict[str, str]) -> str:
        backup, new = given["source-backup"].removesuffix("/b"), given["destination-database"]
        existing, old = self.google.cloud.existing, backup.rpartition("/")[2]
        database = existing[DATABASE, backup]
        bare = {name: database[name].replace("ENABLED", "DISABLED") for name in PROTECTION}
        restored = backup.replace(old, new)
        existing[DATABASE, restored] = database | bare | {"id": restored, "name": new}
        for (kind, id_), value in list(existing.items()):
            if kind == INDEX and id_.startswith(f"{backup}/"):
                own = id_.replace(f"/databases/{old}/", f"/databases/{new}/")
                existing[INDEX, own] = value | {"id": own, "name": own, "database": new}
        return ""

    def firestore_indexes_composite(self, given: dict[str, str], *_: str) -> Any:
        return [
            {
                "name": each["name"],
                "fields": [
                    {"fieldPath": field["field_path"], "order": field["order"], "arrayConfig": field["array_config"]}
                    for field in each["fields"]
                ],
            }
            for each in self._existing(INDEX)
            if each["database"] == given["database"]
        ]

    def tasks_list(self, given: dict[str, str]) -> Any:
        urls = self.tasks.get(given["queue"], [])
        if urls and "filter" in given:
            selected = real_gcloud.selects(given["filter"], [{"httpRequest": {"url": each}} for each in urls])
            urls = [url for url, is_selected in zip(urls, selected, strict=True) if is_selected]
        return "\n".join(urls)

    def run_services_list(self, given: dict[str, str]) -> Any:
        return [self._service(each["name"]) for each in self._existing(FUNCTION, given["region"])]

    def _service(self, name: str) -> dict[str, Any]:
        newest = self.revisions[name][-1][1]
        pin = self.pins.get(name)
        traffic = {"revisionName": pin, "percent": 100} if pin else {"latestRevision": True, "percent": 100}
        status = {"latestReadyRevisionName": newest, "traffic": [{"revisionName": newest} | traffic]}
        return {"metadata": {"name": name}, "status": status}

    def run_revisions_list(self, *_: object) -> Any:
        return [
            {
                "metadata": {
                    "name": revision,
                    "labels": {SERVICE_LABEL: name},
                    "creationTimestamp": (FIRST_AT + at * A_DEPLOYMENT).isoformat(),
                },
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
            for name, revisions in self.revisions.items()
            for at, revision in revisions
        ]

    def run_services_update_traffic(self, given: dict[str, str], name: str) -> str:
        """Send a service's traffic to a revision, or to the newest one. A read of the function shows the difference."""
        latest = "to-latest" in given
        if latest:
            self.pins.pop(name, None)
        else:
            self.pins[name] = given["to-revisions"].partition("=")[0]

        def pin(function: dict[str, Any]) -> None:
            function["service_config"][0]["all_traffic_on_latest_revision"] = latest

        self.google.cloud.drift(FUNCTION, name, pin)
        return ""


def _method(words: Sequence[str]) -> str:
    return "_".join(words).replace("-", "_")
