"""What an instance loads: the modules that the build compiled, though each file in the image is of 1980."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.cold_start import BUILD_ENVIRONMENT, build


@pytest.mark.parametrize(
    ("environment", "word"), [(BUILD_ENVIRONMENT, " matches "), ({}, "stale")], ids=["as deployed", "by times"]
)
def test_an_instance_takes_the_compiled_modules(environment: dict[str, str], word: str, tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("ANSWER = 42\n")
    build(tmp_path, environment)
    command = [sys.executable, "-v", "-B", "-c", "import rules"]
    loaded = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    lines = [line for line in loaded.splitlines() if "rules" in line]
    assert any(word in line for line in lines), lines
