"""What a type checker says of a flow: strict mypy finds the errors that `typed_flow.txt` marks, and no others."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
SOURCE = Path(__file__).with_name("typed_flow.txt").read_text("utf-8")
MARK = re.compile(r"  # error: (.+)$")


@pytest.mark.slow
def test_a_wrong_argument_and_a_wrong_use_of_a_result_are_errors_and_nothing_else_is(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed: make check installs it")
    file = tmp_path / "main.py"
    file.write_text(SOURCE, "utf-8")
    options = ["--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}", "--no-error-summary"]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "main.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(PROJECT / "shared"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stderr == ""
    errors = re.findall(r"^main.py:(\d+): error: (.+)$", found.stdout, re.MULTILINE)
    marked = [(number, mark[1]) for number, line in enumerate(SOURCE.splitlines(), 1) if (mark := MARK.search(line))]
    assert [int(line) for line, _ in errors] == [line for line, _ in marked], found.stdout
    assert [text for (_, text), (_, mark) in zip(errors, marked, strict=True) if not text.startswith(mark)] == []
