"""A clone of the project in which its own commands run as a new user types them, on fakes of the cloud.

Terraform is the real one. Its provider, its state's bucket and gcloud are fakes, and what answers the smoke test
is the local stack behind a gate. The clone's Python is the one that runs the tests. Its environment dev
has the examples.
"""

import os
import shutil
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from tests.infra.workspace import add_examples
from tests.started_commands import started

PROJECT = Path(__file__).resolve().parents[3]
LEFT = (
    ".git",
    ".venv",
    ".local",
    "dist",
    ".terraform",
    "*_cache",
    "__pycache__",
    ".hypothesis",
    "*.tfstate*",
    ".tools",
)
SECONDS_MAX = 100


class Clone:
    """The project's files in a folder, and the environment that its commands run in."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(*LEFT), symlinks=True)
        add_examples(folder / "infra" / "environments")
        _with_python(folder / ".venv")

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run make, and return its output, errors included."""
        return self.run("make", *arguments, **environment)

    def started(self, *arguments: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Run make in a new process group, as a terminal does, until the context ends."""
        return started(("make", *arguments), self.folder, self.environment, subprocess.PIPE, subprocess.STDOUT)

    def run(self, *command: str, folder: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the clone, or in a folder of it."""
        return subprocess.run(
            command,
            cwd=self.folder / folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )

    def add_function(self, name: str, main: str, entry: str) -> None:
        """Add a function as a user does: a folder next to the kit's, and one entry in the catalogue."""
        (self.folder / name).mkdir()
        (self.folder / name / "main.py").write_text(main)
        catalogue = self.folder / "infra" / "catalogue.yaml"
        catalogue.write_text(catalogue.read_text().replace("\nfunctions:\n", f"\nfunctions:\n  {name}: {entry}\n"))


def fake_environment(google: dict[str, str], gcloud: Path, state: str, base_url: str) -> dict[str, str]:
    """Return the environment: the fakes in front, and no confirmation in advance."""
    kept = {name: value for name, value in google.items() if name not in ("CI", "YES", "CONFIRM", "MAKEFLAGS")}
    return kept | {
        "PATH": f"{gcloud}{os.pathsep}{os.environ['PATH']}",
        "GOOGLE_OAUTH_ACCESS_TOKEN": "a-token",
        "GOOGLE_BACKEND_STORAGE_CUSTOM_ENDPOINT": state,
        "SIGNALBOX_BASE_URL": base_url,
    }


def _with_python(environment: Path) -> None:
    """Make an environment that make finds ready: the tests' own Python, with the clone's packages on its path."""
    packages = os.pathsep.join(str(environment.parent / folder) for folder in ("shared", "infra"))
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" "$@"\n')
    (environment / "bin" / "signalbox").write_text(
        f'#!/bin/sh\nexec "{environment}/bin/python" -m signalbox_tools "$@"\n'
    )
    for program in ("python", "signalbox"):
        (environment / "bin" / program).chmod(0o755)
    (environment / "matches-the-locks").touch()
