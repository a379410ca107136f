"""The public names of `signalbox`: each is loaded on first use with nothing else, and no subpackage hides one."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import signalbox
import signalbox.testing

ROOT = Path(__file__).parents[2]
NAMES: list[str] = getattr(signalbox, "__all__")  # noqa: B009  a type checker sees no such name
SERVICES_LOADED = """\
import sys
for names in sys.stdin.read().splitlines():
    exec(f"from signalbox import {names}")
    loaded = {parts[1] for module in sys.modules if (parts := module.split("."))[2:3] == ["service"]}
    print(*sorted(loaded))
    for module in [module for module in sys.modules if module.partition(".")[0] == "signalbox"]:
        del sys.modules[module]
"""
"""Imports names of each line, prints the subjects whose services are loaded, and forgets the library. What the library
imports of others takes most of the time, and is imported once."""
HIDDEN = """\
import pkgutil, importlib, sys, types
import signalbox
for module in pkgutil.iter_modules(signalbox.__path__, "signalbox."):  # each becomes an attribute of the package
    importlib.import_module(module.name)
modules = {name for name in signalbox.__all__ if isinstance(getattr(signalbox, name), types.ModuleType)}
folders = {module.name for module in pkgutil.iter_modules(signalbox.__path__)}
print(sorted(modules), sorted(folders & set(signalbox.__all__)))
"""


@pytest.mark.parametrize("name", [name for name in NAMES if name != "flow"])
def test_each_name_is_there_and_is_not_a_module(name: str) -> None:
    assert type(getattr(signalbox, name)).__name__ != "module"


def test_no_folder_hides_a_public_name_of_the_same_spelling() -> None:
    """`signalbox.flows` is a folder, and `from signalbox import flows` a function, whichever is imported first."""
    ran = subprocess.run([sys.executable, "-c", HIDDEN], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "['flow'] ['documents', 'flows', 'objects', 'standings']\n"


def test_an_unknown_name_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="nothing"):
        from signalbox import nothing  # type: ignore[attr-defined]  # noqa: F401  a name that does not exist


SERVICES = {
    "Function, Lease, Problem, semaphore": "batches critical_sections payloads rates semaphores tasks",
    "Function, documents": "batches critical_sections documents history payloads rates semaphores tasks",
    "Function, objects": "batches critical_sections mailboxes objects payloads rates semaphores tasks",
    "Function, flows": "batches critical_sections flows mailboxes payloads rates semaphores tasks",
    "yokes": "payloads standings tasks",
}


def test_only_the_services_of_what_is_imported_are_loaded() -> None:
    command = [sys.executable, "-c", SERVICES_LOADED]
    ran = subprocess.run(command, input="\n".join(SERVICES), cwd=ROOT, capture_output=True, text=True, check=True)
    assert dict(zip(SERVICES, ran.stdout.splitlines(), strict=True)) == SERVICES


def test_the_function_that_enqueues_tasks_loads_no_subject_but_tasks_and_their_payloads() -> None:
    """Most instances start for it, and failures, with semaphores and sections, are another function's."""
    program = (
        "import sys, signalbox.tasks.http.enqueues\n"
        "print(*sorted({name.split('.')[1] for name in sys.modules if name.startswith('signalbox.')}))"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["adapters", "core", "payloads", "tasks"]


@pytest.mark.parametrize("package", [signalbox, signalbox.testing])
def test_a_look_into_a_package_shows_its_public_names(package: ModuleType) -> None:
    assert dir(package) == getattr(package, "__all__")  # noqa: B009  a type checker sees no such name
    assert "Harness" in dir(signalbox.testing)


@pytest.mark.parametrize("name", NAMES)
def test_each_public_class_has_its_own_docstring(name: str) -> None:
    value = getattr(signalbox, name)
    assert vars(value if isinstance(value, type) else type(value)).get("__doc__")
