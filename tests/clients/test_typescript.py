"""The TypeScript client: built from openapi.yaml, and every operation called by it in Node.js."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox_tools.local.functions.server import mounted
from tests.required_programs import NPM
from tests.serving import serving
from tests.yaml_files import read_yaml

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript"
OPERATIONS = CLIENT / "test" / "operations.ts"
OF_PEOPLE = {("GET", "/{function}/callbacks/{token}"), ("POST", "/{function}/callbacks/{token}")}
"""A callback's address is opened as it is, by a person or another system."""


def described() -> set[tuple[str, str]]:
    paths: dict[str, Any] = read_yaml(ROOT / "openapi.yaml")["paths"]
    return {(method.upper(), path) for path, item in paths.items() for method in item if method != "parameters"}


def called() -> set[tuple[str, str]]:
    """Return the operations that the program calls, as its text names them."""
    text = OPERATIONS.read_text("utf-8")
    text = re.sub(
        r"`(.*)/\$\{action\}`",
        '"\\1/cancel", client.POST("\\1/terminate", client.POST("\\1/suspend", client.POST("\\1/resume"',
        text,
    )
    text = text.replace("POST(call,", 'POST("/{function}/objects/{class_name}/{key}/{method}",')
    watched = {
        ("GET", path)
        for path, start in (
            ("/batches/{id}/events", "batches/"),
            ("/{function}/flows/{flow}/{id}/events", "shop/flows/"),
        )
        if f'client.events("{start}' in text
    }
    return watched | set(re.findall(r'client\.(GET|PUT|POST|PATCH|DELETE)\(\s*"([^"]+)"', text))


def test_the_program_names_each_operation() -> None:
    assert called() == described() - OF_PEOPLE


def test_the_lock_says_what_is_installed_and_not_from_where() -> None:
    locked = json.loads((CLIENT / "package-lock.json").read_text("utf-8"))["packages"]
    assert all("integrity" in each and "resolved" not in each for path, each in locked.items() if path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install, generate and build the client in a copy of its folder; return it. Without npm the test is skipped."""
    NPM.require()
    root = tmp_path_factory.mktemp("npm")
    shutil.copy(ROOT / "openapi.yaml", root)
    folder = root / "clients" / "typescript"
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("node_modules", "dist", ".tested", "schema.ts"))
    for command in (["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["npm", "run", "build-test"]):
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


@pytest.mark.marathon
@pytest.mark.timeout(300)
def test_each_operation_has_the_answer_that_its_type_promises(built: Path) -> None:
    with Harness() as harness, serving(with_travel(mounted(load()), lambda: harness.travel(5))) as base:
        ended = subprocess.run(
            ["node", ".tested/test/operations.js", base], cwd=built, capture_output=True, text=True, check=False
        )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.marathon
@pytest.mark.timeout(300)
def test_a_stream_that_ends_is_opened_again_after_a_pause(built: Path) -> None:
    ended = subprocess.run(["node", ".tested/test/events.js"], cwd=built, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def with_travel(inner: "WSGIApplication", travel: Callable[[], object]) -> "WSGIApplication":
    """Serve an application, and let time pass at a request for ``/:travel``."""

    def serve(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/:travel":
            return inner(environ, start_response)
        travel()
        start_response("204 No Content", [])
        return []

    return serve
