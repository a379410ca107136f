"""`signalbox dev`: its variables are checked before anything starts; a change during the start is not lost."""

import io
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from signalbox.adapters.settings import from_environment
from signalbox.catalogue.project import Project
from signalbox_tools.cli.main import main
from signalbox_tools.local import child_processes
from signalbox_tools.local import serving as command
from signalbox_tools.local.folder.running_stack import NoStack, RunningStack
from signalbox_tools.local.reloading.watcher import Watcher

ADDRESS = "http://127.0.0.1:8080/"
SECONDS_MAX = 20.0


class Interrupted:
    """A stack that starts, and is stopped by Ctrl-C at once; and the loop that reloads it."""

    service_names: tuple[str, ...] = ()
    urls: dict[str, str] = {}  # noqa: RUF012 (never changed)
    base_url, store = ADDRESS, "sqlite"

    def __init__(self, folder: Path) -> None:
        self.settings = from_environment({"FIRESTORE_EMULATOR_HOST": "127.83.12.201:20000"})
        self.folder = folder
        self.calls: list[str] = []

    def __enter__(self) -> None:
        self.calls.append("enter")

    def __exit__(self, *_: object) -> None:
        self.calls.append("exit")

    def wait(self) -> None:
        raise KeyboardInterrupt

    def watch(self) -> None:
        self.calls.append("watch")

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Interrupted:
    made = Interrupted(tmp_path)
    monkeypatch.setattr(command, "Stack", lambda *_, **__: made)
    monkeypatch.setattr(command, "DevLoop", lambda *_, **__: made)
    monkeypatch.delenv("DATA", raising=False)
    return made


def test_files_are_watched_before_the_stack_starts_and_reloaded_after(interrupted: Interrupted) -> None:
    assert main(["dev"]) == 0
    assert interrupted.calls == ["watch", "enter", "start", "stop", "exit"]


def test_files_of_a_stack_are_of_this_user_only(interrupted: Interrupted, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = interrupted.folder / "kept"

    def written() -> None:
        kept.mkdir()
        (kept / "saved.json").touch()
        with (kept / "service.log").open("wb") as log:
            child_processes.start((sys.executable, "-c", f"open({str(kept / 'tasks')!r}, 'w')"), output=log).wait()

    monkeypatch.setattr(interrupted, "start", written)
    before = os.umask(0o022)
    os.umask(before)
    assert main(["dev"]) == 0
    made = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (kept, *kept.iterdir())}
    assert made == {"kept": 0o700, "saved.json": 0o600, "service.log": 0o600, "tasks": 0o600}
    assert os.umask(before) == before


@pytest.mark.parametrize(("host", "said"), [("127.0.0.1:20000", True), ("127.83.12.201:20000", False), ("", False)])
def test_a_start_says_whether_pages_can_find_the_emulator(
    interrupted: Interrupted, capsys: pytest.CaptureFixture[str], host: str, said: bool
) -> None:
    interrupted.settings = from_environment({"FIRESTORE_EMULATOR_HOST": host})
    assert main(["dev"]) == 0
    assert ("can find the emulator and change its data" in capsys.readouterr().out) == said


def test_a_change_before_the_start_is_reported_after_it(tmp_path: Path) -> None:
    reported = threading.Event()
    watcher = Watcher(lambda _: reported.set())
    watcher.watch(trees=[tmp_path])
    (tmp_path / "main.py").write_text("one = print\n")
    assert not reported.wait(0.5)
    watcher.start()
    try:
        assert reported.wait(SECONDS_MAX)
    finally:
        watcher.stop()


@pytest.mark.parametrize(
    ("data", "store", "said"), [("kept", "emulator", True), ("", "emulator", False), ("kept", "sqlite", False)]
)
def test_a_stop_says_that_the_data_of_an_emulator_is_saved(
    interrupted: Interrupted,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    data: str,
    store: str,
    said: bool,
) -> None:
    monkeypatch.setenv("DATA", data)
    monkeypatch.setenv("STORE", store)
    interrupted.store = store
    assert main(["dev"]) == 0
    assert ("the data is saved in kept when this command ends" in capsys.readouterr().out) == said
    assert interrupted.calls[-1] == "exit"


@pytest.mark.parametrize(
    ("store", "data", "folder"),
    [("", "", Path("state", "data")), ("", "kept", Path("kept")), ("emulator", "", None), ("emulator", "k", Path("k"))],
)
def test_the_data_stays_in_the_project_unless_it_is_in_the_memory_of_an_emulator(
    interrupted: Interrupted, monkeypatch: pytest.MonkeyPatch, store: str, data: str, folder: Path | None
) -> None:
    opened: list[object] = []
    monkeypatch.setenv("DATA", data)
    monkeypatch.setenv("STORE", store)
    monkeypatch.setattr(Project, "state", Path("state"))

    def stack(*_: object, **given: object) -> Interrupted:
        opened.append(given["data"])
        return interrupted

    monkeypatch.setattr(command, "Stack", stack)
    assert main(["dev"]) == 0
    assert opened == [folder]


def test_the_data_is_deleted_when_that_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Project, "state", tmp_path)
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "store.sqlite"
    file.touch()
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert (main(["data", "clear"]), file.exists()) == (1, True)
    assert (main(["data", "clear", "--yes"]), file.exists()) == (0, False)
    assert f"The data in {tmp_path / 'data'} is deleted." in capsys.readouterr().out


def refused(*_: object, **__: object) -> None:
    raise OSError(98, "Port 8080 is taken")


def no_stack(_: Path) -> RunningStack:
    raise NoStack


def this_stack(_: Path) -> RunningStack:
    return RunningStack("", 4321, ADDRESS, "", "", "", {})


@pytest.mark.parametrize(
    ("running", "said"), [(no_stack, "Port 8080 is taken"), (this_stack, f"runs already: {ADDRESS} (process 4321)")]
)
def test_a_second_stack_of_a_clone_names_the_first(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    running: Callable[[Path], RunningStack],
    said: str,
) -> None:
    monkeypatch.setattr(command, "Stack", refused)
    monkeypatch.setattr(RunningStack, "of", running)
    assert main(["dev"]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PORT", "80000", "80000 is not in the range 1<=x<=65535"),
        ("PORT", "eighty", "'eighty' is not a valid integer"),
        ("CHAOS", "twice=2", "CHAOS is 'twice=2': twice is a probability from 0 to 1"),
        ("CHAOS", "twice=often", "CHAOS is 'twice=often'"),
        ("STORE", "redis", "STORE is 'redis': set it to sqlite or emulator"),
        ("SYNCHRONOUS", "sometimes", "SYNCHRONOUS is 'sometimes': set it to NORMAL or FULL"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    assert main(["dev"]) == 2
    assert said in capsys.readouterr().err
