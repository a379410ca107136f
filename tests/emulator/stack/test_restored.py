"""A restore, on real stacks: a backup of work under way goes on in another database, without the queues.

The backup is an export of the emulator while flows, objects, semaphores and batches run. Then the work ends, and the
database is restored from the backup under another name, so that no task's name is taken. The sweeper finds what
waited. It takes a task for lost after seconds here, which is an hour otherwise.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore

from signalbox.catalogue import reading as catalogues
from signalbox_tools.local.folder.data_folder import STATE_FILE, DataFolder
from signalbox_tools.local.services.function_settings import settings_of
from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually
from tests.required_programs import EMULATOR

pytestmark = [pytest.mark.slow, pytest.mark.marathon, pytest.mark.timeout(600)]

RESTORED = "restored"
RUNS, WAITS = 5, 4
SECONDS_MAX = 240
ENTRY = {
    "invoked_by": ["people", "queue"],
    "enqueues": ["admit", "batches", "flows", "objects", "tasks"],
    "tasks": ["charge", "use", "paint", "announce"],
    "objects": ["Ledger"],
    "flows": ["order"],
}
WORKS = """
from pathlib import Path

from signalbox import Completion, Function, Lease, Unavailable, documents, flow, objects
from signalbox.testing.replaced_limits import replaced

app = Function("works")
OPEN = Path({path!r})
SILENT = ("flow_silent", "unit_silent", "end_silent", "grant_silent", "call_silent")
quick = replaced(**{{f"{{name}}_seconds": 3 for name in SILENT}})
quick.__enter__()  # for all functions of this process


def pass_gate(closed: bool) -> None:
    if closed and not OPEN.exists():
        raise Unavailable("the gate is closed")


@app.object
class Ledger:
    sum: int = 0

    def add(self, amount: int) -> int:
        pass_gate(amount > 1)
        self.sum += amount
        return self.sum


@app.task
def charge(run: int, at: int) -> int:
    pass_gate(run == at)
    return 1


@app.task
def use(lease: Lease, n: int) -> None:
    documents.put(f"used-{{n}}", {{"n": n}})


@app.task
def paint(n: int) -> int:
    pass_gate(n % 2 == 1)
    return n


@app.task
def announce(completion: Completion) -> None:
    documents.put(f"announced-{{completion.id}}", {{"succeeded": completion.succeeded}})


@app.flow
async def order(run: int) -> int:
    total = await charge.call(run=run, at=0)
    async with flow.lock("track", lease_seconds=600):
        total += await charge.call(run=run, at=1)
    await objects("Ledger", "flows").add(amount=1)
    total += await charge.call(run=run, at=2)
    await flow.batch([paint.call(n=n) for n in (0, run)])
    return total + await charge.call(run=run, at=3)


works = app.entry_point()
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    EMULATOR.require()  # only the emulator makes an export
    content = yaml.safe_load(catalogues.CATALOGUE.read_text("utf-8"))
    for name, function in catalogues.load().functions.items():
        content["functions"][name]["folder"] = str(function.folder)
    (tmp_path / "works").mkdir()
    (tmp_path / "works" / "main.py").write_text(WORKS.format(path=str(tmp_path / "open")))
    content["functions"]["works"] = {"folder": str(tmp_path / "works"), **ENTRY}
    path = tmp_path / "catalogue.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


class Client(httpx.Client):
    """A caller of a stack, which reads the JSON of an answer."""

    def json(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.request(method, path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None


def start(client: Client) -> list[Mapping[str, Any]]:
    """Start all works. Return the leases that this test holds, for which the waits and units wait."""
    for name, permits in (("track", 3), ("press", 2)):
        client.json("PUT", f"semaphores/{name}", {"permits": permits, "lease_seconds": 600})
    held = [client.json("POST", "semaphore-wait/press", {"id": f"held-{n}"})["lease"] for n in range(2)]
    for run in range(RUNS):
        client.json("POST", f"works/flows/order/{run}", {"arguments": {"run": run}})
    for amount in (1, 2, 3, 1):
        client.json("POST", "works/objects/Ledger/posted/add?wait_seconds=0", {"amount": amount})
    for n in range(WAITS):
        continuation = {"function": "works", "task": "use", "payload": {"n": n}}
        body = {"id": f"wait-{n}", "continuation": continuation, "release_on_return": True}
        client.json("POST", "semaphore-wait/press", body)
    for name, more in (("plain", {}), ("pressed", {"semaphore": "press"})):
        call = {"function": "works", "payload": {}}
        body = {"units": [{"n": n} for n in range(6)], "task": call | {"task": "paint"}, "sealed": True}
        client.json("POST", "batches", {"id": name, **body, "on_complete": call | {"task": "announce"}, **more})
    return held


def under_way(client: Client) -> bool:
    """Return whether the works are as far as they come with a closed gate."""
    runs = [client.json("GET", f"works/flows/order/{run}") for run in range(RUNS)]
    first_is_done = client.json("GET", "batches/plain")["succeeded"] == 3
    ended = [one["state"] for one in runs] == ["running"] * (RUNS - 1) + ["completed"]
    waiting = client.json("GET", "semaphores/press")["waiters"]
    return ended and first_is_done and len(waiting) >= WAITS + 6


def ended(client: Client) -> bool:
    """Return whether all works have come to their ends, with the results that they must have."""
    runs = [client.json("GET", f"works/flows/order/{run}") for run in range(RUNS)]
    batches = [client.get(f"documents/announced-{name}") for name in ("plain", "pressed")]
    used = [client.get(f"documents/used-{n}").status_code for n in range(WAITS)]
    return (
        [one.get("result") for one in runs] == [4] * RUNS
        and [one.json().get("succeeded") for one in batches] == [6, 6]
        and used == [200] * WAITS
        and [client.json("GET", f"semaphores/{name}")["free"] for name in ("track", "press")] == [3, 2]
        and sums(client) == [7, RUNS]
    )


def sums(client: Client) -> list[int]:
    ledgers = [client.json("POST", f"works/objects/Ledger/{key}/add", {"amount": 0}) for key in ("posted", "flows")]
    return [each.get("result") for each in ledgers]


def finish(client: Client, held: list[Mapping[str, Any]]) -> None:
    for lease in held:
        assert client.json("POST", "semaphore-signal/press", {"lease": lease["id"]})["released"] is True
    eventually(lambda: ended(client), SECONDS_MAX)


def export(stack: Stack, backup: DataFolder) -> None:
    """Export the database of a stack as it is restored: the records, in a database of another name.

    The folder notes the create times of the original's records.
    """
    chosen = replace(stack.settings, database=RESTORED)
    host = {"project": chosen.project, "credentials": AnonymousCredentials()}
    os.environ["FIRESTORE_EMULATOR_HOST"] = chosen.firestore_emulator
    try:
        source, target = (firestore.Client(**host, database=each.database) for each in (stack.settings, chosen))
    finally:
        del os.environ["FIRESTORE_EMULATOR_HOST"]
    backup.save(stack.settings)
    original = json.loads((backup.path / STATE_FILE).read_text())
    copy(source, target)
    backup.save(chosen)
    backup.close(incarnations=original["incarnations"], order=original["order"])


def copy(parent: Any, target: firestore.Client) -> None:
    """Copy the records of all collections below a database or a record."""
    for collection in parent.collections():
        for record in collection.list_documents():
            content = record.get().to_dict()
            if content is not None:
                target.document(record.path).set(content)
            copy(record, target)


def test_what_a_backup_contains_comes_to_its_end_in_the_restored_database(catalogue: Path, tmp_path: Path) -> None:
    backup = DataFolder(tmp_path / "backup")
    backup.path.mkdir()
    with (
        Stack(folder=tmp_path / "first", catalogue=catalogue, store="emulator") as stack,
        Client(base_url=stack.base_url) as client,
    ):
        held = start(client)
        eventually(lambda: under_way(client), SECONDS_MAX)
        export(stack, backup)
        (tmp_path / "open").touch()
        finish(client, held)  # what runs after a backup counts for nothing
    settings = replace(settings_of(catalogues.load(catalogue)), database=RESTORED)
    folder = tmp_path / "second"
    again = Stack(folder=folder, catalogue=catalogue, settings=settings, data=backup.path, store="emulator")
    with again as stack, Client(base_url=stack.base_url) as client:
        assert client.json("GET", "works/flows/order/0")["state"] == "running"
        finish(client, held)
        assert client.json("GET", "failures")["failures"] == []
