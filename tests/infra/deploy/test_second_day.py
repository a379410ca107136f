"""The second day of a deployment, with the real Terraform: what a person sees who forgets the region, rolls back,
deploys another change, removes a function and destroys the environment.

`-s` prints it.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from signalbox.core.ports import Put
from signalbox.testing.memory_store import MemoryStore
from signalbox_tools.deploy import deployment_steps, deployment_target, smoke
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.deployment_steps import Deployment
from signalbox_tools.deploy.waiting_clock import Clock
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.gcloud_of_the_cloud import DATABASE, FUNCTION, QUEUE, GcloudOfTheCloud
from tests.infra.deploy.project_copy import Project
from tests.infra.google_provider.server import GoogleProvider

pytestmark = [pytest.mark.slow, pytest.mark.marathon, pytest.mark.timeout(600)]

EUROPE = "europe-west1"
FIELD, TIMES_TO_LIVE = "google_firestore_field", 8
CHANGED = ("dev-sweep", "dev-documents", "dev-batches")


class SecondDay:
    """A deployed environment of the test's own, and the person who deploys it."""

    def __init__(self, project: Project, gcloud: GcloudOfTheCloud) -> None:
        self.project, self.gcloud, self.google = project, gcloud, project.google
        self.said: list[str] = []
        self.records = MemoryStore(lambda: datetime(2026, 5, 1, tzinfo=UTC))

    def steps(self, region: str = "", *, forward: bool = False) -> Deployment:
        """Return the commands, run with this `--region`."""
        place = deployment_target.read(PROJECT, "dev", region, self.project.folder)
        clock = Clock(self.project.clock.now, self.project.clock.sleep)
        run, agree = self.project.run, lambda question: "dev" if "Type" in question else "y"
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
            file = self.project.folder / "dist" / f"{each.removeprefix('dev-').replace('-', '_')}.zip"
            file.write_bytes(file.read_bytes() + b"changed")

    def remove(self, function: str) -> None:
        """Remove a function from the catalogue."""
        file = self.project.folder / "infra" / "catalogue.yaml"
        entry = re.compile(rf"  {function}:\n(    .*\n)+")
        text, count = entry.subn("", file.read_text("utf-8"))
        assert count == 1
        file.write_text(text, "utf-8")

    def wait(self, function: str, count: int) -> None:
        """Let so many tasks of a function wait for a semaphore."""
        path = "semaphores/s"
        waiter = {"state": "waiting", "since": 1, "continuation": {"function": function, "task": "use"}}
        waiters = [Put(f"{path}/waiters/{n}", waiter if n < count else {"state": "granted"}) for n in range(5)]
        self.records.commit([Put(path, {"mode": "closed" if count else "open"}), *waiters])

    def set(self, name: str, value: str) -> None:
        """Write a setting into the environment's file."""
        deployment_target.read(PROJECT, "dev", root=self.project.folder).keep(name, value)


@pytest.fixture
def day(own_google: GoogleProvider, zips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecondDay:
    """Return an environment that was deployed twice, the second time with other code of three functions."""
    monkeypatch.setattr(deployment_steps, "build", lambda *_: [])
    monkeypatch.setattr(smoke, "passes", lambda *_: True)
    gcloud = GcloudOfTheCloud(own_google)
    made = SecondDay(Project(tmp_path / "clone", own_google, zips, gcloud), gcloud)
    made.deploy(EUROPE)
    made.change_code(*CHANGED)
    made.deploy()
    return made


def test_the_second_day_of_a_deployment(day: SecondDay) -> None:
    assert {each["location"] for (kind, _), each in day.google.cloud.existing.items() if kind == FUNCTION} == {EUROPE}
    assert 'Written into infra/environments/dev.tfvars.json: "region": "europe-west1". Commit it.' in day.said

    # The region is forgotten: the file has it, and a wrong one is refused.
    assert day.steps().plan().empty
    said = day.refused(day.steps("us-central1").deploy)
    assert "dev of demo-project is deployed in europe-west1, not in us-central1" in said
    assert "--region europe-west1" in said
    assert "database_location" not in said

    # The last deployment is rolled back, and another change does not undo that.
    day.steps().recovery.rollback()
    assert set(day.gcloud.pins) == set(CHANGED)
    day.set("alert_email", "other@example.com")
    said = day.refused(day.steps().deploy)
    assert "dev-sweep serves dev-sweep-00001; the newest is dev-sweep-00002" in said
    assert "signalbox deploy -p demo-project -e dev --region europe-west1 --forward" in said
    assert all(
        f"update-traffic {each} --to-latest --region=europe-west1 --project=demo-project" in said for each in CHANGED
    )

    # The rollback ends with a deployment that says so, and exactly the functions that were rolled back change.
    before = len(day.google.cloud.operations)
    day.change_code("dev-sweep")
    day.deploy(forward=True)
    updated = {each.value["name"] for each in day.google.cloud.operations[before:] if each.kind == FUNCTION}
    assert updated == set(CHANGED)
    assert day.gcloud.pins == {}
    assert day.steps().plan().empty

    # A function is removed while five tasks of it wait for a semaphore: no queue has them yet.
    day.remove("machines")
    day.wait("machines", 5)
    said = day.refused(day.steps().deploy)
    assert "tasks for functions that this plan removes (machines), which would be lost:\n  semaphores/s: 5 rec" in said
    day.wait("machines", 0)
    day.gcloud.tasks["dev-tasks"] = ["https://dev-machines-123.europe-west1.run.app/tasks/use"]
    said = day.refused(day.steps().deploy)
    assert "dev-tasks: https://dev-machines-123" in said
    assert "--location=europe-west1 --project=demo-project" in said
    day.gcloud.tasks.clear()
    day.deploy()
    assert "dev-machines" not in {value.get("name") for value in day.google.cloud.existing.values()}

    # The environment is destroyed: no index of a database that goes is reset, and the queues stay.
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
