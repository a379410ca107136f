"""Make a release up to its tag, which a person makes: ``python -m signalbox_tools.setup.release 0.1.0``.

The release is made in a clone of the last commit, in `.local/release`, so it contains nothing that is not committed.
There the version and the date are written, the golden records are kept, the checks and the tests run, the release is
committed, and the packages are built, installed and tried. Only then does this clone take the commit and the packages.
With `--dry` it takes neither.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from signalbox.catalogue.version import VERSION

ROOT = Path(__file__).resolve().parents[3]
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## [Unreleased]"
NAMES_IT: Mapping[str, str] = {
    "shared/signalbox/catalogue/version.py": r'VERSION = "',
    "shared/signalbox_tools/setup/api_head.yaml": r"version: ",
    "clients/typescript/package.json": r'"version": "',
    "clients/typescript/package-lock.json": r'"name": "signalbox-client",\s+"version": "',
    "clients/typescript/README.md": r"signalbox-client-",
    "README.md": r"signalbox-",
    "docs/own-project.md": r"signalbox-",
}
"""The files that name the version, and a pattern of what is before it. Generated files follow from them."""

BRANCH = "main"
NUMBER = "(0|[1-9][0-9]*)"
FORM = re.compile(rf"{NUMBER}\.{NUMBER}\.{NUMBER}")
PACKAGES = ("signalbox-*.whl", "signalbox-*.tar.gz")


class NotReleased(Exception):
    """The release cannot be made. The message says what to do."""


def with_version(text: str, before: str, old: str, new: str) -> str:
    """Replace the version wherever it follows the pattern `before`. Raises `NotReleased` if it does nowhere."""
    replaced, count = re.subn(f"({before}){re.escape(old)}", rf"\g<1>{new}", text)
    if not count:
        raise NotReleased(f"the version {old} does not follow {before!r}.")
    return replaced


def dated(changelog: str, version: str, day: date) -> str:
    """Turn the section of unreleased changes into the version's, below a new empty one. Raises `NotReleased`."""
    before, found, after = changelog.partition(f"{UNRELEASED}\n")
    if not found:
        raise NotReleased(f"{CHANGELOG} has no line {UNRELEASED!r}.")
    if not f"\n{after}".split("\n## ")[0].strip():
        raise NotReleased(f"{CHANGELOG} has nothing below {UNRELEASED!r}: write what the release brings.")
    return f"{before}{UNRELEASED}\n\n## [{version}] - {day.isoformat()}\n{after}"


def checked(version: str, tags: Sequence[str]) -> str:
    """Return a version that may follow those with tags. Raises `NotReleased`."""
    if not FORM.fullmatch(version):
        raise NotReleased(f"VERSION={version}: write it as three numbers, 0.1.0.")
    released = [_order(tag.removeprefix("v")) for tag in tags if FORM.fullmatch(tag.removeprefix("v"))]
    if released and _order(version) <= max(released):
        newest = ".".join(map(str, max(released)))
        raise NotReleased(f"VERSION={version}: the newest tag is v{newest}, and a version is never made again.")
    return version


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def prepare(clone: Path, version: str, day: date) -> None:
    """Write the version and the date into the files of a clone."""
    for name, before in NAMES_IT.items():
        file = clone / name
        file.write_text(with_version(file.read_text("utf-8"), before, VERSION, version), "utf-8")
    changelog = clone / CHANGELOG
    changelog.write_text(dated(changelog.read_text("utf-8"), version, day), "utf-8")


def release(version: str, *, dry: bool, tests: str = "") -> None:
    """Make a release, and print what a person does next. Raises `NotReleased`.

    `tests` are arguments of pytest, for a rehearsal with fewer of them.
    """
    checked(version, _output("git", "tag", "--list").split())
    if tests and not dry:
        raise NotReleased("A release passes all tests: leave ARGS out, or rehearse with DRY=1.")
    _check_clone()
    clone = ROOT / ".local" / "release"
    shutil.rmtree(clone, ignore_errors=True)
    _run(ROOT, "git", "clone", "--quiet", *_identity(), str(ROOT), str(clone))
    prepare(clone, version, datetime.now(UTC).date())
    _run(clone, "make", "setup")
    python = str(clone / ".venv" / "bin" / "python")
    _run(clone, python, "-m", "tests.compatibility", "--publish")
    _run(clone, python, "-m", "tests.compatibility")  # the records of the next release begin with these
    _run(clone, "make", "docs")
    _run(clone, "git", "add", "--all")
    _run(clone, "make", "check")
    _run(clone, "make", "test", f"ARGS={tests}")
    _run(clone, "git", "commit", "--quiet", f"--message=Release {version}")
    if changed := _output("git", "status", "--porcelain", folder=clone):
        raise NotReleased(f"The tests have changed files, which the packages would contain:\n{changed}")
    _run(clone, python, "-m", "uv", "build", "--quiet", "--out-dir=dist")
    _run(clone, "make", "sbom")
    _try(clone, version)
    for line in _sums(clone / "dist"):
        _say(line)
    if dry:
        _say(_output("git", "show", "--stat", "--format=%s", "HEAD", folder=clone))
        _say(f"A rehearsal: the commit and the packages are in {clone.relative_to(ROOT)}, and nothing else is changed.")
        return
    _run(ROOT, "git", "pull", "--quiet", "--ff-only", str(clone), BRANCH)
    for old in [path for pattern in PACKAGES for path in (ROOT / "dist").glob(pattern)]:
        old.unlink()  # `uv publish` takes all that it finds
    shutil.copytree(clone / "dist", ROOT / "dist", dirs_exist_ok=True)
    _say(f"Next, a person:\n  git tag --sign v{version} --message='Signalbox {version}'")
    _say(f"  git push origin {BRANCH} v{version}")


def _check_clone() -> None:
    if _output("git", "status", "--porcelain"):
        raise NotReleased("The clone has changes that are not committed: commit or stash them.")
    if (branch := _output("git", "branch", "--show-current").strip()) != BRANCH:
        raise NotReleased(f"A release is made of {BRANCH}, and this is {branch or 'no branch'}: git switch {BRANCH}")


def _identity() -> list[str]:
    """Return options of `git clone` with the author of this clone, whose settings another clone does not have.

    Raises `NotReleased` if git knows none: the commit would fail, an hour later.
    """
    _run(ROOT, "git", "var", "GIT_COMMITTER_IDENT")
    name, _, rest = _output("git", "var", "GIT_COMMITTER_IDENT").partition(" <")
    return [f"--config=user.name={name}", f"--config=user.email={rest.partition('>')[0]}"]


def _try(clone: Path, version: str) -> None:
    """Install the wheel where nothing else is, and call its command."""
    [wheel] = (clone / "dist").glob("*.whl")
    environment = clone / ".local" / "tried"
    _run(clone, sys.executable, "-m", "venv", str(environment))
    _run(clone, str(environment / "bin" / "pip"), "install", "--quiet", f"{wheel}[tools]")
    found = _output(str(environment / "bin" / "signalbox"), "--version", folder=environment)
    if version not in found:
        raise NotReleased(f"The command of the built wheel has the version {found.strip()!r}.")


def _sums(folder: Path) -> list[str]:
    """Write the SHA-256 of each package into a file next to them, and return its lines."""
    packages = sorted(path for path in folder.iterdir() if path.suffix in (".whl", ".gz", ".json"))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in packages]
    (folder / "SHA256SUMS").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return lines


def _run(folder: Path, *command: str) -> None:
    _say(" ".join(["+", *(part.replace(f"{ROOT}/", "") for part in command)]))
    if subprocess.run(command, cwd=folder, check=False).returncode:  # noqa: S603 (a list, no shell)
        raise NotReleased(f"{' '.join(command)} has failed; the lines above say why.")


def _output(*command: str, folder: Path | None = None) -> str:
    return subprocess.run(command, cwd=folder or ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603 (likewise)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m signalbox_tools.setup.release", description=__doc__.splitlines()[0]
    )
    parser.add_argument("version")
    parser.add_argument("--dry", action="store_true", help="change nothing but .local/release")
    parser.add_argument("--tests", default="", help="arguments of pytest, for a rehearsal with fewer tests")
    chosen = parser.parse_args()
    try:
        release(chosen.version, dry=chosen.dry, tests=chosen.tests)
    except NotReleased as error:
        sys.stderr.write(f"Not released: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
