"""Report text that must not be in the repository: paths of a machine, and package hosts in a lock.

Both break other people's clones: the first does not exist there, the second sends pip to an index that they cannot
reach, or should not trust.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HOMES = r"(?<![\w.:/~{}*-])/(?:home|Users|root|work|tmp)/[\w.]+"
HOST_IN_LOCK = re.compile(r"\w+://|--(?:extra-)?index-url|--find-links|--trusted-host| @ ")
LOCK = re.compile(r"(?:.*/)?requirements[\w-]*\.(?:txt|in)")


def complaints(path: str, text: str, machine_path: re.Pattern[str]) -> Iterator[str]:
    """Return the findings in a file, a line each."""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := machine_path.search(line):
            yield f"{path}:{number}: names a machine's path: {found[0]}"
        if LOCK.fullmatch(path) and (found := HOST_IN_LOCK.search(line)):
            yield f"{path}:{number}: a lock names where packages come from: {line.strip()}"


def machine_paths(clone: Path, home: Path) -> re.Pattern[str]:
    """Match homes and scratch folders of the usual systems, and this clone's and this user's own."""
    own = [re.escape(str(path)) + r"(?![\w-])" for path in (clone, home) if len(path.parts) > 2]
    return re.compile("|".join([HOMES, *own]))


def tracked(clone: Path) -> Iterator[tuple[str, str]]:
    """Return each tracked text file with its content."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=clone, check=True, capture_output=True).stdout  # noqa: S607  git is on the path of a developer
    for path in filter(None, listed.decode().split("\0")):
        content = (clone / path).read_bytes() if (clone / path).is_file() else b""
        if b"\0" not in content:
            yield path, content.decode("utf-8", "replace")


def main() -> int:
    """Print every complaint; the exit status is 1 if there is one."""
    clone = Path(__file__).resolve().parents[3]
    pattern = machine_paths(clone, Path.home())
    found = [complaint for path, text in tracked(clone) for complaint in complaints(path, text, pattern)]
    sys.stdout.writelines(f"{complaint}\n" for complaint in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
