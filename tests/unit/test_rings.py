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


@pytest.mark.parametrize(
    ("files", "stdlib", "ours"),
    [
        ("shared/rules/**/*.py", PURE, ("shared.rules.",)),
        ("shared/operations/**/*.py", PURE, ("shared.rules.", "shared.operations.")),
        ("functions/*/*.py", sys.stdlib_module_names, ("shared.",)),
    ],
)
def test_a_ring_imports_only_what_lies_further_in(files: str, stdlib: Iterable[str], ours: tuple[str, ...]) -> None:
    paths = list(ROOT.glob(files))
    assert paths
    assert strangers(paths, stdlib, ours) == []


def test_rules_and_operations_read_no_clock() -> None:
    paths = [*ROOT.glob("shared/rules/**/*.py"), *ROOT.glob("shared/operations/**/*.py")]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_bytes()))]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]  # a value may well be called `now`
    assert [ast.unparse(func) for func in called if isinstance(func, ast.Attribute) and func.attr in CLOCKS] == []


def test_only_the_settings_read_the_environment() -> None:
    readers = [path.name for path in ROOT.glob("shared/**/*.py") if {"os", "os.environ", "os.getenv"} & imports(path)]
    assert readers == ["settings.py"]


def test_init_files_are_empty_so_that_a_package_imports_nothing_by_itself() -> None:
    paths = list(ROOT.glob("shared/**/__init__.py"))
    assert len(paths) >= 4
    assert [path for path in paths if path.read_bytes()] == []


def test_a_stranger_is_found_out(tmp_path: Path) -> None:
    planted = ROOT / "shared" / "rules" / "problems.py"
    assert strangers([planted], set(), ("shared.rules.",)) != []
    (tmp_path / "x.py").write_text("import os.path\nfrom google.cloud import firestore\n")
    assert imports(tmp_path / "x.py") == {"os.path", "google.cloud.firestore"}
