"""A rollback undoes the last deployment and no other; a restore leaves the database that is in use."""

import dataclasses
import json
from typing import Any

import pytest

from signalbox_tools.deploy import deployment_target, rollback_and_restore
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.deployment_steps import Deployment
from signalbox_tools.deploy.rollback_and_restore import Move, Recovery, moves, newest
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.scripted_programs import Script

SHOP = 'module.function["shop"].google_cloudfunctions2_function.function'
DEV = deployment_target.read(PROJECT, "dev")


def service(name: str, revision: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"traffic": [{"revisionName": revision, "percent": 100}]}}


def revision(of: str, number: int, at: str, ready: str = "True") -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{of}-{number}",
            "labels": {rollback_and_restore.SERVICE_LABEL: of},
            "creationTimestamp": f"2026-05-0{at}:00Z",
        },
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


SERVICES = [service("dev-sweep", "dev-sweep-3"), service("dev-batches", "dev-batches-1"), service("other", "other-2")]
REVISIONS = [
    revision("dev-sweep", 1, "1T10:00"),
    revision("dev-sweep", 2, "2T10:00", ready="False"),
    revision("dev-sweep", 3, "3T10:00"),
    revision("dev-batches", 1, "1T10:01"),
    revision("dev-batches", 0, "1T09:00"),
    revision("other", 1, "1T10:00"),
    revision("other", 2, "3T10:30"),
]


def test_what_the_last_deployment_changed_goes_back_to_the_last_revision_that_was_ready() -> None:
    found = moves({"dev-sweep", "dev-batches"}, SERVICES, REVISIONS)
    assert found == [Move("dev-sweep", "dev-sweep-3", "dev-sweep-1")]
    assert moves({"dev-nothing"}, SERVICES, REVISIONS) == []


def test_an_interrupted_rollback_continues_and_only_a_complete_one_is_followed_by_one_further_back() -> None:
    names = {"dev-a", "dev-b"}
    revisions = [revision(name, day, f"3T10:{day}0") for name in names for day in (1, 2, 3)]
    cut = [service("dev-a", "dev-a-2"), service("dev-b", "dev-b-3")]
    assert moves(names, cut, revisions) == [Move("dev-b", "dev-b-3", "dev-b-2")]
    whole = [service("dev-a", "dev-a-2"), service("dev-b", "dev-b-2")]
    assert moves(names, whole, revisions) == [
        Move("dev-a", "dev-a-2", "dev-a-1"),
        Move("dev-b", "dev-b-2", "dev-b-1"),
    ]


def test_a_rollback_moves_traffic_after_it_was_confirmed() -> None:
    listed = {"gcloud run services list": json.dumps(SERVICES), "gcloud run revisions list": json.dumps(REVISIONS)}
    script = Script(**listed, **{"gcloud run services update-traffic": ""})
    with pytest.raises(Aborted, match="not confirmed"):
        Recovery(DEV, lambda _: None, lambda _: "", script).rollback()
    assert script.count("gcloud run services update-traffic") == 0
    Recovery(DEV, lambda _: None, lambda _: "y", script).rollback()
    assert script.asked[-1].startswith("gcloud run services update-traffic dev-sweep --to-revisions=dev-sweep-1=100 ")


def pinned(name: str, **traffic: Any) -> dict[str, Any]:
    """Return a service whose newest revision is the third."""
    return {
        "metadata": {"name": name},
        "status": {"latestReadyRevisionName": f"{name}-3", "traffic": [{"percent": 100} | traffic]},
    }


@pytest.mark.parametrize("actions", [["update"], ["delete", "create"]])
@pytest.mark.parametrize("goal", ["deploy", "plan", "adopt", "saved"])
def test_no_deployment_changes_a_function_while_traffic_is_pinned(
    place: deployment_target.Target, actions: list[str], goal: str
) -> None:
    function = {"address": SHOP, "change": {"actions": actions}}
    services = [pinned("dev-sweep", revisionName="dev-sweep-2"), pinned("dev-shop", latestRevision=True)]
    changed, listed = json.dumps({"resource_changes": [function]}), json.dumps(services)
    script = Script(**{"terraform show": changed, "gcloud run services list": listed})
    steps = Deployment(place, lambda _: None, lambda _: "yes", script, base_url="http://x/")
    if goal == "saved":
        dataclasses.replace(steps, forward=True).plan()
    with pytest.raises(Aborted) as stopped:
        steps.deploy(saved=True) if goal == "saved" else getattr(steps, goal)()
    assert "  dev-sweep serves dev-sweep-2; the newest is dev-sweep-3\nIf" in str(stopped.value)
    assert f"signalbox deploy -p {PROJECT} -e dev --region us-central1 --forward" in str(stopped.value)
    assert "update-traffic dev-sweep --to-latest --region=us-central1 --project=demo-project" in str(stopped.value)
    assert script.count("terraform apply") == 0
    assert dataclasses.replace(steps, forward=True).deploy()
    assert script.count("terraform apply") == 1


@pytest.mark.parametrize("traffic", [{"latestRevision": True}, {"revisionName": "dev-sweep-3"}])
def test_a_function_that_serves_its_newest_revision_is_not_pinned(
    place: deployment_target.Target, traffic: dict[str, Any]
) -> None:
    listed = json.dumps([pinned("dev-sweep", **traffic), pinned("of-others", revisionName="of-others-1")])
    changed = json.dumps({"resource_changes": [{"address": SHOP, "change": {"actions": ["update"]}}]})
    script = Script(**{"terraform show": changed, "gcloud run services list": listed})
    assert Deployment(place, lambda _: None, lambda _: "yes", script, base_url="http://x/").deploy()


def test_the_traffic_is_not_read_for_a_plan_that_changes_no_function(place: deployment_target.Target) -> None:
    script = Script()
    assert Deployment(place, lambda _: None, lambda _: "yes", script, base_url="http://x/").deploy()
    assert script.count("gcloud run") == 0


def test_both_parts_of_an_open_function_are_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    names = "dev-quilt", "dev-quilt-tasks"
    services = [service(name, f"{name}-2") for name in names]
    revisions = [revision(name, day, f"{day}T10:00") for name in names for day in (1, 2)]
    quilt = dataclasses.replace(DEV.catalogue.functions["quilt"], auth="firebase")
    assert quilt.is_split
    catalogue = dataclasses.replace(DEV.catalogue, functions={**DEV.catalogue.functions, "quilt": quilt})
    monkeypatch.setattr(deployment_target.Target, "catalogue", property(lambda _: catalogue))
    listed = {"gcloud run services list": json.dumps(services), "gcloud run revisions list": json.dumps(revisions)}
    script = Script(**listed, **{"gcloud run services update-traffic": ""})
    Recovery(DEV, lambda _: None, lambda _: "y", script).rollback()
    assert [each.split()[4] for each in script.asked[-2:]] == list(names)


def test_a_rollback_in_a_region_without_a_function_says_where_it_looked() -> None:
    script = Script(**{"gcloud run services list": json.dumps([service("other", "other-2")])})
    with pytest.raises(Aborted, match=r"No function of dev runs in us-central1 of demo-project.*--region"):
        Recovery(DEV, lambda _: None, lambda _: "y", script).rollback()


def test_the_newest_complete_backup_is_restored_into_a_new_database() -> None:
    name = f"projects/{PROJECT}/databases/signalbox-dev"
    made = ((1, name, "READY"), (2, name, "READY"), (3, name, "CREATING"), (4, "projects/p/databases/x", "READY"))
    backups = [
        {"name": f"b/{day}", "database": database, "snapshotTime": f"2026-05-0{day}T03:00:00Z", "state": state}
        for day, database, state in made
    ]
    found = newest(backups, "signalbox-dev")
    assert found is not None
    assert found["name"] == "b/2"
    script = Script(**{"gcloud firestore backups list": json.dumps(backups), "gcloud firestore databases restore": ""})
    said: list[str] = []
    Recovery(DEV, said.append, lambda _: "y", script).restore()
    assert "restore --source-backup=b/2 --destination-database=signalbox-dev-20260502-0300 " in script.asked[-1]
    assert '"database": "signalbox-dev-20260502-0300"\nand run signalbox adopt' in said[-1]
    there = [{"name": f"projects/{PROJECT}/databases/signalbox-dev-20260502-0300"}]
    script.answers["gcloud firestore databases list"] = json.dumps(there)
    Recovery(DEV, said.append, lambda _: "", script).restore()  # again, after the command was killed
    assert script.count("gcloud firestore databases restore") == 1
    assert '"database": "signalbox-dev-20260502-0300"\nand run signalbox adopt' in said[-1]


def test_a_database_that_was_restored_before_is_restored_under_a_name_of_the_same_length() -> None:
    """A name has 63 characters at most, and each restore would add 14."""
    used = f"projects/{PROJECT}/databases/signalbox-dev-20260502-0300"
    backup = {"name": "b/9", "database": used, "state": "READY", "snapshotTime": "2026-06-09T03:00:00Z"}
    restored = dataclasses.replace(DEV, settings={"environment": "dev", "database": "signalbox-dev-20260502-0300"})
    script = Script(**{"gcloud firestore backups list": json.dumps([backup]), "gcloud firestore databases restore": ""})
    Recovery(restored, lambda _: None, lambda _: "y", script).restore()
    assert "--destination-database=signalbox-dev-20260609-0300 " in script.asked[-1]


def test_without_a_backup_nothing_is_restored() -> None:
    with pytest.raises(Aborted, match="no finished backup of signalbox-dev in us-central1"):
        Recovery(DEV, lambda _: None, lambda _: "y", Script(**{"gcloud firestore backups list": "[]"})).restore()
