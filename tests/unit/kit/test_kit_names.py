"""The names of `shared.kit`: each is loaded when it is first used, and nothing else with it."""

import subprocess
import sys
from pathlib import Path

import pytest

import shared.kit

ROOT = Path(__file__).parents[3]
LOADED = """\
import sys
from shared.kit import {names}
print(*sorted({{parts[1] for module in sys.modules if "operations" in (parts := module.split("."))}}))
"""


@pytest.mark.parametrize("name", [name for name in shared.kit.__all__ if name != "flow"])
def test_each_name_is_there_and_is_no_module(name: str) -> None:
    assert type(getattr(shared.kit, name)).__name__ != "module"


def test_no_module_of_the_kit_has_the_name_of_something_exported() -> None:
    """Else the name would mean the module as soon as something else has imported it."""
    modules = {path.stem for path in (ROOT / "shared/kit").glob("*.py")}
    assert modules & set(shared.kit.__all__) == set()


def test_an_unknown_name_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="nothing"):
        from shared.kit import nothing  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize(
    ("names", "loaded"),
    [
        ("Function, Lease, Problem, semaphore", "batches core semaphores tasks"),
        ("Function, documents", "batches core documents history semaphores tasks"),
        ("Function, objects", "batches core objects semaphores tasks"),
        ("Function, flows", "batches core flows objects semaphores tasks"),
        ("yokes", "batches core semaphores standings tasks"),
    ],
)
def test_of_the_operations_only_those_are_loaded_that_are_imported(names: str, loaded: str) -> None:
    program = LOADED.format(names=names)
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == loaded.split()
