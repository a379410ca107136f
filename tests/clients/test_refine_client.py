"""A resource under refine's data provider, from npm, in Node.js. The files in examples/todos/vendor equal npm's."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox_tools.local.functions.server import mounted
from tests.required_programs import NPM
from tests.serving import serving

TODOS = Path(__file__).parents[2] / "examples" / "todos"
CLIENT = Path(__file__).with_name("refine_client.mjs")
FILES = ("package.json", "package-lock.json", ".npmrc")

pytestmark = [pytest.mark.marathon, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the packages of the to-do list's lock; return their folder. Without npm the test is skipped."""
    NPM.require()
    folder = tmp_path_factory.mktemp("npm")
    for name in FILES:
        shutil.copy(TODOS / name, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture(scope="module")
def got(packages: Path) -> dict[str, Any]:
    """Return the client's output."""
    with Harness(), serving(mounted(load())) as base:
        command = ["node", str(CLIENT), str(packages), base]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    printed: dict[str, Any] = json.loads(ended.stdout)
    return printed


def test_it_creates_reads_and_changes_items(got: dict[str, Any]) -> None:
    texts = ["buy tea", "write to Ann", "water the plants"]
    assert [(each["text"], each["order"], each["done"]) for each in got["created"]] == [
        (text, order, False) for order, text in enumerate(texts)
    ]
    assert got["one"] == got["created"][1]
    assert got["updated"] == {**got["one"], "done": True}


def test_it_pages_sorts_and_filters(got: dict[str, Any]) -> None:
    first, second, third = got["created"]
    assert got["page"] == {"data": [first], "total": 3}
    assert got["filtered"] == {"data": [third], "total": 1}
    assert sorted(got["many"], key=lambda each: each["order"]) == [first, third]
    assert got["whole"]["data"] == sorted([first, {**second, "done": True}, third], key=lambda each: each["id"])


def test_it_deletes_and_sees_refusals(got: dict[str, Any]) -> None:
    assert [each["order"] for each in sorted(got["left"]["data"], key=lambda each: each["order"])] == [1, 2]
    assert (got["left"]["total"], got["missing"], got["wrong"]["status"]) == (2, 404, 400)
    assert [each["field"] for each in got["wrong"]["problem"]["errors"]] == ["order", "text"]


def test_the_vendored_libraries_are_those_of_npm(packages: Path) -> None:
    modules = packages / "node_modules"
    for path in ("backbone/backbone-min.js", "jquery/dist/jquery.min.js", "underscore/underscore-min.js"):
        assert (modules / path).read_bytes() == (TODOS / "vendor" / Path(path).name).read_bytes(), path


def test_the_lock_says_what_is_installed_and_not_from_where() -> None:
    locked = json.loads((TODOS / "package-lock.json").read_text("utf-8"))["packages"]
    assert all("integrity" in each and "resolved" not in each for path, each in locked.items() if path)
