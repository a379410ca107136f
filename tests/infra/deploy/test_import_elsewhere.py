"""A region is down: the export of its database is imported elsewhere, with the commands of docs/region-outage.md.

The real Terraform deploys both environments on the stand-in. The schedule that it creates exports the records of a
stand-in for Firestore, if its account has the rights for it. `-s` prints the commands.
"""

import base64
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from signalbox_tools.deploy import deployment_steps, deployment_target, smoke
from signalbox_tools.deploy.programs import Outcome
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.gcloud_of_the_cloud import DATABASE, FUNCTION, GcloudOfTheCloud
from tests.infra.deploy.project_copy import Project
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import INFRA

pytestmark = [pytest.mark.slow, pytest.mark.marathon, pytest.mark.timeout(600)]

PAGE = INFRA.parent / "docs" / "region-outage.md"
OLD, NEW, EAST = "signalbox-prod", "signalbox-east", "us-east4"
Records = dict[str, dict[str, Any]]


class GcloudOfExports(GcloudOfTheCloud):
    """Has databases with records, and a bucket with exports of them."""

    def __init__(self, google: GoogleProvider) -> None:
        super().__init__(google, "prod")
        self.records: dict[str, Records] = {OLD: {}}
        self.exports: dict[str, Records] = {}
        self.complete: set[str] = set()
        self.began_at = datetime.fromisoformat("2026-11-28T03:00:00")

    def scheduler_jobs_run(self, _: dict[str, str], name: str) -> str:
        """Call what the schedule calls, as its account."""
        [job] = [each for each in self._existing("google_cloud_scheduler_job") if each["name"] == name]
        [target] = job["http_target"]
        [token] = target["oauth_token"]
        path = re.fullmatch(r"https://firestore\.googleapis\.com/v1/(projects/.+):exportDocuments", target["uri"])
        assert path is not None
        bucket = json.loads(base64.b64decode(target["body"]))["outputUriPrefix"].removeprefix("gs://")
        member = f"serviceAccount:{token['service_account_email']}"
        assert self._granted("google_project_iam_member", member, "roles/datastore.importExportAdmin", path[1])
        assert self._granted("google_storage_bucket_iam_member", member, "roles/storage.admin", bucket)
        self.began_at += timedelta(days=1)
        folder = f"gs://{bucket}/{self.began_at.isoformat()}_12345"
        self.exports[folder] = dict(self.records[path[1].rpartition("/")[2]])
        return ""

    def _granted(self, kind: str, member: str, role: str, resource: str) -> bool:
        """Return whether a member has a role on a bucket, or one whose condition admits a resource."""
        own = [each for each in self._existing(kind) if (each["member"], each["role"]) == (member, role)]
        return any(
            each.get("bucket") == resource
            or [f'resource.name == "{resource}"']
            == [condition["expression"] for condition in each.get("condition", ())]
            for each in own
        )

    def firestore_operations_list(self, *_: object) -> Any:
        """Exports end when they are looked at."""
        self.complete |= self.exports.keys()
        return []

    def storage_ls(self, _: dict[str, str], pattern: str) -> str:
        bucket = pattern.partition("/*")[0]
        files = [f"{each}/{each.rpartition('/')[2]}.overall_export_metadata" for each in sorted(self.complete)]
        return "\n".join(each for each in files if each.startswith(f"{bucket}/"))

    def firestore_databases_create(self, given: dict[str, str]) -> str:
        id_ = f"projects/{PROJECT}/databases/{given['database']}"
        made = {"id": id_, "name": given["database"], "location_id": given["location"], "deletion_policy": "DELETE"}
        assert (DATABASE, id_) not in self.google.cloud.existing
        self.google.cloud.existing[DATABASE, id_] = made
        self.records[given["database"]] = {}
        return ""

    def firestore_import(self, given: dict[str, str], folder: str) -> str:
        assert folder in self.complete
        self.records[given["database"]] |= self.exports[folder]
        return ""


class Person:
    """Runs the commands of a section of the page, one after another."""

    def __init__(self, projects: Mapping[str, Project], gcloud: GcloudOfExports) -> None:
        self.projects, self.gcloud = projects, gcloud
        self.deployed: list[str] = []

    def follow(self, section: str) -> None:
        """Run the only block of a section. EXPORT is the folder that the command before has listed last."""
        text = PAGE.read_text("utf-8").partition(f"{section}\n")[2]
        [commands, *_] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        newest = ""
        for line in commands.replace("my-project", PROJECT).splitlines():
            command = [each.replace("EXPORT", newest) for each in shlex.split(line)]
            print(f"> {shlex.join(command)}")  # noqa: T201  read with -s
            if command[0] == "signalbox":
                self.deploy(command)
                continue
            outcome = self.gcloud(command)
            assert outcome == Outcome(0, outcome.text)
            if "overall_export_metadata" in outcome.text:
                newest = outcome.text.splitlines()[-1].split("/")[-2]

    def deploy(self, command: Sequence[str]) -> None:
        assert command[1:5] == ["deploy", "-p", PROJECT, "-e"]
        assert self.projects[command[5]].flow([]).deploy()
        self.deployed.append(command[5])


@pytest.fixture
def person(own_google: GoogleProvider, zips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Return a person with a deployed prod, whose file asks for exports as the page shows it."""
    monkeypatch.setattr(deployment_steps, "build", lambda *_: [])
    monkeypatch.setattr(smoke, "passes", lambda *_: True)
    gcloud = GcloudOfExports(own_google)
    gcloud.answers["gcloud functions regions list"] = f"us-central1\n{EAST}"
    gcloud.answers["gcloud tasks locations list"] = f"us-central1\n{EAST}"
    gcloud.answers["gcloud scheduler locations list"] = f"us-central1\n{EAST}"
    prod, east = (Project(tmp_path / name, own_google, zips, gcloud, name) for name in ("prod", "east"))
    file, exports = re.findall(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    write_settings(prod, **json.loads(f"{{{exports}}}"))
    write_settings(east, **json.loads(file) | {"database": NEW, "database_location": EAST})
    assert prod.flow([]).deploy()
    return Person({"prod": prod, "east": east}, gcloud)


def write_settings(project: Project, **settings: Any) -> None:
    """Write settings into the file of a project's environment, which begins as that of the kit, if the kit has one."""
    file = project.folder / "environments" / f"{project.environment}.tfvars.json"
    kits = project.folder / "infra" / "environments" / file.name
    there: dict[str, Any] = next((json.loads(each.read_text("utf-8")) for each in (file, kits) if each.exists()), {})
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(there | settings), "utf-8")


def test_a_region_is_down_and_its_newest_export_is_imported_elsewhere(person: Person) -> None:
    east, gcloud = person.projects["east"], person.gcloud
    cloud = gcloud.google.cloud
    gcloud.records[OLD] |= {"documents/old": {"n": 1}}
    person.follow("## Exports to another region")
    gcloud.records[OLD] |= {"documents/new": {"n": 2}}
    gcloud.scheduler_jobs_run({}, "signalbox-export")
    gcloud.firestore_operations_list()
    gcloud.records[OLD] |= {"documents/lost": {"n": 3}}
    gcloud.scheduler_jobs_run({}, "signalbox-export")  # the region goes down during this export

    person.follow("### Import one")
    assert person.deployed == ["east"]
    assert gcloud.records[NEW] == {"documents/old": {"n": 1}, "documents/new": {"n": 2}}
    functions = [value for (kind, _), value in cloud.existing.items() if kind == FUNCTION]
    used = {
        (each["location"], each["service_config"][0]["environment_variables"]["SIGNALBOX_DATABASE"])
        for each in functions
    }
    assert used == {("us-central1", OLD), (EAST, NEW)}
    place = deployment_target.read(PROJECT, "east", root=east.folder)
    assert (place.region, place.database, place.database_location) == (EAST, NEW, EAST)
    assert east.flow([]).plan().empty
    released = {value["name"] for (kind, _), value in cloud.existing.items() if kind == "google_firebaserules_release"}
    assert f"cloud.firestore/{NEW}" in released
