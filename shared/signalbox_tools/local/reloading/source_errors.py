"""Find syntax errors and undefined names in the source of functions, without running it.

Ruff does it in milliseconds. Without it, an undefined name is noticed only when its line runs, and a syntax error ends
the import of everything else. The check is left out if Ruff takes longer than `SECONDS_MAX`.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

FATAL = "E9,F821,F822,F823"
"""The rules of Ruff for code that cannot run: syntax errors and undefined names."""

SECONDS_MAX = 30
"""On a busy machine Ruff may need longer. Then later checks find syntax errors, and an undefined name is noticed when
its line runs."""


def source_errors(folders: Iterable[Path], root: Path) -> list[str]:
    """Return the errors in all Python files of the folders, each as ``FILE:LINE:COLUMN: error``.

    The list is empty if Ruff takes too long.
    """
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet"]
    options = ["--target-version=py311", f"--select={FATAL}", "--output-format=concise"]
    checked = [str(folder) for folder in folders if folder.is_dir()]
    try:
        done = subprocess.run(  # noqa: S603 (a list, no shell)
            [*command, *options, *checked], cwd=root, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return []
    lines = (line for line in done.stdout.splitlines() if ":" in line)
    return [line.removeprefix(f"{root}/") for line in lines]
