"""A release: the version wherever it is named, the changelog's section, and what is refused."""

import re
import subprocess
from datetime import date

import pytest

from signalbox.catalogue.version import VERSION
from signalbox_tools.setup.release import (
    CHANGELOG,
    NAMES_IT,
    ROOT,
    UNRELEASED,
    NotReleased,
    checked,
    dated,
    with_version,
)

DAY = date(2027, 1, 31)


@pytest.mark.parametrize("name", NAMES_IT)
def test_each_file_gets_the_version(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    written = with_version(text, NAMES_IT[name], VERSION, "7.8.9")
    assert "7.8.9" in written
    assert not re.search(NAMES_IT[name] + re.escape(VERSION), written)


def test_no_other_file_names_the_package_with_its_version() -> None:
    named = rf"signalbox(-client)?[-=]+{VERSION}"
    found = subprocess.run(["git", "grep", "-lE", named], cwd=ROOT, check=False, capture_output=True, text=True)
    assert set(found.stdout.split()) <= {*NAMES_IT, "tests/unit/tools/setup/test_release.py"}


def test_another_package_of_that_version_keeps_it() -> None:
    lock = '"name": "signalbox-client",\n  "version": "0.1.0"\n"node_modules/other": {\n  "version": "0.1.0"\n'
    written = with_version(lock, NAMES_IT["clients/typescript/package-lock.json"], "0.1.0", "0.2.0")
    assert written.count("0.2.0") == written.count("0.1.0") == 1


def test_what_is_unreleased_becomes_the_section_of_the_version() -> None:
    text = "# Changelog\n\n## [Unreleased]\n\n- a thing\n\n## [0.1.0] - 2026-12-01\n\n- first\n"
    assert dated(text, "0.2.0", DAY) == (
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-31\n\n- a thing\n\n## [0.1.0] - 2026-12-01\n\n- first\n"
    )


@pytest.mark.parametrize(
    "text", ["# Changelog\n", "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n- first\n"]
)
def test_a_changelog_without_news_is_refused(text: str) -> None:
    with pytest.raises(NotReleased, match=re.escape(CHANGELOG)):
        dated(text, "0.2.0", DAY)


def test_the_changelog_of_this_clone_has_one_place_for_news() -> None:
    """It may be empty: after a release there are none yet."""
    assert (ROOT / CHANGELOG).read_text("utf-8").count(f"\n{UNRELEASED}\n") == 1


@pytest.mark.parametrize("version", ["", "1", "0.1", "v0.1.0", "0.1.0rc1", "00.1.0"])
def test_a_version_has_three_numbers(version: str) -> None:
    with pytest.raises(NotReleased, match="three numbers"):
        checked(version, [])


@pytest.mark.parametrize("version", ["0.9.0", "0.10.0"])
def test_a_version_follows_the_newest_tag(version: str) -> None:
    with pytest.raises(NotReleased, match=r"newest tag is v0\.10\.0"):
        checked(version, ["v0.10.0", "v0.9.1", "other"])
    assert checked("0.10.1", ["v0.10.0"]) == "0.10.1"
