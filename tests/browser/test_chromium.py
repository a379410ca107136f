"""A machine without Chromium fails the tests of pages, and says what to do."""

from pathlib import Path

import pytest

from tests import chromium


def test_a_machine_without_chromium_has_none_and_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(chromium, "NAMES", ("chromium", "google-chrome"))
    assert chromium.find() is None
    assert "apt-get install chromium" in chromium.HOW_TO_GET_IT


def test_a_browser_that_is_named_goes_before_those_that_are_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "chrome").touch(mode=0o755)
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "chrome"))
    assert chromium.find() == str(tmp_path / "chrome")
