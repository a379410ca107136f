"""Child processes that never outlive their parent.

Each child has its own session, and so its own process group: killing the group also kills the child's own children. On
Linux the kernel kills the child when the *thread* that started it ends, however it ends (``PR_SET_PDEATHSIG``); so
start children from a thread that runs as long as they must run. The request is made some milliseconds after `start`
has returned: if the thread ends before that, the child continues to run. Elsewhere a parent killed by SIGKILL leaves
its children behind.
"""

import contextlib
import ipaddress
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

ENDS_WITH_ITS_PARENT = str(Path(__file__).resolve().with_name("ends_with_its_parent.py"))
SIGTERM = signal.SIGTERM
TAIL_BYTES = 2_000
POLL_SECONDS = 0.03

CHOSEN_PORTS = range(20_000, 32_768)
"""Ports below those of outgoing connections, which begin at 32,768 on Linux, and at 49,152 on macOS."""

PRIVATE_HOSTS = range(0x7F010000, 0x7FFF0000)
"""127.1.0.0 to 127.254.255.255. Systems and programs give names to some addresses before these."""


def free_ports(count: int) -> list[int]:
    """Choose TCP ports of 127.0.0.1 that no process listens on, all different.

    Outgoing connections do not use these ports, so no connection can take a port before its server opens it.
    """
    with contextlib.ExitStack() as sockets:
        return [_bound_port(sockets.enter_context(socket.socket())) for _ in range(count)]


def reserved_ports(count: int) -> tuple[list[int], list[socket.socket]]:
    """Choose ports as `free_ports` does, and return them with sockets that keep them from being chosen again.

    Another stack that starts at the same time could choose a port before its server listens on it. On Linux, a server
    that sets ``SO_REUSEADDR`` can listen on a reserved port. On other systems it cannot, so this returns no sockets.
    """
    if sys.platform != "linux":
        return free_ports(count), []
    sockets = [socket.socket() for _ in range(count)]
    ports = [_bound_port(reserved) for reserved in sockets]
    for reserved in sockets:  # after its `bind`: two sockets that have the option before that can share a port
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return ports, sockets


def _bound_port(probe: socket.socket) -> int:
    while True:
        port = secrets.choice(CHOSEN_PORTS)
        with contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def free_port() -> int:
    """Choose a TCP port of 127.0.0.1 that no process listens on."""
    return free_ports(1)[0]


def private_host() -> str:
    """Choose an address of this machine for a server that does not check whether a web page calls it.

    Linux answers at every address of 127.0.0.0/8, so a page would have to try 2**24 of them with all ports. Where only
    127.0.0.1 is configured, as on macOS, that is returned, and a page finds the port in seconds.
    """
    host = str(ipaddress.IPv4Address(secrets.choice(PRIVATE_HOSTS)))
    with socket.socket() as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return "127.0.0.1"
    return host


def listens(port: int) -> bool:
    """Return whether a process listens on a TCP port of 127.0.0.1."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def start(
    command: Sequence[str],
    *,
    output: int | IO[bytes],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    inherited: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a child in a new process group; both its outputs go to `output`.

    A command that does not exist ends at once with the exit code 1 and an error in its output. Elsewhere than on Linux,
    `FileNotFoundError` is raised.
    """
    return subprocess.Popen(  # noqa: S603 (a list, no shell)
        [*_launcher(), *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=folder,
        pass_fds=inherited,
        start_new_session=True,
    )


def stop(process: subprocess.Popen[bytes], *, grace_seconds: float = 3.0) -> None:
    """Stop a child with its process group: SIGTERM, then SIGKILL after the grace. A second stop has no effect."""
    signal_group(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace_seconds)
    kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL a child's whole process group and wait for the child's end."""
    signal_group(process, signal.SIGKILL)
    process.wait()


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a child's process group, if a process of it is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS raises it for a group of zombies
        os.killpg(process.pid, number)


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], *, timeout_seconds: float) -> bool:
    """Poll until `ready()`; return False if the child has ended or the time is over."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline and process.poll() is None:
        if ready():
            return True
        time.sleep(POLL_SECONDS)
    return False


def tail(log: Path, since: int = 0) -> str:
    """Return the last lines of a log file after its first `since` bytes, or an empty text if it cannot be read."""
    with contextlib.suppress(OSError):
        return log.read_bytes()[since:][-TAIL_BYTES:].decode("utf-8", "replace").strip()
    return ""


def ending(code: int) -> str:
    """Return how a process has ended, from the code of `Popen`: its exit code, or the signal that ended it."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"


@contextlib.contextmanager
def sigterm_raises() -> Iterator[None]:
    """Turn SIGTERM into `SystemExit`, unless a handler is installed."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM within the context, in a thread that can handle signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _launcher() -> Sequence[str]:
    """Return the launcher and its arguments, to put before a command; empty on other systems than Linux."""
    return (sys.executable, "-I", "-S", ENDS_WITH_ITS_PARENT, str(os.getpid())) if sys.platform == "linux" else ()
