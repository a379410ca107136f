"""Each extra is enough for what it is for: the emulator, a client, the library; what lacks one names it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from signalbox.catalogue.project import KIT

REPOSITORY = Path(__file__).parents[2]
MODULES = {"flask-swagger-ui": "flask_swagger_ui", "pyyaml": "yaml"}
"""The modules of packages that have other names."""


def modules_without(*extras: str) -> set[str]:
    """Return the modules that an installation with these extras lacks, of those that other extras install."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    options = project["optional-dependencies"]

    def modules(packages: list[str]) -> set[str]:
        names = {package.partition(">")[0].partition("[")[0] for package in packages}
        return {MODULES.get(name, name).replace("-", "_") for name in names if name != "google-auth"}

    wanted = modules(project["dependencies"]).union(*(modules(options[extra]) for extra in extras))
    return set().union(*(modules(packages) for packages in options.values())) - wanted


def run(code: str, *extras: str) -> subprocess.CompletedProcess[str]:
    """Run code as if only these extras were installed."""
    without = f"import sys\nsys.modules.update(dict.fromkeys({sorted(modules_without(*extras))}))\n"
    paths = f"sys.path[:0] = {[str(path) for path in KIT.source_paths]}\n"
    command = [sys.executable, "-c", without + paths + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


COMMAND = "from signalbox_tools.cli.main import main\nsys.exit(main({}))"
EMULATOR = COMMAND.format(["tasks-emulator", "--chaos", "twce=1", "--queue", "mail"])


def test_the_cloud_tasks_emulator_needs_its_own_extra_only() -> None:
    refused = run(EMULATOR, "emulator")  # after all imports, before it makes its file
    assert (refused.returncode, "'twce'" in refused.stderr) == (2, True)


def test_without_its_extra_the_emulator_names_it() -> None:
    assert "comes with the extra `emulator`: `uv add 'signalbox[emulator]'`" in run(EMULATOR).stderr


def test_a_client_needs_its_own_extra_only() -> None:
    assert run("from signalbox.client import AsyncClient, Client", "client").returncode == 0


@pytest.mark.parametrize(("name", "extra"), [("client.Client", "client"), ("testing.Harness", "tools")])
def test_a_name_that_needs_an_extra_names_it(name: str, extra: str) -> None:
    package, _, member = name.partition(".")
    refused = run(f"from signalbox.{package} import {member}")
    assert f"signalbox.{package} needs the extra `{extra}`: pip install 'signalbox[{extra}]'" in refused.stderr


def test_the_pages_are_shown_by_the_library_alone() -> None:
    assert run(COMMAND.format(["docs", "flows"])).stdout.startswith("# Flows")
