"""The pages of the documentation, which the package contains."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from signalbox.catalogue.project import KIT

OF_THE_ROOT = ("README", "SECURITY", "CHANGELOG", "SUPPORT", "ARCHITECTURE", "DECISIONS", "CONTRIBUTING")


class NoPage(Exception):
    """There is no page of this name. The message names similar ones."""


def files() -> Mapping[str, Path]:
    """Return the file of each page by its name: that of its file, in lower case, without the folder `docs`."""
    root = KIT.root
    own = {name.lower(): root / f"{name}.md" for name in OF_THE_ROOT}
    docs = sorted((root / "docs").rglob("*.md"))
    return own | {str(each.relative_to(root / "docs").with_suffix("")): each for each in docs if each.stem != "README"}


def listed() -> str:
    """Return a line for each page: its name and its title."""
    pages = {name: _title(file) for name, file in files().items()}
    width = max(map(len, pages))
    return "".join(f"{name:{width}}  {title}\n" for name, title in pages.items())


def read(name: str) -> str:
    """Return the text of a page. Raises `NoPage`."""
    known = files()
    if file := known.get(name.lower().removesuffix(".md").removeprefix("docs/")):
        return file.read_text("utf-8")
    similar = ", ".join(difflib.get_close_matches(name, known)) or "`signalbox docs` lists all"
    raise NoPage(f"There is no page {name!r}: {similar}")


def _title(file: Path) -> str:
    return next((line[2:].strip() for line in file.read_text("utf-8").splitlines() if line.startswith("# ")), "")
