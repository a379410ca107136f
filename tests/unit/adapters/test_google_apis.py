"""The types of Google's messages are imported without the clients, and the whole packages work afterwards."""

import subprocess
import sys

import pytest

IMPORTS = """
import sys
{first}
import google.cloud.{package}
from google.cloud import {package}
from google.cloud.{package} import types
assert types is {package}.types is google.cloud.{package}.types
assert {package}.__loader__ is {package}.__spec__.loader
print(sorted(name for name in dir({package}) if not name.startswith("__")))
print({package}.__file__, type({package}.__loader__).__name__)
print({package}.types.{name} is {name}, {package}.{client}.__module__)
"""
PACKAGES = {
    "firestore_v1": ("signalbox.adapters.firestore.message_types", "write", "Write", "Client"),
    "tasks_v2": ("signalbox.adapters.cloud_tasks_types", "cloudtasks", "CreateTaskRequest", "CloudTasksClient"),
}


def printed(code: str) -> str:
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_whose_types_were_imported_before_it_is_the_same_as_always(package: str) -> None:
    module, part, name, client = PACKAGES[package]
    names = {"package": package, "name": name, "client": client}
    early = f"from {module} import {part}; {name} = {part}.{name}; assert 'google.cloud.{package}' not in sys.modules"
    late = f"from google.cloud.{package}.types import {name}"
    assert printed(IMPORTS.format(first=early, **names)) == printed(IMPORTS.format(first=late, **names))


@pytest.mark.slow
def test_a_package_that_was_imported_before_its_types_is_left_as_it_is() -> None:
    code = """
import sys
from google.cloud import tasks_v2
finders = list(sys.meta_path)
from signalbox.adapters.cloud_tasks_types import task
print(sys.modules["google.cloud.tasks_v2"] is tasks_v2, task.Task is tasks_v2.Task, sys.meta_path == finders)
"""
    assert printed(code) == "True True True\n"
