"""Pin the actions of GitHub's workflows to commits: a tag can be moved to other code, a commit's hash cannot.

    python -m infra.setup.pin_actions                          compare each hash with the tag that stands behind it
    python -m infra.setup.pin_actions actions/checkout=v4.2.2  pin an action to another tag

Reads tags with `git ls-remote`, over the network. Exit status 1: a hash is not its tag's, or a tag was not found.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

WORKFLOWS = Path(__file__).resolve().parents[2] / ".github" / "workflows"
PINNED = re.compile(r"uses: (?P<action>[\w.-]+/[\w.-]+)@(?P<commit>[0-9a-f]{40}) # (?P<tag>v[\w.]+)")

Lookup = Callable[[str, str], str]
"""Returns the commit of an action's tag. Raises `LookupError`."""


def commit_of(action: str, tag: str) -> str:
    """Return the commit of an action's tag, as its repository on GitHub names it. Raises `LookupError`."""
    command = ("git", "ls-remote", f"https://github.com/{action}", f"refs/tags/{tag}", f"refs/tags/{tag}^{{}}")
    listed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a list, no shell
    found = [line.split()[0] for line in listed.stdout.splitlines()]
    if not found:
        raise LookupError(f"{action} has no tag {tag}: {listed.stderr.strip()}")
    return found[-1]  # of an annotated tag, the second line names the commit


def differences(folder: Path, lookup: Lookup) -> Iterator[str]:
    """Return a line for each action whose hash is not that of its tag."""
    pins = {
        each.groups() for file in sorted(folder.glob("*.yaml")) for each in PINNED.finditer(file.read_text("utf-8"))
    }
    for action, commit, tag in sorted(pins):
        if (wanted := lookup(action, tag)) != commit:
            yield f"{action}: {tag} is {wanted}, and pinned is {commit}"


def pin(folder: Path, action: str, tag: str, lookup: Lookup) -> None:
    """Pin an action to a tag in every workflow."""
    commit = lookup(action, tag)
    for file in folder.glob("*.yaml"):
        text = file.read_text("utf-8")
        pinned = PINNED.sub(
            lambda each: f"uses: {action}@{commit} # {tag}" if each["action"] == action else each[0], text
        )
        file.write_text(pinned, "utf-8")


def main(arguments: list[str]) -> int:
    """Pin what the arguments name, then compare all; return the exit status."""
    try:
        for each in arguments:
            action, _, tag = each.partition("=")
            pin(WORKFLOWS, action, tag, commit_of)
        found = list(differences(WORKFLOWS, commit_of))
    except LookupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"{each}\n" for each in found) or "Every action is pinned to its tag's commit.\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
