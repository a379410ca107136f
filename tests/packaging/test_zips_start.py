"""Every zip starts and answers as in the cloud: unpacked, outside the repository, with only its own requirements.

The clean environments are under ``.local/``, each named by its requirements' hash: most zips share one, and one is made
again only for other requirements.
"""

import hashlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from signalbox.catalogue.reading import Function, load
from signalbox_tools.local.child_processes import free_port
from signalbox_tools.packaging.requirements import joined
from signalbox_tools.packaging.source_zip import package

PROJECT = Path(__file__).resolve().parents[2]
CATALOGUE = load()
START_SECONDS = 30
CLOUD_EVENT = {
    "ce-id": "1",
    "ce-source": "//firestore.googleapis.com/projects/demo/databases/(default)",
    "ce-specversion": "1.0",
    "ce-type": "google.cloud.firestore.document.v1.written",
    "content-type": "application/protobuf",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # the first run installs the lock

each_function = pytest.mark.parametrize(
    "function", CATALOGUE.functions.values(), ids=lambda each: each.name, scope="module"
)


@cache
def clean_python(folder: Path) -> Path:
    """Return the Python of an environment made from the requirements of a function's zip alone."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    requirements = joined(folder, PROJECT)
    digest = hashlib.sha256(requirements.encode()).hexdigest()[:16]
    environment = PROJECT / ".local" / "packaging" / f"python{version}-{digest}"
    if not environment.is_dir():
        _make(environment, requirements)
    return environment / "bin" / "python"


def _make(environment: Path, requirements: str) -> None:
    """Make it under another name first: a run that is broken off leaves nothing that looks complete."""
    partial = environment.with_name(f"{environment.name}.{os.getpid()}")
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", partial], check=True)
        lock = partial / "requirements.txt"
        lock.write_text(requirements)
        python = str(partial / "bin" / "python")
        with_uv = [sys.executable, "-m", "uv", "pip", "install", "--python", python, "--compile-bytecode"]
        with_pip = [python, "-m", "pip", "install", "--no-input"]  # if uv finds no packages without pip's settings
        options = ["--quiet", "--require-hashes", "-r", str(lock)]
        if subprocess.run(with_uv + options, check=False).returncode:
            subprocess.run(with_pip + options, check=True)
        if not environment.is_dir():
            partial.rename(environment)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A zip's files in a folder outside the repository, and a Python that knows nothing of the repository."""

    folder: Path
    python: Path

    def start(self, *arguments: str, output: int, errors: int | None = None) -> subprocess.Popen[bytes]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        command = [str(self.python), *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=output, stderr=errors, start_new_session=True
        )

    def run(self, code: str) -> str:
        """Run code and return what it printed. Fails when the code does."""
        process = self.start("-c", code, output=subprocess.PIPE)
        printed, _ = process.communicate(timeout=START_SECONDS)
        assert process.returncode == 0
        return printed.decode()


@pytest.fixture(scope="module")
def unpacked(function: Function, tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """Unpack a function's zip once for its two tests. The second finds the files compiled."""
    folder = tmp_path_factory.mktemp(function.name)
    zipfile.ZipFile(io.BytesIO(package(function, PROJECT).zipped())).extractall(folder)
    return Unpacked(folder, clean_python(function.folder))


@contextmanager
def serving(unpacked: Unpacked, function: Function) -> Iterator[int]:
    """Serve a function as the cloud does, and yield its port. What it wrote is in ``server.log`` of its folder."""
    port = free_port()
    options = ("--target", function.name, "--signature-type", function.signature_type, "--host", "127.0.0.1")
    with (unpacked.folder / "server.log").open("wb") as log:
        arguments = ("-m", "functions_framework", "--source", "main.py", "--port", str(port), *options)
        server = unpacked.start(*arguments, output=log.fileno(), errors=subprocess.STDOUT)
        try:
            _wait_until_open(port, server, unpacked)
            yield port
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _wait_until_open(port: int, server: subprocess.Popen[bytes], unpacked: Unpacked) -> None:
    end = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    pytest.fail(f"it does not serve:\n{log_of(unpacked)}")


def log_of(unpacked: Unpacked) -> str:
    return (unpacked.folder / "server.log").read_text("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    content_type: str
    body: bytes


def call(port: int, method: str, headers: dict[str, str], body: bytes = b"") -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    try:
        connection.request(method, "/", body, headers)
        response = connection.getresponse()
        return Reply(response.status, response.headers.get_content_type(), response.read())
    finally:
        connection.close()


@each_function
def test_a_zip_serves_and_refuses_a_call_that_it_cannot_take(function: Function, unpacked: Unpacked) -> None:
    with serving(unpacked, function) as port:
        if function.signature_type == "cloudevent":
            assert 400 <= call(port, "POST", {}, b"no event").status < 500
            assert call(port, "POST", CLOUD_EVENT, b"\xff\xff no protobuf").status == 200  # a retry would not help
            assert "event abandoned" in log_of(unpacked)
        else:
            reply = call(port, "TRACE", {})
            assert reply.status in (404, 405)  # the former where there is nothing at the collection's own address
            assert (reply.content_type, json.loads(reply.body)["status"]) == ("application/problem+json", reply.status)
        assert "ImportError" not in log_of(unpacked)
        assert "ModuleNotFoundError" not in log_of(unpacked)


IMPORT_EACH = """
import importlib, pathlib
for path in sorted(pathlib.Path("signalbox").rglob("*.py")):
    module = importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    assert pathlib.Path(module.__file__).resolve() == path.resolve(), module.__file__
    print(path.as_posix())
"""


@each_function
def test_every_module_of_a_zip_imports_also_those_that_only_some_calls_need(
    function: Function, unpacked: Unpacked
) -> None:
    expected = sorted(path for path in package(function, PROJECT).files if path.startswith("signalbox/"))
    assert sorted(unpacked.run(IMPORT_EACH).split()) == expected


def test_a_clean_environment_has_no_aiohttp(tmp_path: Path) -> None:
    look = "import importlib.util as u; print(u.find_spec('aiohttp'), u.find_spec('functions_framework') is not None)"
    python = clean_python(CATALOGUE.functions["documents"].folder)
    assert Unpacked(tmp_path, python).run(look).split() == ["None", "True"]
