"""A test whose tool is missing is skipped, the summary says how to get the tool, and the gate fails on any skip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.required_programs import CHROMIUM, EMULATOR, TERRAFORM

PROJECT = Path(__file__).resolve().parents[2]


SKIPS = """
import pytest

@pytest.mark.skip(reason="no emulator here")
def test_marked(): pass

def test_inside(): pytest.skip("no emulator here either")

@pytest.mark.xfail(strict=True)
def test_known(): assert False

def test_good(): pass
"""


def run_pytest(folder: Path, text: str, no_skips: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_one.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.skips",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        str(folder),
    ]
    environment = {**os.environ, "SIGNALBOX_NO_SKIPS": no_skips}
    return subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_skip_is_a_failure_where_nothing_may_be_skipped(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, SKIPS, "1")
    assert result.returncode == 1
    assert "1 failed, 1 passed, 1 xfailed, 1 error" in result.stdout
    assert "Nothing may be skipped here. Skipped: no emulator here" in result.stdout


@pytest.mark.slow
def test_a_module_that_skips_itself_is_an_error_where_nothing_may_be_skipped(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, "import pytest\npytest.importorskip('nowhere_to_be_had')\n", "1")
    assert result.returncode == 2
    assert "Nothing may be skipped here. Skipped: could not import 'nowhere_to_be_had'" in result.stdout


@pytest.mark.slow
def test_elsewhere_a_skip_is_a_skip(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, SKIPS, "")
    assert result.returncode == 0
    assert "1 passed, 2 skipped, 1 xfailed" in result.stdout


NEEDING = """
import pytest
from tests.required_programs import CHROMIUM, TERRAFORM

@CHROMIUM.skip_without()
def test_marked(): pass

@pytest.mark.parametrize("one", range(3))
def test_inside(one): TERRAFORM.require()
"""


@pytest.mark.slow
def test_the_summary_has_a_line_for_each_missing_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CHROMIUM", raising=False)
    lines = run_pytest(tmp_path, NEEDING, "").stdout.splitlines()
    assert f"1 test skipped: needs Chromium. {CHROMIUM.how_to_get_it}" in lines
    assert f"3 tests skipped: needs Terraform. {TERRAFORM.how_to_get_it}" in lines
    assert [line for line in lines if EMULATOR.how_to_get_it in line] == []


def test_a_browser_that_is_named_goes_before_those_that_are_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "chrome").touch(mode=0o755)
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "chrome"))
    assert CHROMIUM.find() == str(tmp_path / "chrome")
