"""The real gcloud takes each command that the pages print and that the tools run, and each one names its project."""

import dataclasses
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.project import KIT
from signalbox_tools.deploy import deployment_target, lost_tasks, state_bucket
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.deployment_steps import Deployment
from signalbox_tools.deploy.plan_summary import read
from signalbox_tools.deploy.programs import Outcome
from signalbox_tools.deploy.queue_pauses import Stillness
from signalbox_tools.deploy.waiting_clock import Clock
from tests.infra.deploy import real_gcloud
from tests.infra.deploy.gcloud import PROJECT, REGION
from tests.infra.deploy.scripted_programs import CREATES_ONE, Script
from tests.infra.deploy.test_deployment_steps import QUEUES, destroys, empty
from tests.infra.deploy.test_recovery import REVISIONS, SERVICES

PAGES = [KIT.root / "README.md", KIT.root / "SECURITY.md", KIT.root / "cloudbuild.yaml"]
PAGES += [*(KIT.root / "docs").rglob("*.md"), *KIT.infra.glob("*.md"), *KIT.infra.glob("*.tf")]
PRINTED = re.compile(r"`(gcloud [^`]+)`|^ *(gcloud .+)$|\$\((gcloud [^()]+)\)", re.MULTILINE)
TODAY = re.compile(r"\$\(date [^()]*\)")
LETTERS = {"topic": "projects/p/topics/t", "subscription": "projects/p/subscriptions/s", "agent": "serviceAccount:a@b"}
WITHOUT_PROJECT = ("auth", "billing", "config", "info", "projects", "storage")
"""Groups whose commands belong to no project, or name a bucket."""


def printed(text: str) -> Iterator[list[str]]:
    """Iterate over the commands of a page that have options: others only name a command."""
    for found in PRINTED.finditer(TODAY.sub("2026-05-01", text.replace("\\\n", " "))):
        command = next(filter(None, found.groups())).partition(" # ")[0].partition(" | ")[0]
        if " --" in command and "…" not in command:
            yield shlex.split(command)


def test_gcloud_takes_every_command_of_the_pages(tmp_path: Path) -> None:
    commands = [command for page in PAGES for command in printed(page.read_text("utf-8"))]
    assert len(commands) > 20
    assert real_gcloud.refused(commands, tmp_path) == []


def test_every_command_of_the_pages_names_its_project() -> None:
    for page in PAGES:
        for command in printed(page.read_text("utf-8")):
            own = any(each.startswith("--project=") for each in command)
            assert own or command[1] in WITHOUT_PROJECT, f"{page.name}: {' '.join(command)}"


def test_gcloud_takes_every_command_that_the_tools_run_or_print(
    place: deployment_target.Target, tmp_path: Path
) -> None:
    """Of a day with a deployment, a pause, a rollback and a restore, and of one that is refused."""
    backup = {"name": "projects/p/locations/l/backups/b", "database": f"x/databases/{place.database}", "state": "READY"}
    script = Script(
        **QUEUES,
        **{
            "terraform show": destroys("old"),
            "terraform output": json.dumps({"dead_letters": {"value": LETTERS}}),
            "gcloud tasks list": "https://x",
            "gcloud run services list": json.dumps(SERVICES),
            "gcloud run revisions list": json.dumps(REVISIONS),
            "gcloud run services update-traffic": "",
            "gcloud firestore backups list": json.dumps([backup | {"snapshotTime": "2026-05-02T03:00:00Z"}]),
            "gcloud firestore databases restore": "",
            "gcloud firestore databases update": "",
            "gcloud firestore indexes composite list": "[]",
            "gcloud firestore backups schedules list": "[]",
            "gcloud scheduler jobs list": listed("jobs", place.catalogue.schedules),
            "gcloud tasks queues list --format=json": listed("queues", place.catalogue.queues),
            "gcloud scheduler jobs pause": "",
            "gcloud tasks queues pause": "",
        },
    )
    said: list[str] = []
    steps = Deployment(place, said.append, lambda _: "y", script, Clock(sleep=lambda _: None), "http://x/")
    with pytest.raises(Aborted) as stopped:
        dataclasses.replace(steps, database=empty).plan()
    said.append(str(stopped.value))
    script.answers["terraform show"] = CREATES_ONE
    assert steps.adopt()
    dataclasses.replace(steps, agree=lambda _: "dev").destroy()
    steps.recovery.rollback()
    steps.recovery.restore()
    Stillness(place, tuple(place.catalogue.queues), tuple(place.catalogue.schedules), said.append, script).pause()
    state_bucket.make_bucket(place, script)
    commands = [each for each in script.commands if each[0] == "gcloud"]
    assert len({tuple(each[1:4]) for each in commands}) > 25
    commands += [command for text in said for command in printed(place.complete(text))]
    assert real_gcloud.refused(commands, tmp_path) == []
    for text in said:
        assert [each for each in map(" ".join, printed(text)) if "--project=" not in each] == []


@pytest.mark.slow
def test_the_real_gcloud_finds_the_one_task_of_a_removed_function_behind_thirty_others(
    place: deployment_target.Target, tmp_path: Path
) -> None:
    """It reads as many tasks as a limit says, and only then filters."""
    lost = read(json.loads(destroys("old", "quilt_tasks")))
    others = [f"https://dev-shop-1.{REGION}.run.app/tasks/{n}" for n in range(30)]
    script = Script(**{"gcloud tasks queues list": "dev-tasks"})

    def run(command: Sequence[str], **options: Any) -> Outcome:
        return (script if "queues" in command else real)(command, **options)

    with real_gcloud.with_tasks(others, tmp_path) as real:
        assert lost_tasks.refuse_lost_tasks(place, lost, run) == []
    own = f"https://dev-old-1.{REGION}.run.app/tasks/use"
    with real_gcloud.with_tasks([*others, own], tmp_path) as real, pytest.raises(Aborted, match=f"dev-tasks: {own}\n"):
        lost_tasks.refuse_lost_tasks(place, lost, run)


def test_a_shard_that_a_plan_gives_up_may_deliver_its_tasks_while_its_queue_stays(
    place: deployment_target.Target,
) -> None:
    """All queues stay in Cloud Tasks. The functions and the account that this one needs stay only with its queue."""
    script = Script(**{"gcloud tasks queues list": "dev-flows\ndev-flows-2", "gcloud tasks list": "https://x"})
    assert lost_tasks.refuse_lost_tasks(place, read(without_shard(["no-op"])), script) == []
    assert script.asked == []
    with pytest.raises(Aborted, match="dev-flows-2: https://x\n"):
        lost_tasks.refuse_lost_tasks(place, read(without_shard(["delete"])), script)


@pytest.mark.parametrize("lost", ["a function", "a function and the shard", "the queue"])
def test_a_plan_that_loses_the_tasks_of_a_shard_that_the_catalogue_no_longer_has_is_refused(
    place: deployment_target.Target, lost: str
) -> None:
    """The shard stays in Cloud Tasks with its tasks, whether this plan gives it up or an earlier one did."""
    script = Script(**{"gcloud tasks queues list": "dev-flows dev-flows-2 flows-3", "gcloud tasks list": "https://x"})
    function = json.loads(destroys("old"))["resource_changes"] if "function" in lost else []
    queue, shard = without_shard(["no-op" if function else "delete"])["resource_changes"]
    plan = {"resource_changes": [*function, queue, *([shard] if "shard" in lost else [])]}
    with pytest.raises(Aborted, match="dev-flows: https://x\n  dev-flows-2: https://x\nDeploy"):
        lost_tasks.refuse_lost_tasks(place, read(plan), script)


def without_shard(queue: list[str]) -> dict[str, Any]:
    """Return a plan that destroys a shard of the queue of flows, and does this with the queue."""
    actions = {"flows": queue, "flows-2": ["delete"]}
    return {
        "resource_changes": [
            {
                "address": f'google_cloud_tasks_queue.queue["{name}"]',
                "change": {"actions": each, "before": {"name": f"dev-{name}", "location": REGION}, "after": None},
            }
            for name, each in actions.items()
        ]
    }


def listed(kind: str, names: Iterable[str]) -> str:
    path = f"projects/{PROJECT}/locations/{REGION}/{kind}/dev-"
    return json.dumps([{"name": path + name.replace("_", "-"), "state": "RUNNING"} for name in names])
