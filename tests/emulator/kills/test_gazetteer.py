"""The main job on the real stack, with functions killed while they load and while copies follow."""

import os
import subprocess
import sys

import pytest

from examples.gazetteer import report
from examples.gazetteer.data import gazetteer
from examples.gazetteer.job import Job, Phase
from examples.gazetteer.sites import LocalSite
from examples.gazetteer.steps import Step, plan
from signalbox.client import Client
from signalbox_tools.local.stack import Stack

pytestmark = pytest.mark.slow

CITIES = 100


class Killer:
    """Watches the job, and kills the functions once at each of three moments."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.moments = [
            ("load", "write", 0.5),
            ("rename a country", "write", 1.0),
            ("rename a continent", "follow", 0.0),
        ]

    def __call__(self, step: Step, phase: Phase, done: int, total: int) -> None:
        due = [moment for moment in self.moments if moment[:2] == (step.name, phase) and done >= moment[2] * total]
        for moment in due:
            self.moments.remove(moment)
            self.stack.kill("functions")


@pytest.mark.marathon
def test_every_copy_is_true_although_functions_are_killed_in_a_load_and_in_fan_outs(
    killable: Stack, client: Client
) -> None:
    documents = gazetteer(CITIES)
    killer = Killer(killable)
    results = list(Job(client, LocalSite(killable), killer, load_documents=50).run(plan(documents)))
    assert report.faults(results) == []
    assert killer.moments == []
    assert results[-1].compared == len(documents) + len(results[-1].step.reads)


@pytest.mark.marathon
def test_the_demo_ends_well_in_a_log() -> None:
    environment = {**os.environ, "CITIES": "20", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "examples.gazetteer"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "checks hold." in done.stdout.splitlines()[-1]
    assert "FAILED" not in done.stdout
