"""The pages of the documentation, which the package contains."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from signalbox.catalogue.project import KIT

OF_THE_ROOT = ("README", "SECURITY", "CHANGELOG", "SUPPORT", "ARCHITECTURE", "DECISIONS", "CONTRIBUTING")

NAMES = "names"


class NoPage(Exception):
    """There is no page of this name. The message names similar ones."""


def files() -> Mapping[str, Path]:
    """Return the file of each page by its name: that of its file, in lower case, without the folder `docs`.

    The list of all names and pages, `docs/README.md`, is `names`; the one of a folder below has the folder's name.
    """
    root = KIT.root / "docs"
    own = {name.lower(): KIT.root / f"{name}.md" for name in OF_THE_ROOT}
    docs = {str(each.relative_to(root).with_suffix("")): each for each in sorted(root.rglob("*.md"))}
    return own | {NAMES if name == "README" else name.removesuffix("/README"): file for name, file in docs.items()}


def listed() -> str:
    """Return a line for each page: its name and its title."""
    pages = {name: _title(file) for name, file in files().items()}
    width = max(map(len, pages))
    return "".join(f"{name:{width}}  {title}\n" for name, title in pages.items())


def read(name: str) -> str:
    """Return the text of a page. Raises `NoPage`."""
    known = files()
    key = name.lower().removesuffix(".md")
    key = NAMES if key == "docs/readme" else key.removeprefix("docs/").removesuffix("/readme")
    if file := known.get(key):
        return file.read_text("utf-8")
    similar = ", ".join(difflib.get_close_matches(name, known)) or "`signalbox docs` lists all"
    raise NoPage(f"There is no page {name!r}: {similar}")


def _title(file: Path) -> str:
    return next((line[2:].strip() for line in file.read_text("utf-8").splitlines() if line.startswith("# ")), "")
