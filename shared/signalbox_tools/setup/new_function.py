"""Make a new function: a folder, a test, and an entry in the catalogue (``signalbox add printers``).

The entry is written last, in one step. A folder without an entry whose files are beginnings of the files that would be
written was left by a killed run, and is completed.
"""

import os

from signalbox.catalogue import reading as catalogues
from signalbox.catalogue.function_entries import NAME, url_segment
from signalbox.catalogue.parts import FUNCTIONS as OF_THE_KIT
from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import joins_a_database
from signalbox_tools.local.folder.running_stack import NoStack, RunningStack
from signalbox_tools.packaging.imported_modules import LEFT_BEHIND, LIBRARY
from signalbox_tools.setup.new_function_templates import CannotMake, files, taken_by

HEADING = "\nfunctions:\n"
TAKEN = LEFT_BEHIND | {LIBRARY, "docs", "dist"}
ENTRY = """  {name}:
    folder: {name}
"""
OWN_ENTRY = """  {name}: {{}}
"""
NEXT = """Made {main}, {test} and an entry in {catalogue}. Now try:

  signalbox dev                                       a running one has loaded it already
  curl -X POST {base}{segment}/a
  curl {base}{segment}/a
  {test_command}

Change {main} and save it: `signalbox dev` reloads it. {names} lists every name of the kit.
"""


def make(name: str, project: Project) -> str:
    """Make a function's files and its entry in a project. Return the text that says what to try next.

    Raises `CannotMake`.
    """
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
        test_command=f"signalbox test -k {name}" if project.own else f"make test ARGS={name}",
        names="`signalbox docs names`" if project.own else "docs/README.md",
    )


def _base_url(project: Project) -> str:
    """Return the address of the running stack.

    If no stack runs, return that of the next one: port ``PORT``, or 8080.
    """
    try:
        return RunningStack.of(project.state).base_url
    except (NoStack, OSError):
        return f"http://127.0.0.1:{os.environ.get('PORT', '8080')}/"


def _begun(name: str, project: Project) -> bool:
    """Return whether the function's folder does not exist, or has only the files of a killed run."""
    wanted = files(name, project)
    folder = next(iter(wanted)).parent
    written = [*folder.iterdir()] if folder.is_dir() else []
    return all(each.is_file() and wanted.get(each, "").startswith(each.read_text("utf-8")) for each in written)


def _check(name: str, project: Project, text: str, catalogue: catalogues.Catalogue) -> None:
    if not name:
        raise CannotMake("Name the function: signalbox add printers")
    if not NAME.fullmatch(name):
        raise CannotMake(f"{name}: the name must be lower case words joined by single underscores")
    if name in OF_THE_KIT:
        raise CannotMake(f"{name}: the kit has a function of this name; choose another")
    if name in catalogue.functions or name in catalogue.elsewhere:
        raise CannotMake(f"{name}: the catalogue already has a function of this name; choose another")
    if database := joins_a_database(name, {catalogue.database, *catalogue.elsewhere.values()}):
        raise CannotMake(f"{name}: names of the database {database} begin with {database}-; choose another")
    folder = next(iter(files(name, project))).parent
    if (name in TAKEN and not project.own) or (folder.exists() and not _begun(name, project)):
        raise CannotMake(f"{name}: a folder of this name exists; choose another")
    if taken := taken_by(name):
        raise CannotMake(f"{name}: {taken}, which your function would hide; choose another")
    if HEADING not in f"\n{text}":
        file = project.catalogue.relative_to(project.root)
        raise CannotMake(f"{file} has no line `functions:` to put the entry under")
