"""`signalbox add` makes a function that passes every check, and refuses names that cannot be one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from signalbox.catalogue import reading as catalogues
from signalbox.catalogue.project import Project, own_files
from signalbox_tools.local.folder.running_stack import RunningStack
from signalbox_tools.packaging.function_checks import check
from signalbox_tools.setup.new_function import make
from signalbox_tools.setup.new_function_templates import CannotMake
from signalbox_tools.setup.own_folders import own_folders

ROOT = Path(__file__).parents[4]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "infra").mkdir()
    for name in ("functions", "shared", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "infra" / "catalogue.yaml").write_bytes(catalogues.CATALOGUE.read_bytes())
    return tmp_path


def test_a_new_function_is_in_the_catalogue_and_passes_the_checks_of_the_cloud(project: Path) -> None:
    told = make("ink_levels", Project.at(project))
    catalogue = catalogues.load(project / "infra" / "catalogue.yaml")
    entry = catalogue.functions["ink_levels"]
    assert entry.folder == project / "ink_levels"
    check(entry, project)
    assert own_folders(catalogue) == ["ink_levels"]
    assert "curl -X POST http://127.0.0.1:8080/ink-levels/a" in told


def test_the_calls_to_try_are_of_the_port_that_is_served(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "8123")
    assert "curl -X POST http://127.0.0.1:8123/ink-levels/a" in make("ink_levels", Project.at(project))
    (project / ".local").mkdir()
    places = {"FIRESTORE_EMULATOR_HOST": "127.7.7.7:8082", "CLOUD_TASKS_EMULATOR_HOST": "127.0.0.1:8083"}
    urls = ("http://127.0.0.1:8081/", "emulator", "http://127.0.0.1:8084", "http://127.0.0.1:8085")
    running = RunningStack(str(project / ".local"), os.getpid(), *urls, places)
    running.announce()
    assert "curl -X POST http://127.0.0.1:8081/paper-levels/a" in make("paper_levels", Project.at(project))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *((word, f"Python has a keyword {word}") for word in ("class", "def", "lambda", "async")),
        *((word, f"Python has a function or type {word}") for word in ("print", "list")),
        *((word, f"the new main.py has the name {word}") for word in ("app", "start", "show", "work", "flows")),
    ],
)
def test_a_name_that_its_own_code_would_hide_is_refused(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "signalbox.yaml").write_text("functions:\n  shop: {}\n")
    (tmp_path / "functions" / "shop").mkdir(parents=True)
    (tmp_path / "functions" / "shop" / "main.py").write_text("shop = print\n")
    with pytest.raises(CannotMake, match=why):
        make(name, Project.at(tmp_path))
    assert not (tmp_path / "functions" / name).exists()


def test_its_test_is_next_to_it_and_in_no_zip(project: Path) -> None:
    make("ink_levels", Project.at(project))
    assert (project / "ink_levels" / "test_ink_levels.py").exists()
    assert sorted(own_files(project / "ink_levels")) == ["main.py"]


@pytest.mark.parametrize("written", [0, 1, 100, 2_000])
def test_a_killed_run_is_completed_by_the_next_one(project: Path, written: int) -> None:
    """So many characters of the files were written, and no entry."""
    make("ink_levels", Project.at(project))
    whole = {each.name: each.read_text() for each in (project / "ink_levels").iterdir()}
    (project / "infra" / "catalogue.yaml").write_bytes(catalogues.CATALOGUE.read_bytes())
    for name in ("main.py", "test_ink_levels.py"):
        kept, written = whole[name][:written], max(0, written - len(whole[name]))
        (project / "ink_levels" / name).write_text(kept) if kept else (project / "ink_levels" / name).unlink()
    make("ink_levels", Project.at(project))
    assert {each.name: each.read_text() for each in (project / "ink_levels").iterdir()} == whole
    assert "ink_levels" in catalogues.load(project / "infra" / "catalogue.yaml").functions


def test_a_folder_with_anything_of_a_users_own_is_left_alone(project: Path) -> None:
    make("ink_levels", Project.at(project))
    (project / "infra" / "catalogue.yaml").write_bytes(catalogues.CATALOGUE.read_bytes())
    (project / "ink_levels" / "main.py").write_text("mine")
    with pytest.raises(CannotMake, match="a folder of this name exists"):
        make("ink_levels", Project.at(project))
    assert (project / "ink_levels" / "main.py").read_text() == "mine"


def test_code_of_ones_own_needs_no_types(tmp_path: Path) -> None:
    options = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("TYPES_OF_OWN"))
    (tmp_path / "main.py").write_text(
        "def half(number):\n    return number / 2\n\n\ndef one() -> float:\n    return half(2)\n"
    )
    (tmp_path / "test_main.py").write_text(
        "from main import half\n\n\ndef test_half() -> None:\n    assert half(2) == 1\n"
    )
    command = [sys.executable, "-m", "mypy", f"--config-file={ROOT / 'pyproject.toml'}", *options.split()[2:], "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "Name the function: signalbox add printers"),
        ("My-Printers", "must be lower case words"),
        ("documents", "the kit has a function of this name"),
        ("tests", "a folder of this name exists"),
        ("../x", "must be lower case words"),
        ("flask", "flask: the package Flask has a module flask, .* choose another"),
        ("queue", "queue: Python has a module queue"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_made(project: Path, name: str, complaint: str) -> None:
    before = (project / "infra" / "catalogue.yaml").read_bytes()
    with pytest.raises(CannotMake, match=complaint):
        make(name, Project.at(project))
    assert (project / "infra" / "catalogue.yaml").read_bytes() == before
