"""Join the functions' lock with what a user's function needs beside it.

The build service installs one ``requirements.txt`` a function, and a single hash in it makes pip ask for the hash of
everything. So a function's own lines must be locked as the functions' lock is, and agree with it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from infra.packaging.imports import PackagingError

LOCK = "functions/requirements.txt"
PINNED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[^]]*\])?==[^ ;]+( ?;.*)?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One package of a lock: its normalised name, its pin with marker, and the lines as they stand in the file."""

    name: str
    pin: str
    text: str


def joined(lock: str, own: str, where: str) -> str:
    """Append to the functions' lock what only `own` has. Raises `PackagingError` when they disagree."""
    pins: dict[str, set[str]] = {}
    for requirement in requirements(lock, LOCK):
        pins.setdefault(requirement.name, set()).add(requirement.pin)
    added = []
    for requirement in requirements(own, where):
        if requirement.name not in pins:
            added.append(requirement.text)
        elif requirement.pin not in pins[requirement.name]:
            raise PackagingError(f"{where}: {requirement.pin} is not what {LOCK} pins: compile it with -c {LOCK}")
    return lock + "".join(added)


def requirements(text: str, where: str) -> Iterator[Requirement]:
    """Read a lock: pins with hashes, nothing else. Raises `PackagingError`."""
    for lines in re.findall(r"(?m)^(?![ \t]*(?:#|$))(?:.*\\\n)*.*\n?", text):
        pin = re.split(r"\s*\\\n|\s+--hash=", lines, maxsplit=1)[0].strip()
        match = PINNED.fullmatch(pin)
        if match is None or "--hash=" not in lines:
            raise PackagingError(f"{where}: {pin!r} is not pinned by == with a hash: make the file with uv pip compile")
        name = re.sub(r"[-_.]+", "-", match["name"]).lower()
        yield Requirement(name, pin, lines if lines.endswith("\n") else f"{lines}\n")
