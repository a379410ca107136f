"""Make a function to begin with: a folder, a test, and an entry in the catalogue (``signalbox add printers``).

The entry comes last and in one step. A folder without one that holds nothing but beginnings of what would be written
was left by a run that was killed, and is completed.
"""

import os

from signalbox.catalogue import reading as catalogues
from signalbox.catalogue.entries import NAME, url_segment
from signalbox.catalogue.project import Project
from signalbox_infra.local.folder.running_stack import NoStack, RunningStack
from signalbox_infra.packaging.imports import LEFT_BEHIND, LIBRARY
from signalbox_infra.setup.function_files import CannotMake, files, taken_by

HEADING = "\nfunctions:\n"
TAKEN = LEFT_BEHIND | {LIBRARY, "docs", "dist"}
ENTRY = """  {name}:
    folder: {name}
"""
OWN_ENTRY = """  {name}: {{}}
"""
NEXT = """Made {main}, {test} and an entry in {catalogue}. Now try:

  make dev                                            a running one has loaded it already
  curl -X POST {base}{segment}/a
  curl {base}{segment}/a
  make test ARGS="{ARGS}"

Change {main} and save it: `make dev` reloads it. {names} lists every name of the kit.
"""


def make(name: str, project: Project) -> str:
    """Make a function's files in a project, and its entry. Returns what to try next. Raises `CannotMake`."""
    text = project.catalogue.read_text("utf-8")
    _check(name, project, text, catalogues.load(project.catalogue))
    values = {"name": name, "segment": url_segment(name)}
    for file, content in files(name, project).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8")
    entry = (OWN_ENTRY if project.own else ENTRY).format(**values)
    newer = project.catalogue.with_suffix(".new")
    newer.write_text(f"\n{text}".replace(HEADING, HEADING + entry, 1)[1:], "utf-8")
    newer.replace(project.catalogue)
    main, test = (file.relative_to(project.root) for file in files(name, project))
    return NEXT.format(
        **values,
        main=main,
        test=test,
        catalogue=project.catalogue.relative_to(project.root),
        base=_base_url(project),
        ARGS=f"-k {name}" if project.own else name,
        names="The page docs/README.md of the kit" if project.own else "docs/README.md",
    )


def _base_url(project: Project) -> str:
    """Return the address of the stack that runs, else the one of the next: its ``PORT``, or 8080."""
    try:
        return RunningStack.of(project.state).base_url
    except (NoStack, OSError):
        return f"http://127.0.0.1:{os.environ.get('PORT', '8080')}/"


def _begun(name: str, project: Project) -> bool:
    """Return whether a run that was killed has left what is there."""
    wanted = files(name, project)
    folder = next(iter(wanted)).parent
    written = [*folder.iterdir()] if folder.is_dir() else []
    return all(each.is_file() and wanted.get(each, "").startswith(each.read_text("utf-8")) for each in written)


def _check(name: str, project: Project, text: str, catalogue: catalogues.Catalogue) -> None:
    if not name:
        raise CannotMake("Name the function: make new NAME=printers")
    if not NAME.fullmatch(name):
        raise CannotMake(f"NAME={name}: the name must be lower case words joined by single underscores")
    if name in catalogue.functions:
        raise CannotMake(f"NAME={name}: the catalogue has a function of this name; choose another")
    folder = next(iter(files(name, project))).parent
    if (name in TAKEN and not project.own) or (folder.exists() and not _begun(name, project)):
        raise CannotMake(f"NAME={name}: there is a folder of this name; choose another")
    if taken := taken_by(name):
        raise CannotMake(f"NAME={name}: {taken}, which imports in your code mean; choose another")
    if HEADING not in f"\n{text}":
        file = project.catalogue.relative_to(project.root)
        raise CannotMake(f"{file} has no line `functions:` to put the entry under")
