"""The second day of a deployment, with the real Terraform: what a person sees who forgets the region, rolls back,
deploys another change, restores the data, removes a function and destroys the environment.

`-s` prints it.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.reading import load
from signalbox.core.kit_names import queue_of
from signalbox.core.ports import Put
from signalbox.testing.memory_store import MemoryStore
from signalbox_tools.deploy import deployment_steps, deployment_target, smoke
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.deployment_steps import Deployment
from signalbox_tools.deploy.queue_pauses import Stillness
from signalbox_tools.deploy.waiting_clock import Clock
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.gcloud_of_the_cloud import DATABASE, FUNCTION, QUEUE, GcloudOfTheCloud
from tests.infra.deploy.project_copy import Project
from tests.infra.google_provider.server import GoogleProvider

pytestmark = [pytest.mark.slow, pytest.mark.marathon, pytest.mark.timeout(1200)]

EUROPE = "europe-west1"
FIELD, TIMES_TO_LIVE = "google_firestore_field", 8
CHANGED = ("sweep", "documents", "batches")
PROTECTED = ("DELETE_PROTECTION_ENABLED", "POINT_IN_TIME_RECOVERY_ENABLED")
OLD, NEW = "signalbox-prod", "signalbox-prod-20260502-0300"


class SecondDay:
    """A deployed environment of the test's own, and the person who deploys it."""

    def __init__(self, project: Project, gcloud: GcloudOfTheCloud) -> None:
        self.project, self.gcloud, self.google = project, gcloud, project.google
        self.environment = project.environment
        self.said: list[str] = []
        self.records = MemoryStore(lambda: datetime(2026, 5, 1, tzinfo=UTC))

    def steps(self, region: str = "", *, forward: bool = False) -> Deployment:
        """Return the commands, run with this `--region`."""
        place = deployment_target.read(PROJECT, self.environment, region, self.project.folder)
        clock = Clock(self.project.clock.now, self.project.clock.sleep)
        words = deployment_steps.confirmation(place)
        run, agree = self.project.run, lambda question: words if "Type" in question else "y"
        return Deployment(
            place, self.said.append, agree, run, clock, "http://x/", forward, database=lambda *_: self.records
        )

    def deploy(self, region: str = "", *, forward: bool = False) -> None:
        assert self.steps(region, forward=forward).deploy()
        self.gcloud.deployed()

    def refused(self, step: Callable[[], object]) -> str:
        """Run a step that is refused; return the message. Nothing in the cloud has changed."""
        before = len(self.google.cloud.operations)
        with pytest.raises(Aborted) as stopped:
            step()
        assert len(self.google.cloud.operations) == before
        print(f"\n> {stopped.value}")  # noqa: T201  read with -s
        return str(stopped.value)

    def change_code(self, *functions: str) -> None:
        """Change the zips of functions."""
        for each in functions:
            file = self.project.folder / "dist" / f"{each.replace('-', '_')}.zip"
            file.write_bytes(file.read_bytes() + b"changed")

    def remove(self, function: str) -> None:
        """Remove a function from the catalogue."""
        file = self.project.folder / "infra" / "catalogue.yaml"
        entry = re.compile(rf"  {function}:\n(    .*\n)+")
        text, count = entry.subn("", file.read_text("utf-8"))
        assert count == 1
        file.write_text(text, "utf-8")

    def shard(self, queue: str, shards: int) -> None:
        """Set the number of shards of a queue in the catalogue."""
        file = self.project.folder / "infra" / "catalogue.yaml"
        entry = re.compile(rf"^  {queue}:\n(    shards: .*\n)?(?=    dispatches)", re.MULTILINE)
        text, count = entry.subn(f"  {queue}:\n    shards: {shards}\n", file.read_text("utf-8"))
        assert count == 1
        file.write_text(text, "utf-8")

    def queues(self, queue: str) -> set[str]:
        """Return the names in the cloud of a queue's shards."""
        names = {value["name"] for (kind, _), value in self.google.cloud.existing.items() if kind == QUEUE}
        return {each for each in names if queue_of(each) == queue}

    def wait(self, function: str, count: int) -> None:
        """Let so many tasks of a function wait for a semaphore."""
        path = "semaphores/s"
        waiter = {"state": "waiting", "since": 1, "continuation": {"function": function, "task": "use"}}
        waiters = [Put(f"{path}/waiters/{n}", waiter if n < count else {"state": "granted"}) for n in range(5)]
        self.records.commit([Put(path, {"mode": "closed" if count else "open"}), *waiters])

    def set(self, name: str, value: Any) -> None:
        """Write a setting into the environment's file."""
        deployment_target.read(PROJECT, self.environment, root=self.project.folder).keep(name, value)

    @property
    def stillness(self) -> Stillness:
        """The steps of `signalbox pause` and `resume`."""
        place = self.steps().target
        queues, schedules = tuple(place.catalogue.queues), tuple(place.catalogue.schedules)
        return Stillness(place, queues, schedules, self.said.append, self.project.run)

    def protection(self, database: str) -> tuple[str, ...]:
        """Return the protections that a database has."""
        found = self.google.cloud.existing[DATABASE, f"projects/{PROJECT}/databases/{database}"]
        return tuple(sorted(each for each in map(str, found.values()) if each.endswith("_ENABLED")))

    def databases_in_use(self) -> frozenset[str]:
        functions = [value for (kind, _), value in self.google.cloud.existing.items() if kind == FUNCTION]
        variables = (each["service_config"][0]["environment_variables"] for each in functions)
        return frozenset(each["SIGNALBOX_DATABASE"] for each in variables)


def made(environment: str, google: GoogleProvider, zips: Path, folder: Path, patch: pytest.MonkeyPatch) -> SecondDay:
    """Return an environment that is not deployed yet. Nothing is packaged, and a smoke test passes."""
    patch.setattr(deployment_steps, "build", lambda *_: [])
    patch.setattr(smoke, "passes", lambda *_: True)
    gcloud = GcloudOfTheCloud(google, environment)
    return SecondDay(Project(folder / "clone", google, zips, gcloud, environment), gcloud)


@pytest.fixture
def day(own_google: GoogleProvider, zips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecondDay:
    """Return a prod that was deployed twice, the second time with other code of three functions."""
    day = made("prod", own_google, zips, tmp_path, monkeypatch)
    day.set("examples", True)
    day.deploy(EUROPE)
    day.change_code(*CHANGED)
    day.deploy()
    return day


def test_the_second_day_of_a_deployment(day: SecondDay) -> None:
    assert {each["location"] for (kind, _), each in day.google.cloud.existing.items() if kind == FUNCTION} == {EUROPE}
    assert 'Written into environments/prod.tfvars.json: "region": "europe-west1". Commit it.' in day.said

    # The region is forgotten: the file has it, and a wrong one is refused.
    assert day.steps().plan().empty
    said = day.refused(day.steps("us-central1").deploy)
    assert "prod of demo-project is deployed in europe-west1, not in us-central1" in said
    assert "--region europe-west1" in said
    assert "database_location" not in said

    # The last deployment is rolled back, and another change does not undo that.
    day.steps().recovery.rollback()
    assert set(day.gcloud.pins) == set(CHANGED)
    day.set("alert_email", "other@example.com")
    said = day.refused(day.steps().deploy)
    assert "sweep serves sweep-00001; the newest is sweep-00002" in said
    assert "signalbox deploy -p demo-project -e prod --region europe-west1 --forward" in said
    assert all(
        f"update-traffic {each} --to-latest --region=europe-west1 --project=demo-project" in said for each in CHANGED
    )

    # The rollback ends with a deployment that says so, and exactly the functions that were rolled back change.
    before = len(day.google.cloud.operations)
    day.change_code("sweep")
    day.deploy(forward=True)
    updated = {each.value["name"] for each in day.google.cloud.operations[before:] if each.kind == FUNCTION}
    assert updated == set(CHANGED)
    assert day.gcloud.pins == {}
    assert day.steps().plan().empty

    # The data is restored: a wrong name is refused, and the restored database gets the protection that a backup lacks.
    day.stillness.pause()
    assert {"tasks", "sweep"} <= day.gcloud.paused
    day.set("database", NEW)
    assert f"creates an empty database in place of the database {OLD}" in day.refused(day.steps().deploy)
    day.set("database", OLD)
    day.steps().recovery.restore()
    assert f"The restore into {NEW} has begun." in day.said[-1]
    day.set("database", NEW)
    assert day.steps().adopt()
    day.gcloud.deployed()
    assert day.protection(OLD) == day.protection(NEW) == PROTECTED
    assert day.databases_in_use() == {NEW}
    day.stillness.resume()
    assert day.gcloud.paused == set()
    assert day.steps().plan().empty

    # The file of prod is changed to dev: the database would lose its protection.
    day.set("environment", "dev")
    said = day.refused(day.steps().plan)
    assert 'Write "environment": "prod" into environments/prod.tfvars.json' in said
    day.set("environment", "prod")

    # The queue of flows gets shards, and then fewer while tasks wait: the shard that goes delivers them. Only functions
    # that enqueue to it change.
    before = len(day.google.cloud.operations)
    day.shard("flows", 3)
    day.deploy()
    updated = {each.value["name"] for each in day.google.cloud.operations[before:] if each.kind == FUNCTION}
    assert updated == {each.segment for each in load().functions.values() if "flows" in each.enqueues}
    assert day.queues("flows") == {"flows", "flows-2", "flows-3"}
    day.shard("flows", 2)
    day.gcloud.tasks["flows-3"] = ["https://shop-123.europe-west1.run.app/turns"]
    day.deploy()
    assert day.queues("flows") == {"flows", "flows-2", "flows-3"}
    day.stillness.pause()
    assert {"flows", "flows-2", "flows-3"} <= day.gcloud.paused
    day.stillness.resume()
    assert day.steps().plan().empty

    # A function is removed while five tasks of it wait for a semaphore: no queue has them yet.
    day.remove("machines")
    day.wait("machines", 5)
    said = day.refused(day.steps().deploy)
    assert "tasks for functions that this plan removes (machines), which would be lost:\n  semaphores/s: 5 rec" in said
    day.wait("machines", 0)
    day.gcloud.tasks["tasks"] = ["https://machines-123.europe-west1.run.app/tasks/use"]
    said = day.refused(day.steps().deploy)
    assert "tasks: https://machines-123" in said
    assert "--location=europe-west1 --project=demo-project" in said
    day.gcloud.tasks.clear()
    day.deploy()
    assert "machines" not in {value.get("name") for value in day.google.cloud.existing.values()}

    # The environment is destroyed: prod's data stays, with its protection, its indexes and its backups.
    data = {each for each in day.google.cloud.existing if each[0].startswith("google_firestore")}
    day.steps().destroy()
    left = {kind for kind, _ in day.google.cloud.existing}
    assert FUNCTION not in left
    assert QUEUE in left
    assert data <= day.google.cloud.existing.keys()
    assert day.protection(NEW) == PROTECTED
    assert day.said[-1].startswith("What stays: ")


def test_dev_is_destroyed_with_its_data_and_no_index_of_it_is_reset(
    own_google: GoogleProvider, zips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = made("dev", own_google, zips, tmp_path, monkeypatch)
    day.deploy(EUROPE)
    before = len(day.google.cloud.operations)
    day.steps().destroy()
    reset = [
        each.value["field"]
        for each in day.google.cloud.operations[before:]
        if each.kind == FIELD and each.value["deletion_policy"] != "ABANDON"
    ]
    assert len(reset) == TIMES_TO_LIVE
    left = {kind for kind, _ in day.google.cloud.existing}
    assert FUNCTION not in left
    assert DATABASE not in left
    assert QUEUE in left
    assert day.said[-1].startswith("What stays: ")
