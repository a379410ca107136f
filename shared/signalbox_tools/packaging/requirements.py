"""Join the functions' lock with a function's own.

The build service installs one ``requirements.txt`` a function, and a single hash in it makes pip require hashes for
all. So a function's own lock must have hashes too, and agree with the functions' lock.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from signalbox.catalogue.project import REQUIREMENTS
from signalbox_tools.packaging.imported_modules import PackagingError

LOCK = "functions/requirements.txt"
PINNED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[^]]*\])?==[^ ;]+( ?;.*)?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One package of a lock: its normalised name, its pin with marker, and its lines in the file."""

    name: str
    pin: str
    text: str


def joined(folder: Path, kit: Path) -> str:
    """Append the packages of a function's own lock to the functions' lock. Raises `PackagingError` if they disagree."""
    lock, own = (kit / LOCK).read_text("utf-8"), _own_lock(folder)
    pins: dict[str, set[str]] = {}
    for requirement in requirements(lock, LOCK):
        pins.setdefault(requirement.name, set()).add(requirement.pin)
    added = []
    for requirement in requirements(own, _where(folder)):
        if requirement.name not in pins:
            added.append(requirement.text)
        elif requirement.pin not in pins[requirement.name]:
            pinned = " or ".join(sorted(pins[requirement.name]))
            raise PackagingError(
                f"{_where(folder)}: {requirement.pin} conflicts with {pinned} of {LOCK}. {_how_to_lock(folder)}"
            )
    return lock + "".join(added)


def locked_packages(folder: Path, kit: Path) -> frozenset[str]:
    """Return the normalised names of the packages that a function is deployed with. Raises `PackagingError`."""
    lock = (kit / LOCK).read_text("utf-8")
    listed = (*requirements(lock, LOCK), *requirements(_own_lock(folder), _where(folder)))
    return frozenset(requirement.name for requirement in listed)


def _own_lock(folder: Path) -> str:
    own = folder / REQUIREMENTS
    return own.read_text("utf-8") if own.is_file() else ""


def _where(folder: Path) -> str:
    return f"{folder.name}/{REQUIREMENTS}"


def _how_to_lock(folder: Path) -> str:
    return f"Name packages in {folder.name}/requirements.in, without versions if you can, and run `signalbox lock`."


def requirements(text: str, where: str) -> Iterator[Requirement]:
    """Read a lock: pins with hashes, nothing else. Raises `PackagingError`."""
    for lines in re.findall(r"(?m)^(?![ \t]*(?:#|$))(?:.*\\\n)*.*\n?", text):
        pin = re.split(r"\s*\\\n|\s+--hash=", lines, maxsplit=1)[0].strip()
        match = PINNED.fullmatch(pin)
        if match is None or "--hash=" not in lines:
            raise PackagingError(
                f"{where}: {pin!r} is not pinned by == with a hash. Name it in requirements.in: `signalbox lock`."
            )
        name = re.sub(r"[-_.]+", "-", match["name"]).lower()
        yield Requirement(name, pin, lines if lines.endswith("\n") else f"{lines}\n")
