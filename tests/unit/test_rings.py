"""The rings stay apart: rules know nothing outside, operations know rules, only adapters know the platform."""

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PURE = sys.stdlib_module_names - {"asyncio", "http", "io", "multiprocessing", "os", "pathlib", "random", "secrets"}
PURE = PURE - {"select", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid"}
CLOCKS = {"now", "utcnow", "today"}


def imports(path: Path) -> set[str]:
    """List the modules a file imports; a name taken from a package of ours counts as its module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


def strangers(files: Iterable[Path], stdlib: Iterable[str], ours: tuple[str, ...]) -> list[str]:
    allowed = set(stdlib)
    return [
        f"{path.relative_to(ROOT)}: {module}"
        for path in files
        for module in sorted(imports(path))
        if not module.startswith(ours) and module.partition(".")[0] not in allowed
    ]


SUBJECTS = {
    "core": (),
    "transforms": ("core",),
    "history": ("core",),
    "documents": ("core", "transforms", "history"),
    "links": ("core", "documents", "transforms", "history"),
    "semaphores": ("core",),
    "batches": ("core",),
    "tasks": ("core", "semaphores", "batches"),
    "objects": ("core", "tasks"),
    "flows": ("core", "tasks", "objects", "semaphores", "batches"),
    "standings": ("core",),
    "resources": ("core", "documents", "history", "transforms"),
}
"""Which other subjects a subject may import; each may import itself."""


def subjects(*allowed: str, ring: str) -> tuple[str, ...]:
    return tuple(f"shared.{subject}.{ring}." for subject in allowed)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_rules_are_pure_and_import_only_rules_of_subjects_in_the_table(subject: str) -> None:
    paths = list(ROOT.glob(f"shared/{subject}/rules/**/*.py"))
    assert strangers(paths, PURE, subjects(subject, *SUBJECTS[subject], ring="rules")) == []


@pytest.mark.parametrize("subject", SUBJECTS)
def test_operations_import_rules_and_operations_of_subjects_in_the_table(subject: str) -> None:
    paths = list(ROOT.glob(f"shared/{subject}/operations/**/*.py"))
    allowed = (subject, *SUBJECTS[subject])
    assert paths
    assert strangers(paths, PURE, subjects(*allowed, ring="rules") + subjects(*allowed, ring="operations")) == []


def test_every_folder_of_the_library_is_in_the_table() -> None:
    folders = {path.name for path in (ROOT / "shared").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {*SUBJECTS, "adapters", "kit", "testing"}


def test_functions_import_only_the_library() -> None:
    paths = list(ROOT.glob("functions/*/*.py"))
    assert paths
    assert strangers(paths, sys.stdlib_module_names, ("shared.",)) == []


def test_nothing_but_users_functions_imports_the_kit_and_nothing_deployed_imports_the_testing_tools() -> None:
    library = [path for path in ROOT.glob("shared/**/*.py") if "testing" not in path.parts]
    deployed = [*library, *ROOT.glob("functions/*/*.py")]
    importing = {path: imports(path) for path in deployed}
    assert [path for path, names in importing.items() if any(name.startswith("shared.testing") for name in names)] == []
    outside = [path for path in deployed if "kit" not in path.parts]
    assert [path for path in outside if any(name.startswith("shared.kit") for name in importing[path])] == []


def test_rules_and_operations_read_no_clock() -> None:
    paths = [*ROOT.glob("shared/*/rules/**/*.py"), *ROOT.glob("shared/*/operations/**/*.py")]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_bytes()))]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]  # a value may well be called `now`
    assert paths
    assert [ast.unparse(func) for func in called if isinstance(func, ast.Attribute) and func.attr in CLOCKS] == []


def test_only_the_settings_read_the_environment() -> None:
    deployed = [path for path in ROOT.glob("shared/**/*.py") if "testing" not in path.parts]
    assert [path.name for path in deployed if {"os", "os.environ", "os.getenv"} & imports(path)] == ["settings.py"]


def test_init_files_are_empty_so_that_a_package_imports_nothing_by_itself() -> None:
    paths = list(ROOT.glob("shared/**/__init__.py"))
    assert len(paths) >= 4
    assert sorted(path.parent.name for path in paths if path.read_bytes()) == ["kit", "testing"]


def test_a_stranger_is_found_out(tmp_path: Path) -> None:
    planted = ROOT / "shared" / "core" / "rules" / "problems.py"
    assert strangers([planted], set(), ("shared.core.",)) != []
    (tmp_path / "x.py").write_text("import os.path\nfrom google.cloud import firestore\n")
    assert imports(tmp_path / "x.py") == {"os.path", "google.cloud.firestore"}
