"""The same job with Redis and with ZooKeeper, if they are installed; their servers are started here.

Neither client is a dependency of this project: `pip install redis kazoo`. Redis's Lock is a mutex, so each permit is a
lock of its own and a client's number chooses which; a lock has no wait queue, and a waiter polls every 0.1 s (the
library's own default). ZooKeeper's is kazoo's Semaphore: a wait queue, and a session in place of a lease.
"""

import contextlib
import importlib
import logging
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from signalbox_tools.local.child_processes import free_port, listens
from tests.bench.semaphores.visits import Act, visit
from tests.emulator.polling_until import eventually

ZOOKEEPER_JARS = Path("/usr/share/java/zookeeper.jar")
ZOOKEEPER = "org.apache.zookeeper.server.ZooKeeperServerMain"
LOCK_SECONDS = 60


class Missing(Exception):
    """This machine does not have the program or the library."""


@contextmanager
def redis(permits: int, _: int) -> Iterator[Act]:
    """Start a Redis that writes nothing to disk; yield the act of a client. Raises `Missing`."""
    library, program = _library("redis"), shutil.which("redis-server")
    if program is None:
        raise Missing("no redis-server")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder, _server(folder, port, program, "--port", str(port), "--save", ""):
        client = library.Redis(port=port)

        def pair(number: int, stop_at: float) -> Any:
            lock = client.lock(f"permit {number % permits}", timeout=LOCK_SECONDS)
            return visit(lock.acquire, lock.release, stop_at)

        yield pair
        client.close()


@contextmanager
def zookeeper(permits: int, clients: int) -> Iterator[Act]:
    """Start a ZooKeeper; yield the act of a client. Each client has a separate session. Raises `Missing`."""
    library = _library("kazoo.client")
    if not ZOOKEEPER_JARS.exists():
        raise Missing(f"no {ZOOKEEPER_JARS}")
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it warns of each session that ends
    port = free_port()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as exits:
        config = Path(folder) / "zoo.cfg"
        config.write_text(f"dataDir={folder}\nclientPort={port}\nmaxClientCnxns=0\nadmin.enableServer=false\n", "utf-8")
        java = ("java", "-cp", f"/etc/zookeeper/conf:{ZOOKEEPER_JARS}", ZOOKEEPER)
        exits.enter_context(_server(folder, port, *java, str(config)))
        sessions = [library.KazooClient(f"127.0.0.1:{port}") for _ in range(clients)]
        for session in sessions:
            session.start()
            exits.callback(session.stop)

        def pair(number: int, stop_at: float) -> Any:
            semaphore = sessions[number].Semaphore("/turnstile", max_leases=permits)
            return visit(semaphore.acquire, semaphore.release, stop_at)

        yield pair


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Missing(f"pip install {name.partition('.')[0]}") from error


@contextmanager
def _server(folder: str, port: int, *command: str) -> Iterator[None]:
    with (Path(folder) / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            eventually(partial(listens, port))
            yield
        finally:
            process.terminate()
            process.wait()
