"""Lock the packages of functions that have their own `requirements.in`, so that they agree with the kit's lock."""

import subprocess
import sys

from signalbox.catalogue.project import Project
from signalbox_tools.packaging.requirements import LOCK

COMPILE = (
    *("uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes"),
    *("--no-header", "--no-annotate", "--python-version", "3.11"),
)


def lock(project: Project, *, upgrade: bool) -> int:
    """Write the `requirements.txt` next to each `requirements.in` of a function; return the first bad exit status."""
    more = ("--upgrade",) if upgrade else ()
    for wanted in sorted((project.root / "functions").glob("*/requirements.in")):
        files = ("-c", str(project.kit.root / LOCK), str(wanted), "-o", str(wanted.with_suffix(".txt")))
        command = (sys.executable, "-m", *COMPILE, *more, *files)
        if status := subprocess.run(command, cwd=project.root, check=False).returncode:  # noqa: S603 (a list, no shell)
            return status
    return 0
