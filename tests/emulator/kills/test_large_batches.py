"""Large and deep batches on the real stack: killed every few seconds, delivered twice, ten levels of sub-batches."""

import time
from itertools import cycle
from pathlib import Path

import pytest
import yaml

from examples.demo import batches
from signalbox.catalogue import reading as catalogues
from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

CHAOS = "twice=0.1,late=0.02,reorder=0.1,lose_answers=0.05,seed=13"
KILLS_SECONDS = 4
SECONDS_MAX = 900
TREE = """
from signalbox import Function, SubBatch, batch, sub_batch

app = Function("tree")


@app.http("POST", "/{id}/{levels}")
def grow(request, id: str, levels: str):
    return batch(id).populate([divide.call(levels=int(levels))])


@app.task
def divide(levels: int) -> SubBatch | None:
    return sub_batch(divide.call(levels=levels - 1) for _ in range(2)) if levels else None


tree = app.entry_point()
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.marathon,
    pytest.mark.timeout(SECONDS_MAX + 300),
]


@pytest.mark.parametrize("limit", [None, 20])
def test_2000_units_run_once_each_while_parts_are_killed_and_deliveries_repeated(
    tmp_path: Path, limit: int | None
) -> None:
    with Stack(folder=tmp_path, chaos=CHAOS) as stack, Client(stack.base_url) as client:
        client.request("POST", "batches", body=batches.order("large", 2_000) | {"concurrency": limit})
        give_up_at = time.monotonic() + SECONDS_MAX
        for part in cycle(("functions", "cloud-tasks")):
            assert time.monotonic() < give_up_at, f"not complete: {client.batch('large').show()}"
            time.sleep(KILLS_SECONDS)
            if batches.said(client, "large"):
                break
            kill(stack, part)
        *found, _ = batches.checks(client, "large", 2_000, batches.COLUMNS)
        assert [check for check in found if not check.holds] == []
        assert set(batches.said(client, "large")) == {2_000}
        [_] = batches.announcers(client, "large")  # one task, which may have been delivered twice


def test_ten_levels_of_sub_batches_end_once(tmp_path: Path) -> None:
    with Stack(folder=tmp_path / "state", catalogue=_project(tmp_path)) as stack, Client(stack.base_url) as client:
        client.request("POST", "tree/deep/10")
        eventually(lambda: client.batch("deep").show()["state"] == "completed", SECONDS_MAX)
        listed = client.request("GET", "batches", parameters={"state": "completed"})["batches"]
        token = client.request("GET", "batches", parameters={"state": "completed"}).get("next_page_token")
        while token:
            page = client.request("GET", "batches", parameters={"state": "completed", "page_token": token})
            listed, token = listed + page["batches"], page.get("next_page_token")
        assert sum(one["succeeded"] for one in listed) == 2**11 - 1
        assert len(listed) == 2**10


def _project(folder: Path) -> Path:
    """Write a catalogue with all of the kit's functions, where they are, and `tree`."""
    content = yaml.safe_load(catalogues.CATALOGUE.read_text("utf-8"))
    for name, function in catalogues.load().functions.items():
        content["functions"][name]["folder"] = str(function.folder)
    (folder / "tree").mkdir()
    (folder / "tree" / "main.py").write_text(TREE)
    content["functions"]["tree"] = {
        "folder": str(folder / "tree"),
        "invoked_by": ["people", "queue"],
        "enqueues": ["batches", "tasks"],
        "tasks": ["divide"],
    }
    (folder / "infra").mkdir()
    path = folder / "infra" / "catalogue.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path
