"""Measure the time from a function's process start to its first response, compared with a bare function.

python -m tests.bench.cold_start sweep documents --pairs 9

Each function runs from its own zip, built as Google builds its image, in the functions framework's server. The bare
function imports only the Firestore client, which every function needs, and nothing of the kit. The two run in turn, so
that a machine whose speed changes slows both; the ratio is the median over the pairs.
"""

import argparse
import contextlib
import http.client
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from signalbox.catalogue.reading import load
from signalbox_tools.local.child_processes import free_port
from signalbox_tools.packaging.source_zip import package
from tests.bench.figures import Figure

BARE = """\
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcTransport
from google.cloud.firestore_v1.types import firestore


def bare(request):
    return "ok"
"""
BUILD_ENVIRONMENT = {"SOURCE_DATE_EPOCH": "315532801"}
"""The build's environment, as `infra/modules/function/main.tf` sets it."""

IMAGE_TIME = 315_532_801
"""When each file of an image was modified, whatever is true: the first second of 1980."""

NOWHERE = "127.0.0.1:1"  # the clients are made, and connect only when they are used
UNROUTED = "/no/such/path/here"
POLL_SECONDS = 0.002
ANSWER_SECONDS = 30


@dataclass(frozen=True, slots=True)
class ColdStart:
    """The seconds of a function's starts, each with those of a bare function right before it."""

    name: str
    bare_seconds: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios."""
        return statistics.median(own / bare for own, bare in zip(self.seconds, self.bare_seconds, strict=True))


def measure(name: str, pairs: int) -> ColdStart:
    """Measure a function of the catalogue, after one start of each that is not counted. Raises `KeyError`."""
    with tempfile.TemporaryDirectory() as folder:
        own, bare = Path(folder, "own"), Path(folder, "bare")
        _unpack(name, own)
        bare.mkdir()
        (bare / "main.py").write_text(BARE)
        for built in (own, bare):
            build(built)
        timed = [(start_seconds("bare", bare), start_seconds(name, own)) for _ in range(pairs + 1)][1:]
    return ColdStart(name, tuple(pair[0] for pair in timed), tuple(pair[1] for pair in timed))


def build(folder: Path, environment: Mapping[str, str] = BUILD_ENVIRONMENT) -> None:
    """Compile the code in a folder as the buildpack does, and give the files the time that they have in the image."""
    command = [sys.executable, "-m", "compileall", "-f", "-q", "."]
    subprocess.run(command, cwd=folder, env={**os.environ, **environment}, check=True)
    for path in folder.rglob("*"):
        os.utime(path, (IMAGE_TIME, IMAGE_TIME))


def start_seconds(name: str, folder: Path) -> float:
    """Return the seconds from the start of a function's process to its first response."""
    port = free_port()
    began = time.perf_counter()
    with _served(name, folder, port) as process:
        while not _responds(port):
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with status {process.returncode} before it served anything")
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - began


@contextlib.contextmanager
def _served(name: str, folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    options = ("--target", name, "--source", "main.py", "--port", str(port))
    elsewhere = {"FIRESTORE_EMULATOR_HOST": NOWHERE, "CLOUD_TASKS_EMULATOR_HOST": NOWHERE}
    environment = {**os.environ, **elsewhere, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "functions_framework", *options],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _responds(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", UNROUTED)
        connection.getresponse().read()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def _unpack(name: str, folder: Path) -> None:
    catalogue = load()
    archive = folder.with_suffix(".zip")
    archive.write_bytes(package(catalogue.functions[name], catalogue.root).zipped())
    with zipfile.ZipFile(archive) as files:
        files.extractall(folder)


def line(cold: ColdStart) -> str:
    """Return one line of the table."""
    own, bare = min(cold.seconds), min(cold.bare_seconds)
    return f"{cold.name:18} {own * 1000:6.0f} ms   bare {bare * 1000:6.0f} ms   {cold.ratio:.2f} times the bare one"


def figure(cold: ColdStart) -> Figure:
    """Return the pairs' median ratio, as the milliseconds that it makes of the bare function's fastest start."""
    bare = 1000 * min(cold.bare_seconds)
    return Figure(f"start of {cold.name}", cold.ratio * bare, "ms", "a bare function", bare)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.cold_start", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("names", nargs="*", default=["documents", "semaphore_wait", "sweep"], metavar="NAME")
    parser.add_argument("--pairs", type=int, default=7, help="starts of each, in turn (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    for name in chosen.names:
        cold = measure(name, chosen.pairs)
        sys.stdout.write(f"{line(cold)}\n{figure(cold).line()}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
