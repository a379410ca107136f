"""What the package says of itself agrees with the functions' requirements and with the development environment."""

import re
import tomllib
from pathlib import Path

from signalbox.catalogue.version import VERSION

ROOT = Path(__file__).resolve().parents[2]


def named(requirements: str) -> set[str]:
    return {line for line in requirements.splitlines() if line and not line.startswith(("#", "-"))}


def test_the_packages_dependencies_are_the_functions_and_the_development_environment_has_the_rest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(project["dependencies"]) == named((ROOT / "functions" / "requirements.in").read_text("utf-8"))
    extras = project["optional-dependencies"]
    assert {*extras["dev"], *extras["checks"]} <= named((ROOT / "requirements-dev.in").read_text("utf-8"))


def test_the_version_is_one_of_three_numbers() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
