"""What the package says of itself agrees with the functions' requirements and with the development environment."""

import re
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from signalbox.catalogue.version import VERSION
from signalbox_tools.setup import new_project

ROOT = Path(__file__).resolve().parents[2]


def named(requirements: str) -> set[str]:
    return {line for line in requirements.splitlines() if line and not line.startswith(("#", "-"))}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]  # type: ignore[no-any-return]  # what a file contains


def locked(file: Path) -> dict[str, Version]:
    pinned = re.findall(r"^([\w-]+)==([\w.]+)", file.read_text("utf-8"), re.MULTILINE)
    return {name: Version(version) for name, version in pinned}


def test_the_packages_dependencies_are_the_functions_and_the_development_environment_has_the_rest() -> None:
    names = {Requirement(each).name for each in project()["dependencies"]}
    assert names == named((ROOT / "functions" / "requirements.in").read_text("utf-8"))
    extras = project()["optional-dependencies"]
    needed = {Requirement(each).name for extra in ("tools", "checks", "pydantic", "storage") for each in extras[extra]}
    assert needed <= named((ROOT / "requirements-dev.in").read_text("utf-8"))
    assert len(project()["dependencies"]) <= 10


def test_each_dependency_accepts_the_version_that_is_locked_and_no_next_major_one() -> None:
    extras = project()["optional-dependencies"].values()
    versions = locked(ROOT / "requirements-dev.txt")
    for each in map(Requirement, [*project()["dependencies"], *(text for extra in extras for text in extra)]):
        version = versions[each.name]
        assert version in each.specifier, each
        assert Version(f"{version.major + 1}.0") not in each.specifier, each


def test_the_readme_and_the_package_say_the_same_in_one_sentence() -> None:
    assert project()["description"] in " ".join((ROOT / "README.md").read_text("utf-8").split())


def test_the_version_is_one_of_three_numbers() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


def test_a_new_project_asks_for_extras_that_the_package_has(tmp_path: Path) -> None:
    text = new_project._texts(tmp_path, tmp_path / f"signalbox-{VERSION}-py3-none-any.whl", github=False, api=())
    wanted = {extra for file in text.values() for extra in re.findall(r"signalbox[^\s\"']*\[(\w+)\]", file)}
    assert wanted == {"tools", "checks"}
    assert wanted <= project()["optional-dependencies"].keys()
