"""Ports that are chosen belong to one stack, and a service that does not start shows its log."""

import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

import pytest

from signalbox_tools.local import child_processes
from signalbox_tools.local.services.command_lines import stats
from signalbox_tools.local.services.ports_and_sockets import listen
from signalbox_tools.local.services.service_process import Child, Service, StackError

WAIT_SECONDS_MAX = 20.0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a server cannot open a reserved port")
def test_a_port_that_a_stack_has_chosen_is_not_chosen_again_before_its_server_opens_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[int] = []

    def draw(ports: Sequence[int]) -> int:
        drawn.append(next(port for port in ports if drawn.count(port) < 2))
        return drawn[-1]

    monkeypatch.setattr("signalbox_tools.local.child_processes.secrets.choice", draw)
    first, reserved = child_processes.reserved_ports(1)
    second, more = child_processes.reserved_ports(1)
    with closing(reserved[0]), closing(more[0]):
        assert first != second
        assert child_processes.free_ports(1)[0] not in (*first, *second)
        for port in (*first, *second):
            assert not child_processes.listens(port)
            with socket.create_server(("127.0.0.1", port)):
                assert child_processes.listens(port)


def run(child: Child, until: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + WAIT_SECONDS_MAX
    while not until():
        assert time.monotonic() < give_up_at
        child.check()
        time.sleep(0.01)


def python(code: str, ready: Callable[[], bool] = lambda: False) -> Service:
    return Service("bridge", (sys.executable, "-c", code), ready=ready)


def test_a_service_that_dies_before_it_is_ready_shows_how_and_the_end_of_its_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "bridge.log"
    log.write_text("of an earlier start\n")
    child = Child(python("raise SystemExit('the port is taken')"), log)
    with pytest.raises(StackError, match=r"bridge died 3 times before it was ready \(exit code 1\)(?s:.)*taken"):
        run(child, lambda: False)
    first, second = caplog.messages
    assert first == second
    assert first == (
        f"bridge died before it was ready (exit code 1), restarting. The end of its log, {log}:\nthe port is taken"
    )


def test_a_killed_service_that_has_logged_nothing_is_reported_with_its_signal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kills_itself = python("import os; os.kill(os.getpid(), 9)")
    child = Child(kills_itself, tmp_path / "bridge.log")
    run(child, lambda: child.false_starts == 1)
    assert caplog.messages == ["bridge died before it was ready (ended by SIGKILL), restarting. It has logged nothing."]


def test_a_service_that_dies_after_it_was_ready_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    child = Child(python("print('log'); input()", ready=lambda: True), tmp_path / "bridge.log")
    run(child, lambda: child.prepared or bool(child.deaths))
    run(child, lambda: bool(child.deaths))
    assert caplog.messages == ["bridge died (exit code 1), restarting"]


def test_a_version_that_cannot_be_loaded_is_reported_with_its_log_and_not_that_of_the_old_one(tmp_path: Path) -> None:
    log = tmp_path / "bridge.log"
    log.write_text('{"message": "handled"}\n')
    serving = Service("bridge", ("sleep", "60"), ready=lambda: True, load_error=lambda _: None)
    child, result = Child(serving, log), Future[str]()
    try:
        run(child, lambda: child.prepared)
        newer = python("import os; print('settings are missing', flush=True); os._exit(7)")
        child.replace(Service(newer.name, newer.command, newer.ready, load_error=lambda _: None), result)
        with log.open("a") as file:
            file.write('{"message": "handled"}\n')
        run(child, result.done)
        assert result.result() == "settings are missing\nexit code 7"
    finally:
        for process in child.running:
            child_processes.kill(process)


def test_another_program_at_the_port_of_a_service_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "signalbox_tools.local.services.command_lines.http_client.send", lambda *_, **__: b"<html>another program"
    )
    assert stats("http://127.0.0.1:9") is None


FORKS_A_WORKER = """
import os, sys, time
from types import SimpleNamespace
from signalbox_tools.local.functions import gunicorn_hooks, request_labels, server

server.connect = request_labels.mark_output = lambda: None
before = os.getpid()
if not os.fork():
    gunicorn_hooks.post_fork(None, SimpleNamespace(ppid=before))
    print("serving", flush=True)
    time.sleep(60)
os.wait()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_process_of_the_functions_ends_at_once_with_the_one_that_forked_it() -> None:
    child = child_processes.start((sys.executable, "-c", FORKS_A_WORKER), output=subprocess.PIPE)
    try:
        assert child.stdout
        assert child.stdout.readline() == b"serving\n"
        killed_at = time.monotonic()
        child.send_signal(signal.SIGKILL)
        assert child.stdout.read() == b""  # both have ended, since both have the pipe
        assert time.monotonic() - killed_at < WAIT_SECONDS_MAX
    finally:
        child_processes.kill(child)


IS_STOPPED_TWICE = """
import os, signal, threading
from types import SimpleNamespace
from signalbox_tools.local import function_channel
from signalbox_tools.local.functions import channel_threads, gunicorn_hooks

held = threading.Lock()

class Threads:
    def __init__(self, *_): self.start = lambda: None
    def leave(self):
        assert held.acquire(blocking=False), "the second signal interrupts what handles the first"
        os.kill(os.getpid(), signal.SIGTERM)
        held.release()

channel_threads.DeliveryThreads = Threads
os.environ[function_channel.TASKS] = "an address"
exits = []
worker = SimpleNamespace(wsgi=None, cfg=SimpleNamespace(threads=1), handle_exit=lambda *_: exits.append(1))
gunicorn_hooks.post_worker_init(worker)
os.kill(os.getpid(), signal.SIGTERM)
assert exits == [1], exits
assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN, "programs that are started would ignore it, too"
"""


def test_a_second_sigterm_does_not_interrupt_the_first() -> None:
    """The process group receives one, and gunicorn sends its processes another."""
    done = subprocess.run((sys.executable, "-c", IS_STOPPED_TWICE), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_port_that_killed_processes_release_a_moment_later_is_taken_then() -> None:
    held = socket.create_server(("127.0.0.1", 0))
    port = held.getsockname()[1]
    releasing = threading.Timer(0.2, held.close)
    releasing.start()
    with listen(port) as listening:
        assert listening.getsockname()[1] == port
    releasing.join()
