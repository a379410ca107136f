"""Find Google's Firestore emulator on this machine and run it.

It is a Java program that comes with the Google Cloud SDK or with the Firebase tools. It is run without ``gcloud``,
which has no option for the address of events and does not end the Java process when it is interrupted. Its data is in
memory. It answers any web page, so its address is one that a page cannot find (`child_processes.private_host`).

    emulator = find()
    if emulator:
        with emulator.start() as running:
            os.environ["FIRESTORE_EMULATOR_HOST"] = running.host
"""

import atexit
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from signalbox_tools import http_client
from signalbox_tools.local import child_processes

HOW_TO_GET_IT = (
    "install Java 21 and the Google Cloud SDK, then: gcloud components install cloud-firestore-emulator "
    "(Debian: apt-get install google-cloud-cli-firestore-emulator)"
)
READY_SECONDS = 60  # one second on an idle machine; a loaded one takes its time
RESPONSE_SECONDS_MAX = 2.0
HEAP = "-Xmx1g"  # below that it dies at some 200,000 documents
NO_SAMPLES = "-XX:-UsePerfData"  # otherwise an idle Java wakes up twenty times a second
JAR_IN_SDK = "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
ENDED_BY_SIGTERM = 128 + signal.SIGTERM
"""Java's exit status after SIGTERM, once its shutdown hooks have run. A killed Java has another status."""

MAIN_CLASS = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
CLASS_FILE_OF_JAVA_0 = 44  # Java n compiles to class files of major version 44 + n
SDK_HOMES = (
    "~/google-cloud-sdk",
    "/usr/lib/google-cloud-sdk",
    "/usr/share/google-cloud-sdk",
    "/usr/local/google-cloud-sdk",
    "/usr/local/share/google-cloud-sdk",
    "/opt/google-cloud-sdk",
    "/opt/google-cloud-cli",
    "/opt/homebrew/share/google-cloud-sdk",
    "/snap/google-cloud-cli/current",
    "/snap/google-cloud-sdk/current",
)
FIREBASE_CACHE = "~/.cache/firebase/emulators"


class EmulatorError(Exception):
    """The emulator did not start. The message ends with its output."""


@dataclass(slots=True)
class Running:
    """An emulator that answers at `host` (``HOST:PORT``). `pid` is None when another process started it."""

    host: str
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def stop(self) -> None:
        """End the emulator if this process started it. Its data is lost. A second stop has no effect."""
        if self.process:
            atexit.unregister(self.stop)
            child_processes.kill(self.process)  # it has nothing to save

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@dataclass(frozen=True, slots=True)
class Emulator:
    """An emulator: a jar with the Java to run it, or (with `host`) one that is already running."""

    java: str = ""
    jar: Path = Path()
    host: str = ""

    def command(self, host: str, functions_port: int | None = None, seed: Path | None = None) -> list[str]:
        """Return the command line of an emulator at `host` (``HOST:PORT``).

        Events go to `functions_port` of 127.0.0.1, records come from the export `seed`.
        """
        archive = [f"-XX:SharedArchiveFile={self.class_archive}"] if self.class_archive.exists() else []
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", NO_SAMPLES, HEAP, "-Duser.language=en", *archive]
        events = [f"--functions_emulator=127.0.0.1:{functions_port}"] if functions_port else []
        address, _, port = host.rpartition(":")
        target = [f"--host={address}", f"--port={port}", *events, *([f"--seed_from_export={seed}"] if seed else [])]
        return [self.java, *flags, "-cp", str(self.jar), MAIN_CLASS, "start", *target]

    @property
    def class_archive(self) -> Path:
        """The file from which Java loads the emulator's classes, if `archive_classes` has made it.

        With it, the emulator's start takes half of the CPU time. Java ignores the file if Java or the jar has changed.
        """
        key = hashlib.sha256(f"{self.java} {self.jar}".encode()).hexdigest()[:12]
        return Path(sys.prefix, f"firestore-emulator-{key}.jsa")

    def archive_classes(self) -> None:
        """Make `class_archive`: start the emulator, have it load its classes, and stop it. Raises `EmulatorError`."""
        self.class_archive.unlink(missing_ok=True)
        host = _chosen_host()
        java, *options = self.command(host)
        with tempfile.TemporaryDirectory(dir=sys.prefix) as folder, Path(folder, "log").open("wb") as log:
            archive = Path(folder, "classes.jsa")
            command = [java, f"-XX:ArchiveClassesAtExit={archive}", *options]
            process = child_processes.start(command, output=log)
            with Running(host, process) as running:
                _wait_until_ready(running, Path(log.name))
                _load_classes(host)
                child_processes.stop(process, grace_seconds=READY_SECONDS)  # Java writes the archive as it ends
            if process.returncode != ENDED_BY_SIGTERM or not archive.exists():
                raise EmulatorError(f"Java did not write the archive: {child_processes.tail(Path(log.name))}")
            with archive.open("rb") as whole:
                os.fsync(whole.fileno())  # Java crashes if part of the archive is missing
            archive.replace(self.class_archive)

    def start(self, seed: Path | None = None) -> Running:
        """Start it, with the records of the export `seed`, and wait until it answers.

        It ends with `stop`, with this process, or with the calling thread. An emulator that is already running is used
        as it is, and its events go to the address with which it was started. Raises `EmulatorError`.
        """
        if self.host:
            return Running(self.host)
        host = _chosen_host()
        with tempfile.NamedTemporaryFile(prefix="firestore-emulator-", suffix=".log") as log:
            running = Running(host, child_processes.start(self.command(host, seed=seed), output=log.file))
            atexit.register(running.stop)
            _wait_until_ready(running, Path(log.name))
        return running


def find() -> Emulator | None:
    """Find an emulator: the one at ``FIRESTORE_EMULATOR_HOST``, else `find_installed()`."""
    host = os.environ.get("FIRESTORE_EMULATOR_HOST", "")
    return Emulator(host=host) if ":" in host else find_installed()


def find_installed() -> Emulator | None:
    """Find an emulator that this machine's Java can run: that of the Cloud SDK, or else the newest one of Firebase."""
    java = _java()
    if java is None:
        return None
    version = _java_version(java)
    return next((Emulator(java, jar) for jar in _jars() if _java_wanted(jar) <= version), None)


def answers(host: str) -> bool:
    """Return whether an emulator is up at ``HOST:PORT``."""
    try:
        http_client.send("GET", f"http://{host}/", timeout_seconds=RESPONSE_SECONDS_MAX)
    except OSError:
        return False
    return True


def _chosen_host() -> str:
    return f"{child_processes.private_host()}:{child_processes.free_port()}"


def _wait_until_ready(running: Running, log: Path) -> None:
    process = running.process
    if process and not child_processes.wait_until(
        lambda: answers(running.host), process, timeout_seconds=READY_SECONDS
    ):
        running.stop()
        raise EmulatorError(f"The Firestore emulator did not come up at {running.host}: {child_processes.tail(log)}")


def _load_classes(host: str) -> None:
    """Write and query a record, which makes the emulator load nearly all the classes that it needs."""
    documents = f"http://{host}/v1/projects/demo-classes/databases/(default)/documents"
    name = documents.partition("/v1/")[2] + "/a/b"
    write = {"writes": [{"update": {"name": name, "fields": {"n": {"integerValue": "1"}}}}]}
    query = {"structuredQuery": {"from": [{"collectionId": "a"}]}}
    for method, body in (("commit", write), ("runQuery", query)):
        http_client.send_json("POST", f"{documents}:{method}", body, timeout_seconds=READY_SECONDS)


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("java", path=str(Path(home, "bin"))) if home else None) or shutil.which("java")


@cache
def _java_version(java: str) -> int:
    """Return the major version that Java reports: 17 of ``17.0.15``, 8 of ``1.8.0``; 0 if it reports none."""
    try:
        asked = subprocess.run(  # noqa: S603  a list, no shell
            (java, "-version"), capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return int(match[1]) if match else 0


@cache  # opening the jar is slow: it has 27,000 entries
def _java_wanted(jar: Path) -> int:
    """Return the version of Java that a jar is compiled for, from its main class."""
    try:
        with zipfile.ZipFile(jar) as archive, archive.open(MAIN_CLASS.replace(".", "/") + ".class") as main_class:
            return int.from_bytes(main_class.read(8)[6:8], "big") - CLASS_FILE_OF_JAVA_0
    except (OSError, KeyError, zipfile.BadZipFile):
        return 1_000  # no Java runs a broken jar


def _jars() -> Iterator[Path]:
    yield from (jar for home in _sdk_homes() if (jar := home / JAR_IN_SDK).is_file())
    firebase = Path(FIREBASE_CACHE).expanduser().glob("cloud-firestore-emulator-v*.jar")
    yield from sorted(firebase, key=_version_in_name, reverse=True)


def _version_in_name(jar: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", jar.stem)]


def _sdk_homes() -> Iterator[Path]:
    if named := os.environ.get("CLOUDSDK_ROOT_DIR"):
        yield Path(named)
    if gcloud := shutil.which("gcloud"):
        yield Path(gcloud).resolve().parent.parent
    yield from (Path(home).expanduser() for home in SDK_HOMES)


if __name__ == "__main__" and (installed := find_installed()):
    installed.archive_classes()
