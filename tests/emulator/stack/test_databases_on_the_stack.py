"""`signalbox dev` serves each database of a catalogue by itself: with its own store, queues, sweeper and port."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.effects import Effect
from signalbox.core.outbox import to_record
from signalbox.core.ports import Put
from signalbox_tools.cli.main import main
from signalbox_tools.local import child_processes
from tests.emulator.polling_until import eventually
from tests.started_commands import started
from tests.unit.catalogue.test_databases import CARDS, ENTRIES, ORDERS, project

pytestmark = pytest.mark.slow

SETTLING = CARDS | {"work": 'documents.put(order, {"settled": True})', "imports": ", documents"}


@dataclass(frozen=True)
class Served:
    folder: Path
    first: httpx.Client
    payments: httpx.Client

    def store(self, database: str = "") -> SqliteStore:
        below = ("databases", database) if database else ()
        return SqliteStore(Path(self.folder, ".signalbox", "data", *below, "store.sqlite"))

    def document(self, key: str, database: str = "") -> Any:
        [read] = self.store(database).read(f"documents/{key}")
        return read.data


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("shop")
    project(folder, ENTRIES, ORDERS, SETTLING)
    [port] = child_processes.free_ports(1)
    command = (sys.executable, "-m", "signalbox_tools", "dev", f"--port={port}")
    with started(command, folder, output=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = ""
        while "Serving http" not in said:
            line = process.stdout.readline().decode()
            assert line, said
            said += line
        [other] = re.findall(r"database payments, with its console at (http://127\.0\.0\.1:\d+/)console", said)
        with (
            httpx.Client(base_url=f"http://127.0.0.1:{port}/", timeout=30) as first,
            httpx.Client(base_url=other, timeout=30) as payments,
        ):
            yield Served(folder, first, payments)


def test_a_function_invokes_one_of_another_database_whose_work_stays_in_that_database(served: Served) -> None:
    assert served.first.post("orders/pay", json={}).status_code == 200
    eventually(lambda: served.document("a", "payments") is not None)
    assert served.document("a") is None


def test_each_database_serves_only_its_functions(served: Served) -> None:
    assert set(served.first.get("").json()["functions"]) == {"orders"}
    assert set(served.payments.get("").json()["functions"]) == {"cards"}
    assert served.first.post("cards/charge", json={}).status_code == 404


def test_a_record_that_names_a_task_of_the_other_database_is_kept_aside(served: Served) -> None:
    """Written by an attacker who controls a function of the database: the sweeper has the tasks of its own alone."""
    forged = Effect("forged", "tasks", "orders", "ship", {"order": "x"}, "/tasks/ship")
    served.store("payments").commit([Put("outbox/forged", to_record([forged]))])
    kept = eventually(lambda: served.store("payments").read("outbox_refused/forged")[0].data)
    assert "the catalogue has no function 'orders'" in kept["reason"]
    assert served.document("shipped") is None


def test_commands_show_the_stack_of_a_database(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(served.folder)
    for environment, client in (("dev", served.first), ("dev.payments", served.payments)):
        assert main(["console", "-e", environment]) == 0
        assert capsys.readouterr().out == f"{client.base_url}console\n"
        assert main(["status", "-e", environment, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)
    assert main(["console", "-e", "dev.cash"]) == 1
    assert "no function has the database 'cash'" in capsys.readouterr().err


def test_all_data_is_cleared_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path)
    for name in ("data", "data/databases/payments", "data.backup"):
        folder = tmp_path / ".signalbox" / name
        folder.mkdir(parents=True)
        (folder / "saved.json").write_text(json.dumps({"port": 1}))
    monkeypatch.chdir(tmp_path)
    assert main(["data", "clear", "--yes"]) == 0
    kept = tmp_path / ".signalbox" / "data.backup" / "saved.json"
    assert list((tmp_path / ".signalbox").rglob("saved.json")) == [kept], "a copy that somebody made stays"
