"""The stack of the tests that kill processes: the kit with three more functions, and a client that retries.

It is started once for all tests that can share a stack: starting one takes longer than most tests.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from signalbox.catalogue import reading as catalogues
from signalbox.client import Client
from signalbox_tools.local.stack import Stack

FUNCTIONS = Path(__file__).parent / "kills"
OWN = {
    "contest": {"enqueues": ["admit", "batches", "tasks"], "tasks": ["work", "die", "enter", "mend"]},
    "copying": {"invoked_by": ["people", "queue", "event"], "enqueues": ["tasks"]},
    "marathon": {
        "enqueues": ["admit", "batches", "flows", "objects", "tasks"],
        "tasks": ["step"],
        "objects": ["Finish"],
        "flows": ["run"],
    },
}


def project(folder: Path) -> Path:
    """Write a catalogue with all of the kit's functions, where they are, and with those of `OWN`."""
    content = yaml.safe_load(catalogues.CATALOGUE.read_text("utf-8"))
    del content["api"]  # the entries are complete, so code may import what does not show the parts of the kit
    for name, function in catalogues.load().functions.items():
        content["functions"][name]["folder"] = str(function.folder)
    for name, entry in OWN.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "main.py").write_bytes((FUNCTIONS / f"{name}.py").read_bytes())
        content["functions"][name] = {"folder": str(folder / name), "invoked_by": ["people", "queue"], **entry}
    (folder / "infra").mkdir()
    path = folder / "infra" / "catalogue.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


@pytest.fixture(scope="session")
def killable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("killable")
    with Stack(folder=folder / "state", catalogue=project(folder / "project")) as stack:
        yield stack


@pytest.fixture
def client(killable: Stack) -> Iterator[Client]:
    with Client(killable.base_url) as asking:
        yield asking
