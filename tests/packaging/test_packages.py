"""The packager: what goes into a zip, and that the same sources build the same bytes wherever and whenever it runs."""

import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from signalbox.catalogue.reading import Function, load
from signalbox_tools.cli.main import main
from signalbox_tools.packaging.source_zip import OPTIONAL, Package, package
from tests.packaging.conftest import Packaged, Project
from tests.packaging.sources import PROJECT, copy_of_the_project

pytestmark = pytest.mark.slow  # each test builds all zips, or many

CATALOGUE = load()
LIBRARY = PROJECT / "shared"
LISTS_OF_NAMES = {f"signalbox/{folder}__init__.py" for folder in ("", "client/", "testing/")}
"""The modules that say where a public name is defined."""


@dataclass(frozen=True, slots=True)
class Built:
    """A function's files by their path in the zip, and the files of the library that were read to find them."""

    files: Mapping[str, bytes]
    read: set[str]

    @property
    def shared(self) -> set[str]:
        """The library's modules in the zip."""
        return {path for path in self.files if path.startswith("signalbox/")}


def zips(project: Path) -> dict[str, bytes]:
    catalogue = load(project / "infra/catalogue.yaml")
    return {name: package(function, project).zipped() for name, function in catalogue.functions.items()}


def packaged_elsewhere(project: Path, out: Path, *, umask: int, time_zone: str, hash_seed: str) -> dict[str, bytes]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{project / 'infra'}:{project / 'shared'}",
        "TZ": time_zone,
        "PYTHONHASHSEED": hash_seed,
    }
    command = [sys.executable, "-m", "signalbox_tools", "package", "--out", str(out)]
    subprocess.run(command, cwd=out.parent, env=environment, umask=umask, check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in out.iterdir()}


def test_other_times_modes_folders_and_time_zones_build_the_same_bytes(tmp_path: Path) -> None:
    copy = copy_of_the_project(tmp_path / "a copy")
    for path in copy.rglob("*.py"):
        path.chmod(0o755)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    here = packaged_elsewhere(PROJECT, tmp_path / "here", umask=0o022, time_zone="UTC", hash_seed="1")
    there = packaged_elsewhere(copy, tmp_path / "there", umask=0o077, time_zone="Asia/Tokyo", hash_seed="2")
    assert here.keys() == {f"{name}.zip" for name in CATALOGUE.functions}
    assert here == there


@pytest.fixture(scope="module")
def built() -> dict[str, Built]:
    """Package every function once, and note which files of the library that reads."""
    return {name: _built(function) for name, function in CATALOGUE.functions.items()}


def _built(function: Function) -> Built:
    opened: set[Path] = set()
    open_file = Path.open

    def noting(path: Path, *arguments: Any, **options: Any) -> Any:
        opened.add(path)
        return open_file(path, *arguments, **options)

    with mock.patch.object(Path, "open", noting):  # what reads a file at once opens it so, too
        files = package(function, PROJECT).files
    read = {path.relative_to(LIBRARY).as_posix() for path in opened if path.is_relative_to(LIBRARY)}
    assert read
    return Built(files, read)


def test_a_zip_depends_on_the_shared_modules_that_it_holds_and_on_lists_of_public_names(
    built: dict[str, Built],
) -> None:
    left_out = LISTS_OF_NAMES | OPTIONAL.keys()
    others = {name: made.read - made.shared - left_out for name, made in built.items()}
    assert {name: read for name, read in others.items() if read} == {}


@pytest.mark.parametrize("changing", [*sorted(LISTS_OF_NAMES), ""])
def test_a_changed_shared_module_changes_only_the_zips_that_hold_it(
    changing: str, built: dict[str, Built], tmp_path: Path
) -> None:
    """The list of public names is read for every zip. Of the other modules, one that few zips hold represents all."""
    module = changing or min((path for made in built.values() for path in made.shared), key=partial(holders, built))
    copy = copy_of_the_project(tmp_path / "copy")
    (copy / "shared" / module).write_text(f"{(copy / 'shared' / module).read_text()}\n# changed\n")
    changed = {name for name, content in zips(copy).items() if content != Package(name, built[name].files).zipped()}
    assert changed == {name for name, made in built.items() if module in made.shared}


def holders(built: dict[str, Built], module: str) -> int:
    """Return how many zips hold a module."""
    return sum(module in made.shared for made in built.values())


def test_a_zip_holds_each_shared_module_as_it_is(built: dict[str, Built]) -> None:
    held = {path: made.files[path] for made in built.values() for path in made.shared}
    assert [path for path, content in held.items() if content != (LIBRARY / path).read_bytes()] == []
    assert [path for made in built.values() for path in made.shared if made.files[path] != held[path]] == []


def test_of_two_functions_only_the_importing_one_changes(project: Project) -> None:
    before = zips(project({}))
    after = zips(project({"shared/signalbox/rules/a.py": "answer = 3\n"}))
    assert after["one"] != before["one"]
    assert after["two"] == before["two"]


@pytest.mark.parametrize("name", CATALOGUE.functions)
def test_a_zip_holds_its_folder_its_part_of_shared_and_requirements_and_nothing_else(
    name: str, built: dict[str, Built]
) -> None:
    function = CATALOGUE.functions[name]
    names = set(built[name].files)
    own = {path.relative_to(function.folder).as_posix() for path in function.folder.glob("*.py")}
    assert own | {"requirements.txt"} <= names
    others = names - own - {"requirements.txt"}
    folder = {path.relative_to(function.folder).as_posix() for path in function.folder.rglob("*") if path.is_file()}
    assert {path for path in others - folder if not (path.startswith("signalbox/") and path.endswith(".py"))} == set()
    assert not [path for path in names if path.rpartition("/")[2].startswith(("test_", "README", "package"))]


def test_entries_are_sorted_stored_and_have_one_time_and_one_mode(project: Project, packaged: Packaged) -> None:
    archive = zipfile.ZipFile(io.BytesIO(packaged(project({}), "one").zipped()))
    entries = archive.infolist()
    assert [entry.filename for entry in entries] == [
        "main.py",
        "requirements.txt",
        "signalbox/__init__.py",
        "signalbox/rules/__init__.py",
        "signalbox/rules/a.py",
    ]
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.external_attr for entry in entries} == {0o100644 << 16}
    assert {(entry.compress_type, entry.create_system) for entry in entries} == {(zipfile.ZIP_STORED, 3)}


def test_a_folders_own_files_go_in_but_caches_hidden_files_and_copies_stay_out(
    project: Project, packaged: Packaged
) -> None:
    folder = "functions/one"
    names = ("texts/welcome.txt", "rates.py", ".env", ".idea/x.py", "__pycache__/main.pyc", "main.py~", "old.pyc")
    root = project({f"{folder}/{name}": "" for name in names})
    own = {name for name in packaged(root, "one").files if not name.startswith("signalbox/")}
    assert own == {"main.py", "rates.py", "requirements.txt", "texts/welcome.txt"}


def test_the_command_writes_the_named_zips_and_prints_their_content(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project({})
    assert main(["package", "--catalogue", str(root / "infra/catalogue.yaml"), "two"]) == 0
    assert [path.name for path in (root / "dist").iterdir()] == ["two.zip"]
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["function", "files", "bytes", "sha256"]
    assert row.split()[:3] == ["two", "5", str((root / "dist/two.zip").stat().st_size)]


def test_a_function_that_cannot_be_packaged_leaves_no_zip(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    root = project({"shared/signalbox/rules/b.py": "import signalbox.nowhere\n"})
    assert main(["package", "--catalogue", str(root / "infra/catalogue.yaml")]) == 1
    assert not (root / "dist").exists()
    assert "two: signalbox/rules/b.py:1 imports signalbox.nowhere, which does not exist" in capsys.readouterr().err


def test_a_name_outside_the_catalogue_is_a_wrong_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["package", "nowhere"]) == 2
    assert "not in the catalogue: nowhere" in capsys.readouterr().err


def test_the_same_package_under_another_folder_is_the_same_zip(
    project: Project, packaged: Packaged, tmp_path: Path
) -> None:
    root = project({})
    moved = tmp_path / "elsewhere"
    shutil.copytree(root / "functions/one", moved)
    function = Function(name="one", folder=moved, invoked_by=("people",))
    assert package(function, root).zipped() == packaged(root, "one").zipped()
