"""A release: the version wherever it is named, the changelog's section, and what is refused."""

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from signalbox.catalogue.version import VERSION
from signalbox_tools.setup import release
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
    "text",
    [
        "# Changelog\n",
        "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n- first\n",
        "# Changelog\n\n## [Unreleased]\n## [0.1.0] - 2026-12-01\n\n- first\n",
    ],
)
def test_a_changelog_without_news_is_refused(text: str) -> None:
    with pytest.raises(NotReleased, match=re.escape(CHANGELOG)):
        dated(text, "0.2.0", DAY)


def test_the_changelog_of_this_clone_has_one_place_for_news() -> None:
    """It may be empty: after a release there are none yet."""
    assert (ROOT / CHANGELOG).read_text("utf-8").count(f"\n{UNRELEASED}\n") == 1


@pytest.mark.parametrize("version", ["", "1", "0.1", "v0.1.0", "0.1.0rc1", "00.1.0", "0.1.٣"])
def test_a_version_has_three_numbers(version: str) -> None:
    with pytest.raises(NotReleased, match="three numbers"):
        checked(version, [])


@pytest.mark.parametrize("version", ["0.9.0", "0.10.0"])
def test_a_version_follows_the_newest_tag(version: str) -> None:
    with pytest.raises(NotReleased, match=r"newest tag is v0\.10\.0"):
        checked(version, ["v0.10.0", "v0.9.1", "other"])
    assert checked("0.10.1", ["v0.10.0"]) == "0.10.1"


def git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return run.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a clone with an author in its own settings only, in which a release builds one package."""
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    root = tmp_path / "clone"
    root.mkdir()
    git(root, "init", "--quiet", f"--initial-branch={release.BRANCH}")
    git(root, "config", "user.name", "Ann Author")
    git(root, "config", "user.email", "ann@example.com")
    git(root, "config", "user.useConfigOnly", "true")
    (root / ".gitignore").write_text("dist/\n.local/\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=first")
    monkeypatch.setattr(release, "ROOT", root)
    monkeypatch.setattr(release, "prepare", lambda folder, version, _: (folder / "version").write_text(version))
    monkeypatch.setattr(release, "_try", lambda *_: None)
    monkeypatch.setattr(release, "_run", Commands(release._run))
    return root


@dataclass
class Commands:
    """Runs git, and only notes other commands; a build makes a package, and tests may change a file."""

    run: Callable[..., None]
    tests_change: str = ""

    def __call__(self, folder: Path, *command: str) -> None:
        if command[0] == "git":
            self.run(folder, *command)
        if command[:2] == ("make", "test") and self.tests_change:
            (folder / self.tests_change).write_text("changed")
        if "uv" in command:
            (folder / "dist").mkdir()
            (folder / "dist" / "signalbox-0.2.0-py3-none-any.whl").write_text("built")


def test_the_packages_of_a_release_are_the_only_ones_that_can_be_published(clone: Path) -> None:
    (clone / "dist").mkdir()
    for name in ("signalbox-0.1.0-py3-none-any.whl", "signalbox-0.1.0.tar.gz", "shop.zip"):
        (clone / "dist" / name).write_text("older")
    release.release("0.2.0", dry=False)
    packages = ["SHA256SUMS", "shop.zip", "signalbox-0.2.0-py3-none-any.whl"]
    assert sorted(path.name for path in (clone / "dist").iterdir()) == packages
    assert git(clone, "log", "-1", "--format=%s, %an <%ae>") == "Release 0.2.0, Ann Author <ann@example.com>"


def test_a_release_without_an_author_is_refused_before_its_tests(
    clone: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    git(clone, "config", "--unset", "user.email")
    with pytest.raises(NotReleased, match="GIT_COMMITTER_IDENT has failed"):
        release.release("0.2.0", dry=True)
    assert "make" not in capfd.readouterr().out


def test_only_a_rehearsal_leaves_tests_out(clone: Path) -> None:
    with pytest.raises(NotReleased, match="passes all tests"):
        release.release("0.2.0", dry=False, tests="-k word")
    release.release("0.2.0", dry=True, tests="-k word")
    assert git(clone, "log", "-1", "--format=%s") == "first"
    assert not (clone / "dist").exists()


def test_files_that_tests_have_changed_are_in_no_package(clone: Path) -> None:
    run = release._run
    assert isinstance(run, Commands)
    run.tests_change = ".gitignore"
    with pytest.raises(NotReleased, match=r"M \.gitignore"):
        release.release("0.2.0", dry=False)
    assert git(clone, "log", "-1", "--format=%s") == "first"
