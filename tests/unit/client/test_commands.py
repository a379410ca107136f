"""The commands that call functions: what they print, their exit status, and a command that runs under a lease."""

import dataclasses
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import click
import httpx
import pytest

from signalbox.adapters import settings
from signalbox.catalogue.reading import Schedule, load
from signalbox.client import Client, NotFound, Unavailable, call
from signalbox.client.blocking.objects_and_flows import Run
from signalbox.client.blocking.semaphores import Semaphore
from signalbox.flows.http import routes as flows_http
from signalbox.testing import Harness
from signalbox_tools.cli import flow_replay, leased_command
from signalbox_tools.cli.leased_command import LEASE_LOST, NO_PERMIT, NO_SEMAPHORE, NOT_EXECUTABLE, NOT_FOUND
from signalbox_tools.cli.main import main
from signalbox_tools.deploy.programs import CommandFailed
from signalbox_tools.local.folder.running_stack import RunningStack
from signalbox_tools.local.functions.server import mounted
from signalbox_tools.local.scheduler import PAUSED_FILE
from signalbox_tools.status.cloud_status import CloudSource
from tests.serving import serving

PYTHON = sys.executable
PASSED_ON = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    with Harness() as found, serving(mounted(load())) as base:
        monkeypatch.setenv("SIGNALBOX_URL", base)
        yield found


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """Let programs that are started heed the signals that this process may ignore: it may run under `nohup`."""
    ignored = [number for number in PASSED_ON if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)  # a handler is not inherited
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def client(harness: Harness) -> Iterator[Client]:
    with Client(os.environ["SIGNALBOX_URL"]) as found:
        yield found


def wait_until(happened: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(arguments) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_documents_are_stored_found_and_deleted(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "documents", "put", "a", '{"n": 1, "t": "größe"}') == [{"key": "a", "n": 1, "t": "größe"}]
    assert shown(capsys, "documents", "get", "a")[0]["n"] == 1
    assert shown(capsys, "documents", "query", "n==1") == [{"key": "a", "n": 1, "t": "größe"}]
    assert shown(capsys, "documents", "query", "n>=1", "--count") == [1]
    assert shown(capsys, "documents", "delete", "a") == []
    assert main(["documents", "get", "a"]) == 1
    assert "404 not-found" in capsys.readouterr().err


def test_a_file_is_loaded_and_refused_lines_are_named(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "documents.ndjson"
    file.write_text('{"key": "a"}\n\n{"key": "b/c"}\n')
    assert main(["documents", "load", str(file)]) == 1
    assert "1 stored, 1 refused" in (error := capsys.readouterr().err)
    assert "b/c: " in error
    file.write_text('{"key": \n')
    assert main(["documents", "load", str(file)]) == 2
    assert "is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("line", [b"[1]", b'{"key": "b"', b'{"a": NaN}', b'{"a": "\xff"}', b"[" * 100_000, b'"text"'])
def test_a_line_that_is_no_document_is_named(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: bytes
) -> None:
    file = tmp_path / "documents.ndjson"
    file.write_bytes(b'\xef\xbb\xbf{"key": "a"}\n\n' + line + b"\n")
    assert main(["documents", "load", str(file)]) == 2
    assert re.search(r"Line 3 is not JSON|after line \d is not UTF-8", error := capsys.readouterr().err)
    assert len(error) < 1_000
    assert main(["documents", "put", "a", "[1]"]) == 2


def test_ctrl_c_in_a_terminal_reaches_the_command_once(client: Client, tmp_path: Path) -> None:
    client.semaphore("till").ensure(permits=1)
    ready, counted = tmp_path / "ready", tmp_path / "counted"
    script = (
        "import pathlib, signal, time; got = []; signal.signal(signal.SIGINT, lambda *_: got.append(1));"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "while not got: time.sleep(.05)\n"
        f"time.sleep(.5); pathlib.Path({str(counted)!r}).write_text(str(len(got)))"
    )
    command = [PYTHON, "-m", "signalbox_tools", "semaphores", "run", "till", "--", PYTHON, "-c", script]
    process, terminal = pty.fork()
    if not process:
        os.execv(PYTHON, command)  # noqa: S606 (a test's own command)
    while not ready.exists():
        time.sleep(0.05)
    os.write(terminal, b"\x03")
    os.waitpid(process, 0)
    os.close(terminal)
    assert counted.read_text() == "1"


@pytest.mark.slow
@pytest.mark.parametrize("command", [["documents", "query"], ["batches", "ls"], ["--help"]])
def test_a_command_whose_reader_has_enough_ends_quietly(client: Client, command: list[str]) -> None:
    client.documents.load({"key": f"k{each}", "text": "x" * 500} for each in range(300))
    client.batch("b").populate([1])
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        [PYTHON, "-m", "signalbox_tools", *command], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (1, "")


@pytest.mark.slow
def test_a_command_under_a_lease_reads_the_terminal_and_ctrl_z_does_not_stop_it(client: Client, tmp_path: Path) -> None:
    client.semaphore("till").ensure(permits=1)
    file, ready = tmp_path / "line", tmp_path / "ready"
    script = f"import pathlib; pathlib.Path({str(ready)!r}).touch(); pathlib.Path({str(file)!r}).write_text(input())"
    command = [PYTHON, "-m", "signalbox_tools", "semaphores", "run", "till", "--", PYTHON, "-c", script]
    process, terminal = pty.fork()
    if not process:
        os.execv(PYTHON, command)  # noqa: S606 (a test's own command)
    wait_until(ready.exists)
    os.write(terminal, b"\x1a")
    time.sleep(0.3)
    os.write(terminal, b"hello\n")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    os.close(terminal)
    assert file.read_text() == "hello"


def test_a_command_that_is_interrupted_says_so(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("signalbox.client.blocking.documents.Documents.get", interrupted)
    assert main(["documents", "get", "a"]) == 1
    assert capsys.readouterr().err == "Stopped. What was sent before has its effect.\n"


@pytest.mark.parametrize(("code", "status"), [("0", 0), ("7", 7), ("os.kill(os.getpid(), 9)", 137)])
def test_a_command_runs_under_a_lease_and_gives_its_status(client: Client, code: str, status: int) -> None:
    client.semaphore("till").ensure(permits=1)
    script = f"import os, sys; assert int(os.environ['SIGNALBOX_TOKEN']) > 0; sys.exit({code})"
    assert main(["semaphores", "run", "till", "--", PYTHON, "-c", script]) == status
    assert client.semaphore("till").show()["free"] == 1


@pytest.mark.slow
def test_of_two_commands_one_waits_for_the_other(client: Client, tmp_path: Path) -> None:
    client.semaphore("till").ensure(permits=1)
    file = tmp_path / "order"
    script = f"import time; f = open({str(file)!r}, 'a'); f.write('<'); f.flush(); time.sleep(.3); f.write('>')"
    command = [PYTHON, "-m", "signalbox_tools", "semaphores", "run", "till", "--", PYTHON, "-c", script]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    assert file.read_text() == "<><>"


def test_a_command_whose_lease_is_lost_is_ended(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    till = client.semaphore("till")
    till.ensure(permits=1, lease_seconds=0.3)

    def end() -> None:
        while not (leases := till.show()["leases"]):
            time.sleep(0.05)
        till.end_lease(leases[0]["id"], "a test")

    thread = threading.Thread(target=end)
    thread.start()
    assert main(["semaphores", "run", "till", "--", PYTHON, "-c", "import time; time.sleep(60)"]) == LEASE_LOST
    thread.join()
    assert "ended before it was released" in capsys.readouterr().err


def test_a_command_gives_its_status_although_its_lease_cannot_be_released(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def signal_lease(*_: object) -> bool:
        raise Unavailable(0, {"title": "No answer"})

    client.semaphore("till").ensure(permits=1)
    monkeypatch.setattr(Semaphore, "signal", signal_lease)
    assert main(["semaphores", "run", "till", "--", "sh", "-c", "exit 3"]) == 3
    assert capsys.readouterr().err == "The lease was not released, and ends by itself: 0 No answer\n"


def test_no_permit_in_time_is_an_error(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    client.semaphore("till").ensure(permits=1)
    assert client.semaphore("till").acquire()
    assert main(["semaphores", "run", "till", "--timeout", "0.2", "--", "true"]) == NO_PERMIT
    assert "till has no free permit" in capsys.readouterr().err
    assert main(["semaphores", "run", "none", "--", "true"]) == NO_SEMAPHORE
    assert "no-semaphore" in capsys.readouterr().err


def test_a_program_that_cannot_be_run_takes_no_permit(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client.semaphore("till").ensure(permits=1)
    (tmp_path / "text").touch(0o600)
    for program, status in (("no-such-program", NOT_FOUND), (str(tmp_path / "text"), NOT_EXECUTABLE)):
        assert main(["semaphores", "run", "till", "--", program]) == status
        assert program in capsys.readouterr().err
    assert client.semaphore("till").acquire() == {"id": ANY, "token": ANY, "ends_at": ANY}  # the first one ever


def test_a_wait_for_a_permit_is_reported(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased_command, "QUIET_SECONDS", 0.05)
    client.semaphore("till").ensure(permits=1)
    lease = client.semaphore("till").acquire()
    assert lease
    thread = threading.Timer(0.3, client.semaphore("till").signal, [lease])
    thread.start()
    assert main(["semaphores", "run", "till", "--", "true"]) == 0
    thread.join()
    assert capsys.readouterr().err == "Waiting for 1 permit of till.\n"


CHILD = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(60)"


def _lives(process: int) -> bool:
    """Return whether a process runs: one that has ended may wait for its parent to read its status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def _family(tmp_path: Path, before: str = "") -> tuple[subprocess.Popen[bytes], int]:
    """Start `semaphores run` with a shell that has a child; return the command and the child's number."""
    file = tmp_path / "child"
    shell = ["bash", "-c", '"$0" "$@"; true', PYTHON, "-c", before + CHILD, str(file)]
    command = [PYTHON, "-m", "signalbox_tools", "semaphores", "run", "till", "--", *shell]
    process = subprocess.Popen(command)
    wait_until(lambda: file.exists() and bool(file.read_text()))
    return process, int(file.read_text())


def _started_ignoring(number: signal.Signals, *command: str) -> "subprocess.Popen[str]":
    """Start `semaphores run` from a process that ignores a signal: `nohup` does, or a script's ``&``."""
    code = f"import os, signal, sys; signal.signal({number}, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    run = [PYTHON, "-m", "signalbox_tools", "semaphores", "run", "till", "--", *command]
    return subprocess.Popen([PYTHON, "-c", code, *run], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_the_status_of_a_command_is_known_if_the_starter_ignores_the_end_of_children(client: Client) -> None:
    client.semaphore("till").ensure(permits=1)
    with _started_ignoring(signal.SIGCHLD, "sh", "-c", "exit 7") as process:
        assert process.wait(30) == 7


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_the_starter_ignores_ends_nothing(client: Client, number: signal.Signals) -> None:
    client.semaphore("till").ensure(permits=1)
    script = "import time; print('begun', flush=True); time.sleep(0.5); print('whole')"
    with _started_ignoring(number, PYTHON, "-c", script) as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.stdout.read() == "whole\n"
        assert process.wait(30) == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", PASSED_ON)
def test_a_signal_ends_the_command_with_its_children_and_releases_the_lease(
    client: Client, tmp_path: Path, number: signal.Signals
) -> None:
    client.semaphore("till").ensure(permits=1)
    process, child = _family(tmp_path)
    process.send_signal(number)
    assert process.wait(30) == (0 if number == signal.SIGQUIT else 128 + number)  # bash itself ignores SIGQUIT
    assert not _lives(child)
    assert client.semaphore("till").show()["free"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_the_command_ends_with_its_children_when_semaphores_run_is_killed(
    client: Client, tmp_path: Path, before: str
) -> None:
    client.semaphore("till").ensure(permits=1)
    process, child = _family(tmp_path, before)
    process.kill()
    process.wait()
    wait_until(lambda: not _lives(child))


@pytest.mark.slow
def test_the_command_ends_when_the_guard_of_its_group_is_killed(client: Client, tmp_path: Path) -> None:
    client.semaphore("till").ensure(permits=1)
    process, child = _family(tmp_path)
    [guard] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(guard), signal.SIGKILL)
    assert process.wait(30) == 128 + signal.SIGKILL
    wait_until(lambda: not _lives(child))
    assert client.semaphore("till").show()["free"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", PASSED_ON)
def test_a_signal_during_the_wait_ends_it_and_takes_no_permit(client: Client, number: signal.Signals) -> None:
    client.semaphore("till").ensure(permits=1)
    lease = client.semaphore("till").acquire()
    assert lease
    command = [PYTHON, "-m", "signalbox_tools", "semaphores", "run", "till", "--", "true"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert process.stderr.readline() == "Waiting for 1 permit of till.\n"
        process.send_signal(number)
        client.semaphore("till").signal(lease)
        assert process.wait(30) == 128 + number
        assert process.stderr.read() == f"Stopped by {number.name}.\n"
    assert client.semaphore("till").show()["free"] == 1


@pytest.mark.slow
def test_a_signal_at_any_moment_leaves_neither_a_lease_nor_a_command(client: Client, tmp_path: Path) -> None:
    client.semaphore("till").ensure(permits=1)
    file = tmp_path / "pids"
    script = f"import os, time; open({str(file)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(60)"
    command = [PYTHON, "-m", "signalbox_tools", "semaphores", "run", "till", "--", PYTHON, "-c", script]
    for moment in (0, 2, 4, 8):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        wait_until(lambda: bool(client.semaphore("till").show()["leases"]))
        time.sleep(moment * 0.01)
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
        assert client.semaphore("till").show()["free"] == 1
    assert not any(_lives(int(pid)) for pid in (file.read_text().split() if file.exists() else []))


def test_semaphores_and_rates_are_paused_and_resumed(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    client.semaphore("till").ensure(permits=2)
    client.rate("mails").ensure(per_minute=60, burst=5)
    for group, name in (("semaphores", "till"), ("rates", "mails")):
        assert "paused_at" in shown(capsys, group, "pause", name)[0]
        assert "paused_at" in shown(capsys, group, "show", name)[0]
        assert "paused_at" not in shown(capsys, group, "resume", name)[0]
    assert shown(capsys, "rates", "ls", "--json")[0]["name"] == "mails"
    assert main(["rates", "pause", "none"]) == 1
    assert "404 no-rate" in capsys.readouterr().err


def test_a_name_with_a_control_character_is_printed_and_not_obeyed(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "till\x9b2J größe"
    client.semaphore(name).ensure(permits=2)
    client.rate(name).ensure(per_minute=1)
    client.batch(name).populate([1])
    for group in ("semaphores", "rates", "batches"):
        assert main([group, "ls"]) == 0
        assert capsys.readouterr().out.startswith("till\\u009b2J größe  ")
        assert main([group, "ls", "--json"]) == main([group, "show", name]) == 0
        listed, single = (printed := capsys.readouterr().out).splitlines()
        assert name in (json.loads(listed).values())
        assert name in (json.loads(single).values())
        assert "\x9b" not in printed
    assert main(["documents", "get", name]) == main(["failures", "retry", name]) == 1
    assert "\x9b" not in capsys.readouterr().err


def test_semaphores_and_batches_are_listed(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client.semaphore("till").ensure(permits=2)
    client.batch("b").populate([1, 2, 3])
    assert main(["semaphores", "ls"]) == main(["batches", "ls"]) == 0
    assert capsys.readouterr().out == "till  2  2\nb  sealed  3\n"
    assert shown(capsys, "semaphores", "show", "till")[0]["permits"] == 2
    assert shown(capsys, "batches", "ls", "--state", "sealed", "--json")[0]["id"] == "b"
    for index in range(3):
        client.batch("b").complete(index, **({"error": "x"} if index == 1 else {"result": index}))
    assert shown(capsys, "batches", "show", "b")[0]["failed"] == 1
    assert shown(capsys, "batches", "watch", "b")[-1]["state"] == "completed"
    with monkeypatch.context() as terminal:
        terminal.setattr(sys.stdout, "isatty", lambda: True)
        assert main(["batches", "watch", "b"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == 1
    assert main(["batches", "retry", "b", "1"]) == 1
    assert "409" in capsys.readouterr().err


def test_failures_are_retried_by_name_or_all(
    client: Client, harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    for order in range(3):
        client.tasks.enqueue(call("shop", "charge", {"order": str(order), "amount": 0}))
    harness.run(due_only=True)
    assert client.failures.count() == 3
    [first, *_] = client.failures.list()
    assert len(shown(capsys, "failures", "ls", "--state", "failed", "--json")) == 3
    assert main(["failures", "ls", "--state", "retrying"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["failures", "ls"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{first['id']}  failed  shop  charge  invalid-order"
    assert shown(capsys, "failures", "show", first["id"])[0] == client.failures.get(first["id"])
    assert main(["failures", "retry", first["id"], "none"]) == 1
    assert "none: 404 not-found" in (said := capsys.readouterr().err)
    assert said.endswith("1 of 2 done.\n")
    assert client.failures.count() == 2
    assert main(["failures", "retry", "--all"]) == 0
    assert client.failures.count() == 0
    assert main(["failures", "retry"]) == main(["failures", "retry", "--all", "x"]) == 2
    assert main(["failures", "-p", "demo-project", "retry", "--all"]) == 2
    assert "Write the options behind `retry`." in capsys.readouterr().err


def test_runs_that_match_are_counted_confirmed_and_acted_on(
    client: Client, harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = client.flow("shop", "checkout")
    for number in range(4):
        labelled = checkout.with_(labels={"tenant": "ab"[number % 2]})
        labelled.start(f"o-{number}", order=f"o-{number}", item="tea", count=1, amount=5_000)
    ab = ("shop", "checkout", "--label", "tenant:a")
    monkeypatch.setattr("signalbox_tools.cli.flow_commands.sleep", lambda _: harness.run())
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert main(["flows", "suspend", *ab]) == 1
    assert "2 runs match." in capsys.readouterr().out
    assert main(["flows", "suspend", *ab, "--yes", "--reason", "an inventory"]) == 0
    assert checkout.count("suspended") == 2
    assert main(["flows", "terminate", "shop", "checkout", "o-1", "o-3", "o-9"]) == 1
    assert "o-9: 404" in capsys.readouterr().err
    assert checkout.count("cancelled") == 2
    assert main(["flows", "cancel", "shop", "checkout"]) == 2
    assert main(["flows", "cancel", "shop", "checkout", "o-0", "--state", "running"]) == 2
    assert main(["flows", "ls", "shop", "checkout", "--label", "tenant:b"]) == 0
    assert capsys.readouterr().out == "o-1  cancelled\no-3  cancelled\n"
    assert main(["flows", "delete", "shop", "checkout", "--state", "suspended", "--yes"]) == 1
    assert "o-0: A running flow cannot be deleted." in capsys.readouterr().err
    assert main(["flows", "resume", "shop", "checkout", "--state", "suspended", "--yes"]) == 0
    assert checkout.count("suspended") == 0
    assert "2 of 2 done." in capsys.readouterr().err
    for action in ("cancel", "terminate"):
        assert main(["flows", action, "shop", "checkout", "--state", "cancelled", "--yes"]) == 0
        assert "2 skipped: they had ended before, or no longer match.\n0 of 2 done.\n" in capsys.readouterr().err


def test_a_run_is_named_by_its_flow_and_id_alone(
    client: Client, harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = client.flow("shop", "checkout")
    for id_ in ("o-1", "o-2"):
        checkout.start(id_, order="o-1", item="tea", count=1, amount=5_000)
    assert main(["flows", "suspend", "checkout/o-2", "--reason", "an inventory"]) == 0
    assert shown(capsys, "flows", "show", "checkout/o-2")[0]["state"] == "suspended"
    assert shown(capsys, "flows", "show", "shop", "checkout", "o-2")[0]["state"] == "suspended"
    assert checkout.count("suspended") == 1
    assert main(["flows", "terminate", "checkout/o-1", "checkout/o-2"]) == 2
    assert "Name one run as FLOW/ID" in capsys.readouterr().err
    assert main(["flows", "show", "chekout/o-1"]) == 1
    assert "The catalogue has no flow 'chekout'. Its flows: checkout, " in capsys.readouterr().err
    shop = load().functions["shop"]
    several = SimpleNamespace(functions={"shop": shop, "till": shop})
    monkeypatch.setattr("signalbox.catalogue.reading.load", lambda **_: several)
    assert main(["flows", "show", "checkout/o-1"]) == 1
    assert "Several functions have a flow 'checkout'" in capsys.readouterr().err


def test_without_batches_the_command_acts_on_each_run_that_matches(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in ("o-1", "o-2"):
        client.flow("shop", "checkout").start(run, order=run, item="tea", count=1, amount=5_000)
    monkeypatch.setattr(flows_http, "is_called_by_queues", lambda _: False)
    assert main(["flows", "terminate", "shop", "checkout", "--state", "running", "--yes"]) == 0
    said = capsys.readouterr().err
    assert "add `api: [batches]` to the catalogue" in said
    assert said.endswith("2 of 2 done.\n")
    assert client.flow("shop", "checkout").count("cancelled") == 2


def test_a_batch_that_callers_cannot_read_acts_on_runs_without_progress(
    client: Client, harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client.flow("shop", "checkout").start("o-1", order="o-1", item="tea", count=1, amount=5_000)

    def show(_: object) -> Any:
        raise NotFound(404, {"title": "Not deployed", "detail": "batches is not deployed for callers"})

    monkeypatch.setattr("signalbox.client.blocking.batches.Batch.show", show)
    assert main(["flows", "terminate", "shop", "checkout", "--state", "running", "--yes"]) == 0
    said = capsys.readouterr().err
    assert "Its progress cannot be shown: 404 Not deployed: batches is not deployed for callers. To follow it, " in said
    assert "add `api: [batches]` to the catalogue." in said
    harness.run()
    assert client.flow("shop", "checkout").count("cancelled") == 1


def test_a_batch_of_runs_that_is_cancelled_has_not_acted_on_all(
    client: Client, harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client.flow("shop", "checkout").start("o-1", order="o-1", item="tea", count=1, amount=5_000)

    def cancel(_: float) -> None:
        [batch] = client.batches.list(state="sealed")
        client.batch(batch["id"]).cancel()

    monkeypatch.setattr("signalbox_tools.cli.flow_commands.sleep", cancel)
    assert main(["flows", "terminate", "shop", "checkout", "--state", "running", "--yes"]) == 1
    assert "0 of 1 done." in capsys.readouterr().err


def test_a_run_is_started_sent_events_and_followed(
    client: Client, harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    client.semaphore("dock").ensure(permits=1)
    client.object("shop", "Stock", "cup").call("put", count=5)
    run = ["shop", "checkout", "o-1"]
    assert shown(capsys, "flows", "start", *run, "order=o7", "item=cup", "count=1", "amount=90000")[0]["id"] == "o-1"
    harness.travel(5)
    [listed] = shown(capsys, "flows", "ls", *run[:2], "--state", "running", "--json")
    assert (listed["id"], listed["state"]) == ("o-1", "running")
    assert shown(capsys, "flows", "query", *run) == [["receipt"]]
    assert shown(capsys, "flows", "query", *run, "receipt")[0]["paid"] == "receipt of o7"
    drawn = shown(capsys, "flows", "start-new", *run[:2], "order=o9", "item=cup", "count=1", "amount=90000")[0]["id"]
    assert main(["flows", "ls", *run[:2], "--since", "2020-01-01T00:00:00Z"]) == 0
    assert capsys.readouterr().out == f"{drawn}  running\no-1  running\n"
    assert main(["flows", "ls", *run[:2], "--until", "36500d", "--newest-first"]) == 0
    assert capsys.readouterr().out == ""
    for wrong in ("2 hours", "2026-01-31T00:00:00", "h"):
        assert main(["flows", "ls", *run[:2], "--since", wrong]) == 2
    capsys.readouterr()
    [status] = shown(capsys, "flows", "show", *run)
    assert {"event approval"} <= {wait["command"] for wait in status["waiting_for"]}
    assert shown(capsys, "flows", "event", *run, "approval", '{"approved": true, "by": "Ann"}') == []
    harness.travel(5)
    *entries, outcome = shown(capsys, "flows", "tail", *run)
    assert entries[0]["entry"] == "done"
    assert outcome == {"state": "completed", "result": {"paid": "receipt of o7", "parcel": outcome["result"]["parcel"]}}
    assert main(["flows", "event", *run, "approval", "{"]) == 2
    assert main(["flows", "start", *run, "order"]) == 2
    client.flow("shop", "checkout").start("o-2", order="8", item="cup", count=1, amount=90_000)
    assert shown(capsys, "flows", "cancel", "shop", "checkout", "o-2", "--reason", "late") == []
    harness.travel(5)
    assert main(["flows", "tail", "shop", "checkout", "o-2"]) == 1
    assert "late" in capsys.readouterr().out
    for action in ("cancel", "terminate", "resume"):
        assert main(["flows", action, "shop", "checkout", "o-1", "o-2"]) == 1
        said = capsys.readouterr().err
        assert f"o-1: nothing to {action}: the run is completed\n" in said
        assert said.endswith(f"o-2: nothing to {action}: the run is cancelled\n0 of 2 done.\n")


def test_a_dry_run_of_retries_shows_each_named_or_chosen_run(
    client: Client, harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout = client.flow("shop", "checkout")
    for number in range(2):
        checkout.start(f"o-{number}", order=f"o-{number}", item="tea", count=1, amount=0)
    harness.run()
    assert checkout.count("failed") == 2
    dry = ("flows", "retry", "shop", "checkout", "--dry-run", "--from-entry", "0")
    shown_ids = [each["id"] for each in shown(capsys, *dry, "--state", "failed", "--json")]
    assert shown_ids == ["o-0", "o-1"]
    assert main([*dry, "--state", "failed"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == "checkout/o-0: entries that stay: 0"
    assert "  drops: 1 step shop." in said.out
    assert said.err.endswith("2 of 2 can be retried. Nothing was changed.\n")
    assert main([*dry, "--state", "suspended"]) == 0
    assert capsys.readouterr().err == "No run matches.\n"
    assert main([*dry]) == main([*dry, "o-0", "--state", "failed"]) == 2
    assert main([*dry, "o-9", "o-0"]) == 1
    said = capsys.readouterr()
    assert ("o-9: 404" in said.err, "checkout/o-0: " in said.out) == (True, True)
    assert checkout.count("failed") == 2


def test_a_command_on_runs_of_which_none_matches_says_so_and_creates_no_batch(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    for action in ("retry", "cancel", "suspend"):
        assert main(["flows", action, "shop", "checkout", "--state", "failed", "--yes"]) == 0
        assert capsys.readouterr().err == "No run matches.\n"
    assert main(["failures", "retry", "--all"]) == 0
    assert capsys.readouterr().err == "There is nothing to do.\n"
    assert list(client.batches.list()) == []


def test_a_retry_that_would_run_ended_commands_of_a_stuck_run_again_is_confirmed(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"flow": "checkout", "id": "o-1", "keeps": 1, "runs_again": [], "drops": [], "dropped": 0}
    plan |= {"cancels": ["step shop.charge"], "ended": ["step shop.charge"], "sub_flows": []}
    asked: list[bool] = []

    def retry(_: object, from_entry: int | None, *, dry_run: bool = False, **__: object) -> Any:
        asked.append(dry_run)
        return plan

    monkeypatch.setattr("signalbox.client.blocking.objects_and_flows.Run.retry", retry)
    command = ["flows", "retry", "shop", "checkout", "o-1", "--from-entry", "1"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert main(command) == 1
    said = capsys.readouterr()
    assert "checkout/o-1 is stuck. A retry runs these commands a second time: step shop.charge. With fixed" in said.out
    assert "o-1: not retried" in said.err
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert main(command) == main([*command, "--yes"]) == 0
    assert asked == [True, True, False, False]
    assert main([*command, "--dry-run"]) == 0
    assert "  has ended, and runs a second time: step shop.charge\n" in capsys.readouterr().out


@pytest.fixture
def waiting(client: Client, harness: Harness) -> Iterator[tuple[str, ...]]:
    """A run of the checkout that waits for its approval, as the commands name it."""
    path, modules = list(sys.path), dict(sys.modules)
    client.object("shop", "Stock", "cup").call("put", count=5)
    client.flow("shop", "checkout").start("o-1", order="o7", item="cup", count=1, amount=90_000)
    harness.travel(5)
    yield "shop", "checkout", "o-1"
    sys.path[:] = path
    for name in sys.modules.keys() - modules.keys():
        del sys.modules[name]


def test_the_replay_of_a_run_shows_control_characters_as_escapes(
    waiting: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_replay, "replay", lambda *_, **__: "The run waits for: event \x1b[2J")
    assert main(["flows", "replay", *waiting]) == 0

    def diverges(*_: object, **__: object) -> str:
        raise AssertionError("the log has \x1b[2J,\nthe code x")

    monkeypatch.setattr(flow_replay, "replay", diverges)
    assert main(["flows", "replay", *waiting]) == 1
    printed = capsys.readouterr()
    assert printed.out == "The run waits for: event \\u001b[2J\n"
    assert "the log has \\u001b[2J,\nthe code x" in printed.err


def test_a_run_is_replayed_with_the_code_of_the_project(
    waiting: tuple[str, ...], harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = len(harness.tasks)
    assert main(["flows", "replay", *waiting]) == 0
    assert "The code fits the log (2 entries). The run waits for: event approval" in capsys.readouterr().out
    assert len(harness.tasks) == left
    monkeypatch.setattr("sys.stdin", io.StringIO("p order, amount\ncontinue\n"))
    assert main(["flows", "replay", *waiting, "--debug"]) == 0
    assert "('o7', 90000)" in capsys.readouterr().out


def test_a_replay_that_diverges_or_has_no_code_says_where(
    waiting: tuple[str, ...], client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = client.flow("shop", "checkout").run("o-1").whole_log()
    log["entries"][0]["command"] = "step/another"
    monkeypatch.setattr(Run, "whole_log", lambda _: log)
    assert main(["flows", "replay", *waiting]) == 1
    assert "(main.py:" in capsys.readouterr().err
    assert main(["flows", "replay", "shop", "chekout", "o-1"]) == 1
    assert "shop has no flow 'chekout'. It has: checkout" in capsys.readouterr().err
    assert main(["flows", "replay", "shp", "checkout", "o-1"]) == 1
    assert "No function 'shp' is in the catalogue." in capsys.readouterr().err


def test_runs_are_listed_by_several_labels_and_counted_by_one(
    client: Client, harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    client.object("shop", "Stock", "cup").call("put", count=5)
    flow = client.flow("shop", "checkout")
    for id_, tenant, size in (("o-1", "a", "s"), ("o-2", "a", "l"), ("o-3", "b", "l")):
        labels = {"tenant": tenant, "size": size}
        flow.with_(labels=labels).start(id_, order=id_, item="cup", count=1, amount=90_000)
    harness.travel(5)
    assert [run["id"] for run in flow.runs(label=["tenant:a", "size:l"])] == ["o-2"]
    assert flow.count(label=["tenant:a", "size:l"]) == 1
    assert main(["flows", "ls", "shop", "checkout", "--label", "size:l", "--label", "tenant:b"]) == 0
    assert capsys.readouterr().out.split()[:1] == ["o-3"]
    assert main(["flows", "ls", "shop", "checkout", "--count-by", "tenant"]) == 0
    assert json.loads(capsys.readouterr().out) == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("arguments", "said", "status"),
    [
        (["flows", "ls", "shop", "checkout", "--since", "9999999d"], "must be 30m, 2h or 7d", 2),
        (["flows", "ls", "shop", "checkout", "--until", "0001-01-01T00:00:00+14:00"], "in the years 1 to 9999", 1),
        (["flows", "ls", "shop", "checkout", "--count-by", "tenant:a"], "the name of a label", 1),
        (["flows", "event", "checkout/1", "paid", "[" * 100_000], "is not JSON: maximum recursion", 2),
        (["flows", "start", "checkout/1", f"order={'[' * 100_000}"], "is nested too deeply", 2),
    ],
)
def test_a_strange_argument_is_named_in_one_line(
    client: Client, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str, status: int
) -> None:
    assert main(arguments) == status
    err = capsys.readouterr().err
    assert said in err
    assert len(err) < 1_000


def test_letters_that_a_terminal_lacks_are_printed_as_escapes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.documents.put("a", {"text": "né→\U0001f6a6"})
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "latin-1", write_through=True))
    assert main(["documents", "get", "a"]) == 0
    assert b'"n\xe9\\u2192\\U0001f6a6"' in printed.getvalue()


def test_all_runs_that_continue_are_replayed_and_those_that_would_be_stuck_are_named_with_their_places(
    waiting: tuple[str, ...],
    client: Client,
    harness: Harness,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow = client.flow("shop", "checkout")
    for number in range(2, 12):
        flow.start(f"o-{number}", order=f"p{number}", item="cup", count=0, amount=90_000)
    harness.travel(5)
    flow.run("o-2").suspend()
    flow.run("o-3").terminate()
    assert main(["flows", "replay", "shop", "--all-running"]) == 0
    assert capsys.readouterr().out == "10 runs would continue with this code.\n"
    whole_log = Run.whole_log

    def changed(run: Run) -> dict[str, Any]:
        log: dict[str, Any] = whole_log(run)
        if log["id"] in ("o-1", "o-2"):
            log["entries"][0]["command"] = "step/another"
        return log

    monkeypatch.setattr(Run, "whole_log", changed)
    assert main(["flows", "replay", "shop", "checkout", "--all-running"]) == 3
    first, *misfits = capsys.readouterr().out.splitlines()
    assert first == "2 of 10 runs would be stuck with this code:"
    assert [line.split(":")[0] for line in misfits] == ["  checkout/o-1", "  checkout/o-2"]
    assert all("(main.py:" in line for line in misfits)


def test_code_that_is_replayed_finds_the_flows_and_classes_of_all_functions() -> None:
    with flow_replay.knowing_the_catalogue():
        assert settings.settings().flow_functions["checkout"] == "shop"
        assert settings.settings().object_classes["Stock"] == "shop"
    assert "checkout" not in settings.settings().flow_functions


def test_a_replay_of_all_runs_names_no_run_and_one_of_a_run_names_it_whole(
    waiting: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["flows", "replay", *waiting, "--all-running"]) == 2
    assert "leave out ID and --debug" in capsys.readouterr().err
    assert main(["flows", "replay", "shop", "checkout"]) == 2
    assert "write --all-running" in capsys.readouterr().err


def test_without_a_stack_or_an_address_a_command_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "signalbox.yaml").touch()  # the clone itself may have a stack
    monkeypatch.chdir(tmp_path)
    assert main(["documents", "get", "a"]) == 1
    assert "No local stack runs here. Start one: signalbox dev" in capsys.readouterr().err


def test_a_command_that_runs_for_longer_than_a_token_gets_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left, seen = ["token-1", "token-2"], list[str]()

    def token(url: str) -> str:
        if not left:
            raise CommandFailed("sign in again")
        return left.pop(0)

    def answer(_: object, request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["Authorization"])
        return httpx.Response(200, json={"items": [], "semaphores": [], "next_page_token": "more"})

    monkeypatch.setattr("signalbox_tools.deploy.deployment_client.tokens", lambda *_: cache(token))
    monkeypatch.setattr("signalbox_tools.deploy.project_facts.signed_in", lambda *_: "ann@example.com")
    monkeypatch.setattr("signalbox_tools.console.identity_tokens.SECONDS_MAX", -1)
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    assert main(["semaphores", "ls", "-p", "demo-project"]) == 1
    assert "sign in again" in capsys.readouterr().err
    assert seen == ["Bearer token-1", "Bearer token-2"]


def test_semaphores_are_created_batches_cancelled_and_versions_restored(
    client: Client, harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    [made] = shown(capsys, "semaphores", "create", "till", "--permits", "3", "--lease", "30")
    assert (made["name"], made["permits"], made["lease_seconds"]) == ("till", 3, 30)
    client.batch("b").create(on_complete=call("shop", "charge", {"order": "7", "amount": 1}))
    assert shown(capsys, "batches", "cancel", "b")[0]["state"] == "cancelled"
    assert main(["batches", "cancel", "none"]) == 1
    assert "404" in capsys.readouterr().err
    assert shown(capsys, "documents", "versions", "none") == []
    for command in ("version", "restore"):
        assert main(["documents", command, "none", "1"]) == 1
        assert "404" in capsys.readouterr().err


def test_transforms_and_standings(client: Client, harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transforms", "put", "price", "{"]) == 2
    assert main(["transforms", "put", "price", '{"net": 1}']) == 0
    capsys.readouterr()
    assert shown(capsys, "transforms", "ls") == [*client.transforms.list()]
    assert shown(capsys, "transforms", "show", "price") == [client.transforms.get("price")]
    assert shown(capsys, "transforms", "delete", "price") == []
    client.standings.declare("votes", by=["votes"])
    assert shown(capsys, "standings", "kinds") == [client.standings.kinds()]
    assert shown(capsys, "standings", "ls", "votes") == [*client.standings.list("votes")]
    assert main(["standings", "show", "votes", "x"]) in (0, 1)
    assert main(["standings", "recount", "votes", "x"]) in (0, 1)
    capsys.readouterr()


def test_objects_are_called_listed_and_deleted(
    client: Client, harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    account = ("accounts", "Account", "b-0")
    assert main(["objects", "call", *account, "deposit", "amount=5"]) == 0
    assert shown(capsys, "objects", "show", *account)[-1]["exists"] is True
    assert shown(capsys, "objects", "ls", *account[:2], "--json")[0]["key"] == "b-0"
    assert main(["objects", "ls", *account[:2]]) == 0
    assert capsys.readouterr().out == "b-0\n"
    assert main(["objects", "call", *account, "withdraw"]) == 1
    assert main(["objects", "delete", *account]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("signals", [1, 2])
def test_a_second_signal_ends_the_retries_of_a_release(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, signals: int
) -> None:
    client.semaphore("till").ensure(permits=1)
    released = threading.Event()

    def signal_lease(*_: object) -> bool:
        for _number in range(signals):
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGTERM)
        return released.wait(0.2 if signals == 1 else 20)

    monkeypatch.setattr(Semaphore, "signal", signal_lease)
    began = time.monotonic()
    assert main(["semaphores", "run", "till", "--", "sh", "-c", "exit 3"]) == 3
    assert ("may not be released" in capsys.readouterr().err) == (signals == 2)
    assert time.monotonic() - began < 10
    released.set()


def test_columns_are_aligned_under_a_head_on_a_terminal_only(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, permits in (("till", 2), ("a-long-name", 10)):
        client.semaphore(name).ensure(permits=permits)
    assert main(["semaphores", "ls"]) == 0
    assert capsys.readouterr().out == "a-long-name  10  10\ntill  2  2\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["semaphores", "ls"]) == 0
    assert capsys.readouterr().out == "NAME         PERMITS  FREE\na-long-name  10       10\ntill         2        2\n"
    assert main(["batches", "ls"]) == 0
    assert capsys.readouterr().out == ""


def test_an_address_that_does_not_answer_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    for url in ("http://127.0.0.1:9/", "https://127.0.0.1:9/", "https:///", "nonsense"):
        assert main(["documents", "get", "a", "--url", url]) == 1
        assert f"{url} does not answer (" in (said := capsys.readouterr().err)
        assert said.endswith(": correct --url or SIGNALBOX_URL.\n")
    assert time.monotonic() - began < 10


# --- schedules ---

PATCH = {"row": 0, "column": 0}


@pytest.fixture
def weekly(monkeypatch: pytest.MonkeyPatch) -> Schedule:
    """A schedule of a task, which the catalogue lacks."""
    schedule = Schedule(name="weekly", function="quilt", task="paint", cron="0 6 * * 1", arguments=PATCH)
    known = load()
    content = dataclasses.replace(known, schedules={**known.schedules, "weekly": schedule})
    monkeypatch.setattr("signalbox.catalogue.reading.load", lambda *_, **__: content)
    return schedule


def test_a_schedule_is_listed_with_its_next_time_and_is_run_once_more(
    harness: Harness, weekly: Schedule, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedules", "ls"]) == 0
    assert "weekly  0 6 * * 1  Etc/UTC  quilt paint  next " in capsys.readouterr().out
    assert main(["schedules", "run", "weekly"]) == 0
    assert [(task.task, task.payload, [*task.context]) for task in harness.tasks] == [("paint", PATCH, ["scheduled"])]
    assert main(["schedules", "run", "sweep"]) == 1
    assert "no schedule 'sweep' of a task. It has: " in capsys.readouterr().err


def test_a_paused_schedule_is_listed_as_paused(
    weekly: Schedule, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / PAUSED_FILE.format("weekly")).touch()
    stack = RunningStack(str(tmp_path), 1, "http://127.0.0.1:9/", "sqlite", "", "", {})
    monkeypatch.setattr(RunningStack, "of_project", lambda _: stack)
    assert main(["schedules", "ls"]) == 0
    listed = capsys.readouterr().out
    assert "weekly  0 6 * * 1  Etc/UTC  quilt paint  paused\n" in listed
    assert "sweep  " in listed
    assert listed.count("paused") == 1
    monkeypatch.setattr(CloudSource, "paused_schedules", lambda _: ["sweep"])
    monkeypatch.setattr("signalbox_tools.cli.schedule_commands.reachable", lambda *_: None)
    assert main(["schedules", "ls", "-p", "demo-project"]) == 0
    listed = capsys.readouterr().out
    assert "quilt paint  next " in listed
    assert listed.count("paused") == 1


def test_a_question_without_an_answer_or_with_no_says_that_nothing_was_done(
    harness: Harness, weekly: Schedule, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer in ("", "n\n"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        assert main(["schedules", "backfill", "weekly", "--since", "30d"]) == 1
        said = capsys.readouterr().err
        assert "Stopped: this was not confirmed, and not done (--yes confirms everything in advance)." in said
        assert "Interrupted" not in said
    assert not harness.tasks


def test_only_a_command_of_terraform_has_a_state_to_continue_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise click.Abort from KeyboardInterrupt()

    monkeypatch.setattr("signalbox_tools.cli.main.cli.main", interrupted)
    assert main(["catalogue"]) == 1
    assert capsys.readouterr().err == "Interrupted.\n"
    assert main(["deploy", "-p", "demo-project"]) == 1
    assert capsys.readouterr().err.startswith("Interrupted. The state has what was created: run the command again")


def test_the_missed_times_of_a_schedule_are_made_up_for_once(
    harness: Harness, weekly: Schedule, capsys: pytest.CaptureFixture[str]
) -> None:
    span = ("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-20T00:00:00Z", "--yes")
    harness.advance(20 * 24 * 3600)
    shorter = ("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-13T00:00:00Z", "--yes")
    assert main(["schedules", "backfill", "weekly", *shorter]) == 0
    said = capsys.readouterr().err
    assert "2 of 2 done." in said
    assert "before" not in said
    for had in (2, 3):
        assert main(["schedules", "backfill", "weekly", *span]) == 0
        said = capsys.readouterr().err
        assert "3 of 3 done." in said
        assert f"{had} of 3 times had been enqueued before, by the schedule or a backfill, and were left out" in said
    planned = sorted(task.context["scheduled"] for task in harness.tasks)
    assert planned == [f"2026-01-{day:02}T06:00:00Z" for day in (5, 12, 19)]
    assert (
        main(["schedules", "backfill", "weekly", "--since", "2026-01-06T00:00:00Z", "--until", "2026-01-07T00:00:00Z"])
        == 1
    )
    assert "has no time between" in capsys.readouterr().err
