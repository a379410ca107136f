"""Lock the packages of functions that have their own `requirements.in`, so that they agree with the kit's lock."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from signalbox.catalogue.project import Project
from signalbox_tools.packaging.requirements import LOCK

COMPILE = (
    *("pip", "compile", "--quiet", "--universal", "--generate-hashes"),
    *("--no-header", "--no-annotate", "--python-version", "3.11"),
)
LOCK_OF_A_CLONE = "requirements-dev.txt"
"""In a clone, one environment has the packages of all functions and those of the tests."""

FOLDERS_OF_A_CLONE = ("[!.]*", "[!.]*/*", "[!.]*/*/*")


def lock(project: Project, *, upgrade: bool) -> int:
    """Write the `requirements.txt` next to each `requirements.in` of a function; return the first bad exit status.

    Raises `FileNotFoundError` if neither this environment nor the PATH has uv.
    """
    uv, more = _uv(), ("--upgrade",) if upgrade else ()
    kits = str(project.kit.root / (LOCK if project.own else LOCK_OF_A_CLONE))
    for wanted in inputs(project):
        files = ("-c", kits, str(wanted), "-o", str(wanted.with_suffix(".txt")))
        command = (*uv, *COMPILE, *more, *files)
        if status := subprocess.run(command, cwd=project.root, check=False).returncode:  # noqa: S603 (a list, no shell)
            return status
    return 0


def _uv() -> tuple[str, ...]:
    if find_spec("uv"):
        return sys.executable, "-m", "uv"
    if program := shutil.which("uv"):
        return (program,)
    raise FileNotFoundError("`signalbox lock` needs uv: https://docs.astral.sh/uv/getting-started/installation/")


def inputs(project: Project) -> list[Path]:
    """Return each `requirements.in` of a function: below `functions` in a project, anywhere but there in a clone."""
    if project.own:
        return sorted(project.root.glob("functions/*/requirements.in"))
    found = (path for folder in FOLDERS_OF_A_CLONE for path in project.root.glob(f"{folder}/requirements.in"))
    return sorted(path for path in found if path.parent != project.root / "functions")
