"""Pausing stops schedules before queues, resuming starts queues first, and both leave alone what is as it should be."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.cli.main import main
from signalbox_tools.deploy import deployment_target, programs
from signalbox_tools.deploy.programs import CommandFailed
from signalbox_tools.deploy.queue_pauses import Stillness
from signalbox_tools.local import queue_pauses as local
from signalbox_tools.local.folder.running_stack import RunningStack
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.scripted_programs import Script

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


def stillness(script: Script, say: Callable[[str], None]) -> Stillness:
    """Return the steps for all queues and schedules."""
    place = deployment_target.read(PROJECT, "dev")
    return Stillness(place, tuple(place.catalogue.queues), tuple(place.catalogue.schedules), say, script)


def test_pausing_stops_the_schedules_and_then_the_queues_of_this_environment(script: Script) -> None:
    said: list[str] = []
    stillness(script, said.append).pause()
    assert changes(script) == ["scheduler jobs pause dev-sweep", "tasks queues pause dev-tasks"]
    assert said[0].startswith("Paused 1 schedule and 1 queue.\nDeliveries that have begun end")


def test_resuming_starts_the_queues_and_then_the_schedules(script: Script) -> None:
    said: list[str] = []
    stillness(script, said.append).resume()
    assert changes(script) == ["tasks queues resume dev-links", "scheduler jobs resume dev-verify"]
    assert said == ["Resumed 1 queue and 1 schedule."]


@pytest.mark.parametrize("name", ["pause", "resume"])
@pytest.mark.parametrize("answer", ["scheduler jobs list", "tasks queues list"])
def test_a_region_without_any_of_them_is_an_error_that_says_where_it_looked(
    script: Script, name: str, answer: str
) -> None:
    script.answers[f"gcloud {answer}"] = "[]"
    said: list[str] = []
    what = "schedule" if "jobs" in answer else "queue"
    with pytest.raises(CommandFailed, match=f"no {what} of dev in us-central1 of {PROJECT}.*--region"):
        getattr(stillness(script, said.append), name)()
    assert said == []


def test_what_gcloud_refuses_ends_it(script: Script) -> None:
    script.answers["gcloud tasks queues pause"] = None
    with pytest.raises(CommandFailed, match="refused"):
        stillness(script, print).pause()


def test_a_queue_is_paused_with_all_shards_that_the_region_has(script: Script) -> None:
    named = [
        f"projects/{PROJECT}/locations/us-central1/queues/{each}" for each in ("dev-flows", "dev-flows-2", "flows-2")
    ]
    script.answers["gcloud tasks queues list"] = json.dumps([{"name": each, "state": "RUNNING"} for each in named])
    Stillness(deployment_target.read(PROJECT, "dev"), ("flows",), (), print, script).pause()
    assert changes(script) == ["tasks queues pause dev-flows", "tasks queues pause dev-flows-2"]


@pytest.mark.parametrize(
    ("options", "changed", "said"),
    [
        (("--queue=tasks",), ["tasks queues pause dev-tasks"], "Paused 0 schedules and 1 queue."),
        (("--schedule=sweep",), ["scheduler jobs pause dev-sweep"], "Paused 1 schedule and 0 queues."),
        (("--queue=tasks", "--schedule=verify"), ["tasks queues pause dev-tasks"], "Paused 0 schedules and 1 queue."),
        ((), ["scheduler jobs pause dev-sweep", "tasks queues pause dev-tasks"], "Paused 1 schedule and 1 queue."),
    ],
)
def test_the_command_pauses_what_it_names_or_all(
    script: Script,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    changed: list[str],
    said: str,
) -> None:
    monkeypatch.setattr(programs, "run", script)
    assert main(["pause", *options, "-p", PROJECT]) == 0
    assert [each for each in changes(script) if "pause" in each] == changed
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize(("option", "kind"), [("--queue=dev-tasks", "queue"), ("--schedule=swep", "schedule")])
def test_the_command_refuses_a_name_that_the_catalogue_lacks(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, kind: str
) -> None:
    monkeypatch.setattr(programs, "run", script)
    assert main(["pause", option, "-p", PROJECT]) == 2
    assert f"the catalogue has no {kind} '{option.partition('=')[2]}'. It has " in capsys.readouterr().err
    assert changes(script) == []


def test_a_queue_of_the_local_stack_is_paused_with_all_shards_that_the_stack_has(queues: list[str]) -> None:
    assert main(["pause", "--queue", "tasks"]) == 0
    assert queues == ["pause_queue tasks", "pause_queue tasks-2"]


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return what a local stack's queues were told; its folder is `tmp_path`."""
    told: list[str] = []

    class Client:
        def list_queues(self, parent: str) -> list[SimpleNamespace]:
            return [SimpleNamespace(name=f"{parent}/queues/{name}") for name in (*load().queues, "tasks-2", "another")]

        def __getattr__(self, method: str) -> Callable[..., None]:
            return lambda name: told.append(f"{method} {name.rpartition('/')[2]}")

    monkeypatch.setattr(local, "queues_client", lambda _: Client())
    monkeypatch.setattr(RunningStack, "of", lambda _: RunningStack(str(tmp_path), 1, "", "", "", "", {}))
    return told


def test_the_command_pauses_what_it_names_or_all_of_the_local_stack(
    queues: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pause", "--queue", "links", "--schedule", "sweep"]) == 0
    assert (queues, [each.name for each in tmp_path.iterdir()]) == (["pause_queue links"], ["sweep.schedule-paused"])
    assert main(["pause"]) == 0
    assert {each.name for each in tmp_path.iterdir()} == {f"{name}.schedule-paused" for name in load().schedules}
    assert main(["resume", "--schedule", "sweep"]) == 0
    assert not (tmp_path / "sweep.schedule-paused").exists()
    assert main(["resume"]) == 0
    assert list(tmp_path.iterdir()) == []
    shards = (*load().queues, "tasks-2")  # the catalogue had two shards of it when a task was enqueued
    assert queues == [
        *("pause_queue links", *(f"pause_queue {name}" for name in shards)),
        *(f"resume_queue {name}" for name in shards),
    ]
    assert "Paused 1 schedule and 1 queue of the local stack.\n" in capsys.readouterr().out
