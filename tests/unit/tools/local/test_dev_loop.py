"""The loop that reloads a stack: after a reload that failed, the next change is reloaded."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import Schedule, load
from signalbox_tools.local import serving
from signalbox_tools.local.child_processes import CHOSEN_PORTS
from signalbox_tools.local.folder.data_folder import DataFolder
from signalbox_tools.local.reloading.dev_loop import DevLoop, affected
from signalbox_tools.local.reloading.reload import NotReloaded, checked_catalogue
from signalbox_tools.local.reloading.source_errors import source_errors
from signalbox_tools.local.services.function_settings import settings_of
from signalbox_tools.local.services.ports_and_sockets import plan, with_catalogue
from signalbox_tools.local.serving import Options, announce_end
from signalbox_tools.local.stack import StackError
from tests.unit.catalogue.test_databases import project
from tests.unit.tools.local.test_local_command import SECONDS_MAX

CATALOGUE = """
functions:
  greeter: {folder: greeter, invoked_by: [people]}
queues: {}
"""
GREETER = """
from signalbox import Function

app = Function("greeter")
app.http("GET")(len)
greeter = app.entry_point()
"""
WITH_FLOW = """
from signalbox import Function

app = Function("{name}")

@app.flow
async def {name}_order() -> None: ...

{name} = app.entry_point()
"""


class ReloadedStack:
    """A stack of one function. A test sets its `reload`."""

    def __init__(self, folder: Path) -> None:
        self.folders = (folder,)
        self.schedules: list[Schedule] = []
        self.reload: Callable[[], None] = lambda: None


def started(stack: ReloadedStack, lines: SimpleQueue[str], *options: Any) -> DevLoop:
    """Start a loop that watches the stack's files, and puts what it announces into `lines`."""
    loop = DevLoop(stack, lambda line, _: lines.put(line), *options)  # type: ignore[arg-type]  # the loop needs no more of a stack
    loop.watch()
    loop.start()
    return loop


@pytest.mark.parametrize(
    "error", [StackError("no semaphore"), OSError("the stack does not respond"), ZeroDivisionError("a bug of the kit")]
)
def test_after_a_reload_that_failed_any_change_is_reloaded(tmp_path: Path, error: Exception) -> None:
    catalogue, folder = tmp_path / "infra" / "catalogue.yaml", tmp_path / "greeter"
    for parent in (catalogue.parent, folder):
        parent.mkdir()
    catalogue.write_text(CATALOGUE)
    stack, lines = ReloadedStack(folder), SimpleQueue[str]()

    def refused() -> None:
        raise error

    def line_with(text: str) -> str:
        while text not in (line := lines.get(timeout=SECONDS_MAX)):
            pass
        return line

    stack.reload = refused
    loop = started(stack, lines, catalogue)
    try:
        (folder / "main.py").write_text("ONE = 1\n")
        assert line_with(str(error)).startswith(("the reload did not finish", "not reloaded"))
        stack.reload = lambda: None
        (catalogue.parent / "other.py").write_text("IS_SERVED = False\n")
        assert line_with("infra/other.py").startswith("reloaded in ")
        catalogue.write_bytes("# café".encode("latin-1"))
        assert line_with("catalogue.yaml").startswith("reloaded in ")
        (folder / "main.py").write_text("TWO = 2\n")
        assert line_with("greeter/main.py").startswith("reloaded in ")
    finally:
        loop.stop()


def test_schedules_that_are_new_or_changed_are_listed_after_the_reload(tmp_path: Path) -> None:
    catalogue, module = tmp_path / "signalbox.yaml", tmp_path / "main.py"
    catalogue.write_text(CATALOGUE)
    stack, lines = ReloadedStack(tmp_path), SimpleQueue[str]()
    tick = Schedule(name="greeter-tick", function="greeter", task="tick", cron="*/5 * * * *")

    def reloaded() -> None:
        stack.schedules = [tick, Schedule(name="greeter-tock", function="greeter", task="tock", cron="0 6 * * *")]

    stack.reload, stack.schedules = reloaded, [tick]
    loop = started(stack, lines, catalogue)
    try:
        for value in ("1", "2"):
            module.write_text(f"VALUE = {value}\n")
            assert lines.get(timeout=SECONDS_MAX).startswith("reloaded in ")
            if value == "1":
                listed = lines.get(timeout=SECONDS_MAX)
                assert listed.startswith("schedule greeter-tock: 0 6 * * * Etc/UTC, next ")
        assert lines.empty()
    finally:
        loop.stop()


def test_a_secret_without_a_value_is_not_reloaded_until_the_file_of_variables_has_it(tmp_path: Path) -> None:
    catalogue, folder = tmp_path / "signalbox.yaml", tmp_path / "greeter"
    folder.mkdir()
    (folder / "main.py").write_text(GREETER)
    catalogue.write_text(CATALOGUE)
    layout = plan(catalogue, load(catalogue), tmp_path, None, None, settings_of(load(catalogue)), None, "")
    layout.close()
    stack, lines = ReloadedStack(folder), SimpleQueue[str]()

    def checked() -> None:
        checked_catalogue(layout)

    stack.reload = checked
    loop = started(stack, lines, catalogue)
    try:
        catalogue.write_text(CATALOGUE.replace("[people]", "[people], secrets: {MAIL_KEY: mail-key}"))
        refused = lines.get(timeout=SECONDS_MAX)
        assert refused.startswith("not reloaded, the last good version serves: ")
        assert "add a line MAIL_KEY=… to .env" in refused
        (tmp_path / ".env").write_text("MAIL_KEY=sk_test\n")
        assert lines.get(timeout=SECONDS_MAX).endswith(": .env")
        (tmp_path / ".env").write_text("MAIL_KEY=sk_test_2\n")  # also when nothing is wrong
        assert lines.get(timeout=SECONDS_MAX).endswith(": .env")
    finally:
        loop.stop()


def test_a_change_within_the_second_of_the_last_one_is_loaded(tmp_path: Path) -> None:
    module = tmp_path / "main.py"
    stack, lines = ReloadedStack(tmp_path), SimpleQueue[str]()
    catalogue = tmp_path / "signalbox.yaml"
    catalogue.write_text(CATALOGUE)
    loop = started(stack, lines, catalogue)
    try:
        for value in ("1", "2"):
            module.write_text(f"VALUE = {value}\n")
            os.utime(module, (1_000_000_000, 1_000_000_000))
            lines.get(timeout=SECONDS_MAX)
            assert value_of(module) == value
    finally:
        loop.stop()


def value_of(module: Path) -> str:
    """Import a module in a separate process, which reads and writes its bytecode."""
    command = [sys.executable, "-c", "import main; print(main.VALUE)"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command, cwd=module.parent, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_check_that_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stalled(command: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(command, 30)

    monkeypatch.setattr(subprocess, "run", stalled)
    assert source_errors([tmp_path], tmp_path) == []


def shop_and_bank(root: Path) -> Path:
    """Write a project with two functions that have flows. Return its catalogue."""
    for name in ("shop", "bank"):
        folder = root / "functions" / name
        folder.mkdir(parents=True)
        (folder / "main.py").write_text(WITH_FLOW.format(name=name))
    (root / "signalbox.yaml").write_text("functions: {shop: {}, bank: {}}\n")
    return root / "signalbox.yaml"


def test_after_a_reload_the_runs_of_the_function_that_has_changed_are_replayed(tmp_path: Path) -> None:
    catalogue, main = shop_and_bank(tmp_path), tmp_path / "functions" / "shop" / "main.py"
    stack, lines = ReloadedStack(main.parent), SimpleQueue[str]()
    loop = started(stack, lines, catalogue, lambda name, *_: f"of {name}")
    try:
        main.write_text(WITH_FLOW.format(name="shop") + "# changed\n")
        while not (line := lines.get(timeout=SECONDS_MAX)).startswith("not all runs "):
            assert line.startswith("reloaded in ")
        assert line == "not all runs continue with the new shop: of shop"
    finally:
        loop.stop()


def test_a_module_outside_of_the_functions_folders_counts_as_a_change_of_each_function(tmp_path: Path) -> None:
    functions = load(shop_and_bank(tmp_path)).functions
    shop, bank = functions["shop"], functions["bank"]
    folders = [each.folder for each in functions.values()]
    assert affected([shop.folder / "main.py"], [shop, bank], folders) == [shop]
    assert affected([tmp_path / "prices.py"], [shop, bank], folders) == [shop, bank]


def test_a_new_database_is_not_reloaded_and_one_that_is_served_may_get_its_functions_back(tmp_path: Path) -> None:
    file = project(tmp_path)
    layout = plan(file, load(file), tmp_path, None, None, settings_of(load(file)), None, "", others={"payments": "u"})
    layout.close()
    project(tmp_path, "functions: {orders: {}, cards: {}}")
    layout = with_catalogue(layout, checked_catalogue(layout))
    project(tmp_path)
    layout = with_catalogue(layout, checked_catalogue(layout))
    assert layout.settings.elsewhere == {"cards": "ucards"}
    project(tmp_path, "functions: {orders: {}, cards: {database: ships}}")
    with pytest.raises(NotReloaded, match="the catalogue has a new database, ships"):
        checked_catalogue(layout)


def test_the_end_of_the_stack_of_a_database_is_announced() -> None:
    class Failed:
        def wait(self) -> None:
            raise StackError("functions ended with exit code 3", "a traceback")

    lines: list[tuple[str, str]] = []
    announce_end(Failed(), "payments", lambda *line: lines.append(line))  # type: ignore[arg-type]  # it needs no more of a stack
    [(line, trace)] = lines
    assert line.startswith("the database payments is no longer served, so start `signalbox dev` again: functions ended")
    assert trace == "a traceback"


def test_the_stack_of_a_database_has_a_port_that_no_connection_takes_and_names_it_if_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(tmp_path)
    monkeypatch.chdir(tmp_path)
    data, options = tmp_path / "data", Options("", "sqlite", "NORMAL")
    stack = options.of_database("payments", Project.find(), data)
    port = stack._layout.ports["functions"]
    assert port in CHOSEN_PORTS
    kept = DataFolder(data).of_database("payments")
    kept.mkdir(parents=True)
    (kept / "saved.json").write_text(json.dumps({"port": port}))
    with pytest.raises(StackError, match=f"The port {port}, at which the database payments is served, is taken"):
        options.of_database("payments", Project.find(), data)
    with monkeypatch.context() as running:
        running.setattr(serving, "_running", lambda: "The local stack of this project runs already: URL")
        with pytest.raises(StackError, match=r"^The local stack of this project runs already: URL$"):
            options.of_database("payments", Project.find(), data)
    stack._layout.close()


def test_a_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "/data/stack.lock")

    monkeypatch.setattr(serving, "_run", refused)
    monkeypatch.setattr(serving, "_running", str)
    with pytest.raises(StackError, match=r"^/data/stack\.lock: Read-only file system$"):
        serving.serve(8080, None, "", "", "sqlite", "NORMAL")
