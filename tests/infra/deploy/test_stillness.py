"""Pausing stops schedules before queues, resuming starts queues first, and both leave alone what is as it should be."""

import json

import pytest

from signalbox_infra.deploy import target
from signalbox_infra.deploy.commands import CommandFailed
from signalbox_infra.deploy.stillness import Stillness
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.script import Script

WHERE = f"--location=us-central1 --project={PROJECT}"
JOBS = [
    {"name": f"projects/{PROJECT}/locations/us-central1/jobs/{name}", "state": state}
    for name, state in (("dev-sweep", "ENABLED"), ("dev-verify", "PAUSED"), ("prod-of-others", "ENABLED"))
]
QUEUES = [
    {"name": f"projects/{PROJECT}/locations/us-central1/queues/{name}", "state": state}
    for name, state in (("dev-tasks", "RUNNING"), ("dev-links", "PAUSED"), ("tasks", "RUNNING"))
]


@pytest.fixture
def script() -> Script:
    listed = {"gcloud scheduler jobs list": json.dumps(JOBS), "gcloud tasks queues list": json.dumps(QUEUES)}
    changed = ("scheduler jobs pause", "scheduler jobs resume", "tasks queues pause", "tasks queues resume")
    return Script(**listed, **{f"gcloud {each}": "" for each in changed})


def changes(script: Script) -> list[str]:
    return [
        each.removeprefix("gcloud ").removesuffix(f" --quiet {WHERE}") for each in script.asked if "list" not in each
    ]


def test_pausing_stops_the_schedules_and_then_the_queues_of_this_environment(script: Script) -> None:
    said: list[str] = []
    Stillness(target.read(PROJECT, "dev"), said.append, script).pause()
    assert changes(script) == ["scheduler jobs pause dev-sweep", "tasks queues pause dev-tasks"]
    assert said[0].startswith("Paused 1 schedules and 1 queues.\nDeliveries that have begun end")


def test_resuming_starts_the_queues_and_then_the_schedules(script: Script) -> None:
    said: list[str] = []
    Stillness(target.read(PROJECT, "dev"), said.append, script).resume()
    assert changes(script) == ["tasks queues resume dev-links", "scheduler jobs resume dev-verify"]
    assert said == ["Resumed 1 queues and 1 schedules."]


def test_what_gcloud_refuses_ends_it(script: Script) -> None:
    script.answers["gcloud tasks queues pause"] = None
    with pytest.raises(CommandFailed, match="refused"):
        Stillness(target.read(PROJECT, "dev"), print, script).pause()
