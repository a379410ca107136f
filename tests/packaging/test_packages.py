"""The packager: what goes into a zip, and that the same sources build the same bytes wherever and whenever it runs."""

import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.catalogue import Function, load
from infra.packaging.__main__ import main
from infra.packaging.package import package
from tests.packaging.conftest import Packaged, Project
from tests.packaging.sources import PROJECT, copy_of_the_project

CATALOGUE = load()


def zips(project: Path) -> dict[str, bytes]:
    catalogue = load(project / "infra/catalogue.yaml")
    return {name: package(function, project).zipped() for name, function in catalogue.functions.items()}


def packaged_elsewhere(project: Path, out: Path, *, umask: int, time_zone: str, hash_seed: str) -> dict[str, bytes]:
    environment = {**os.environ, "PYTHONPATH": str(project), "TZ": time_zone, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "infra.packaging", "--out", str(out)]
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


def carriers(built: dict[str, bytes]) -> dict[str, frozenset[str]]:
    """Return for each module of the library the zips that hold it."""
    held = {name: set(zipfile.ZipFile(io.BytesIO(content)).namelist()) for name, content in built.items()}
    modules = sorted(path.relative_to(PROJECT).as_posix() for path in (PROJECT / "shared").rglob("*.py"))
    return {module: frozenset(name for name in built if module in held[name]) for module in modules}


def test_a_changed_shared_module_changes_only_the_zips_that_import_it(tmp_path: Path) -> None:
    """Of the modules that go into the same zips, one represents all."""
    copy = copy_of_the_project(tmp_path / "copy")
    before = zips(copy)
    for changing, module in {where: module for module, where in carriers(before).items()}.items():
        original = (copy / module).read_text()
        (copy / module).write_text(f"{original}\n# changed\n")
        changed = {name for name, content in zips(copy).items() if content != before[name]}
        (copy / module).write_text(original)
        assert changed == changing, module
    assert zips(copy) == before


def test_a_zip_holds_each_shared_module_as_it_is() -> None:
    held = [package(function, PROJECT).files for function in CATALOGUE.functions.values()]
    differing = [path for files in held for path in files if path.startswith("shared/") and files[path] != _own(path)]
    assert differing == []


def _own(path: str) -> bytes:
    return (PROJECT / path).read_bytes()


def test_of_two_functions_only_the_importing_one_changes(project: Project) -> None:
    before = zips(project({}))
    after = zips(project({"shared/rules/a.py": "answer = 3\n"}))
    assert after["one"] != before["one"]
    assert after["two"] == before["two"]


@pytest.mark.parametrize("name", CATALOGUE.functions)
def test_a_zip_holds_its_folder_its_part_of_shared_and_requirements_and_nothing_else(name: str) -> None:
    function = CATALOGUE.functions[name]
    names = set(package(function, PROJECT).files)
    own = {path.relative_to(function.folder).as_posix() for path in function.folder.glob("*.py")}
    assert own | {"requirements.txt"} <= names
    others = names - own - {"requirements.txt"}
    folder = {path.relative_to(function.folder).as_posix() for path in function.folder.rglob("*") if path.is_file()}
    assert {path for path in others - folder if not (path.startswith("shared/") and path.endswith(".py"))} == set()
    assert not [path for path in names if path.rpartition("/")[2].startswith(("test_", "README", "package"))]


def test_entries_are_sorted_stored_and_have_one_time_and_one_mode(project: Project, packaged: Packaged) -> None:
    archive = zipfile.ZipFile(io.BytesIO(packaged(project({}), "one").zipped()))
    entries = archive.infolist()
    assert [entry.filename for entry in entries] == [
        "main.py",
        "requirements.txt",
        "shared/__init__.py",
        "shared/rules/__init__.py",
        "shared/rules/a.py",
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
    own = {name for name in packaged(root, "one").files if not name.startswith("shared/")}
    assert own == {"main.py", "rates.py", "requirements.txt", "texts/welcome.txt"}


def test_the_command_writes_the_named_zips_and_prints_their_content(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project({})
    assert main(["--catalogue", str(root / "infra/catalogue.yaml"), "two"]) == 0
    assert [path.name for path in (root / "dist").iterdir()] == ["two.zip"]
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["function", "files", "bytes", "sha256"]
    assert row.split()[:3] == ["two", "5", str((root / "dist/two.zip").stat().st_size)]


def test_a_function_that_cannot_be_packaged_leaves_no_zip(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    root = project({"shared/rules/b.py": "import shared.nowhere\n"})
    assert main(["--catalogue", str(root / "infra/catalogue.yaml")]) == 1
    assert not (root / "dist").exists()
    assert "two: shared/rules/b.py:1 imports shared.nowhere, which does not exist" in capsys.readouterr().err


def test_a_name_outside_the_catalogue_is_a_wrong_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["nowhere"])
    assert "not in the catalogue: nowhere" in capsys.readouterr().err


def test_the_same_package_under_another_folder_is_the_same_zip(
    project: Project, packaged: Packaged, tmp_path: Path
) -> None:
    root = project({})
    moved = tmp_path / "elsewhere"
    shutil.copytree(root / "functions/one", moved)
    function = Function(name="one", folder=moved, invoked_by=("people",))
    assert package(function, root).zipped() == packaged(root, "one").zipped()
