"""Each line that silences ruff or mypy says why, after the code of what it silences."""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("shared", "functions", "examples", "tests")
SILENCED = re.compile(r"#\s*(noqa(:\s*[A-Z]+[0-9]+(,\s*[A-Z]+[0-9]+)*)?|type:\s*ignore(\[[^\]]*\])?)")


def without_a_reason(text: str) -> Iterator[int]:
    """Iterate over the numbers of lines that silence a check and say nothing more."""
    if not SILENCED.search(text):  # reading tokens takes a hundred times as long
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        silences = token.type == tokenize.COMMENT and SILENCED.match(token.string)
        if silences and not SILENCED.sub("", token.string).strip(" -#()"):
            yield token.start[0]


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_line_that_silences_a_check_says_why(folder: str) -> None:
    paths = [path for path in (ROOT / folder).rglob("*.py") if not {".venv", ".terraform"} & {*path.parts}]
    assert paths
    silent = [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in without_a_reason(path.read_text())]
    assert silent == []


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        ("# noqa: F401", [1]),
        ("# type: ignore[misc]", [1]),
        ("# type: ignore[misc]  # noqa: F401", [1]),
        ("# noqa: F401  for its time", []),
        ("# type: ignore[misc]  # no types there", []),
        ("# type: ignore[misc]  # noqa: F401  no types there", []),
        ("# a comment", []),
    ],
)
def test_a_reason_is_what_follows_the_code(comment: str, found: list[int]) -> None:
    assert list(without_a_reason(f"import os  {comment}\n")) == found


A_USERS_TASK = '''"""Charges orders."""

from signalbox import Function, Problem

app = Function("orders")


@app.task
def charge(amount: int) -> str:
    """Charge an amount."""
    try:
        if amount <= 0:
            raise Problem("An amount is positive.")
    except Problem:
        print("refused")
        raise
    return f"charged {amount}"


entry = app.entry_point()
'''


def test_a_task_that_refuses_within_try_passes_the_check_of_a_users_folder() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename=orders/main.py", "-"]
    ended = subprocess.run(command, cwd=ROOT, input=A_USERS_TASK, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
