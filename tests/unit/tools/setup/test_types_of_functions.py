"""`make check` of a project checks the types of each function by itself, since its files import each other by name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from signalbox_tools.setup import new_project

pytestmark = pytest.mark.slow

TEMPLATES = Path(new_project.__file__).parent / "templates"
MAIN = '''"""One function."""

from models import Order


def {name}(request: object) -> str:
    """Answer."""
    return Order().{field}
'''
MODELS = '''"""Its types."""


class Order:
    """An order of this function."""

    {field}: str = "a"
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text((TEMPLATES / "makefile.txt").read_text())
    settings = (TEMPLATES / "pyproject.toml.txt").read_text()
    for name, value in {"@source@": "", "@version@": "1", "@name@": "shop"}.items():
        settings = settings.replace(name, value)
    (tmp_path / "pyproject.toml").write_text(settings)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    for name in ("ready", "checks"):
        (tmp_path / ".venv" / name).touch()
    for name, field in (("desk", "bike"), ("till", "price")):
        folder = tmp_path / "functions" / name
        folder.mkdir(parents=True)
        (folder / "main.py").write_text(MAIN.format(name=name, field=field))
        (folder / "models.py").write_text(MODELS.format(field=field))
    return tmp_path


def check(project: Path) -> tuple[int, str]:
    variables = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(["make", "check"], cwd=project, env=variables, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_two_functions_may_each_have_a_file_of_the_same_name_and_there_may_be_no_tests(project: Path) -> None:
    status, said = check(project)
    assert (status, said.count("no issues found in 2 source files")) == (0, 2), said
    (project / "tests").mkdir()
    (project / "tests" / "test_desk.py").write_text(
        "from functions.desk.main import desk\n\n\ndef test_desk() -> None:\n    assert desk(None)\n"
    )
    status, said = check(project)
    assert (status, "no issues found in 1 source file" in said) == (0, True), said


def test_a_wrong_type_in_any_of_them_fails(project: Path) -> None:
    (project / "functions" / "till" / "models.py").write_text(MODELS.format(field="bike"))
    status, said = check(project)
    assert (status != 0, '"Order" has no attribute "price"' in said) == (True, True), said


def test_a_json_object_is_a_dict_as_in_the_pages(project: Path) -> None:
    function = "\n\ndef shown(order: dict) -> dict:\n    return order\n"
    with (project / "functions" / "desk" / "main.py").open("a") as file:
        file.write(function)
    assert check(project)[0] == 0
