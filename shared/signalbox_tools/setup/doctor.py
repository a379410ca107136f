"""Examine this machine and a project: find missing parts, settings that the cloud would refuse, and their remedies."""

import difflib
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import Catalogue, CatalogueError, load_all
from signalbox.catalogue.version import VERSION
from signalbox_tools.catalogue_lock import lock_of, text_of
from signalbox_tools.local.store import firestore_emulator
from signalbox_tools.packaging.function_checks import check_all
from signalbox_tools.setup import upgrade
from signalbox_tools.terminal_text import counted

PYTHON_MIN = (3, 11)
LISTED_MAX = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and its result; if `well` is false, `found` describes the fix."""

    name: str
    found: str
    well: bool = True


def examine(project: Project) -> list[Finding]:
    """Return all findings: of the machine first, then of the project."""
    return [*_machine(), *_of(project)]


def table(findings: Sequence[Finding]) -> str:
    """Return the findings as a table for people, one line for each."""
    width = max(len(each.name) for each in findings)
    return "".join(f"{'ok' if each.well else 'no':3} {each.name:{width}}  {each.found}\n" for each in findings)


def to_json(findings: Sequence[Finding]) -> str:
    """Return the findings as JSON: a list of ``{name, found, well}``."""
    return json.dumps([asdict(each) for each in findings], indent=2)


def _machine() -> Iterator[Finding]:
    yield Finding("signalbox", VERSION)
    yield Finding("python", ".".join(map(str, sys.version_info[:3])), sys.version_info >= PYTHON_MIN)
    for program, use in (("terraform", "it deploys: developer.hashicorp.com/terraform"), ("gcloud", "it signs in")):
        place = shutil.which(program)
        yield Finding(program, place or f"not on the PATH; {use}", place is not None)
    emulator = firestore_emulator.find_installed()
    yield Finding("emulator", "Google's Firestore emulator" if emulator else "none: `dev` needs none")


def _of(project: Project) -> Iterator[Finding]:
    yield Finding("project", str(project.root))
    if project.own:
        yield _names(project)
    try:
        catalogues = load_all(project.catalogue)
    except (CatalogueError, OSError) as error:
        yield Finding("catalogue", str(error), well=False)
        return
    catalogue = catalogues[0]
    own = [each.name for found in catalogues for each in found.functions.values() if not found.is_of_the_kit(each)]
    yield Finding("catalogue", f"{counted(len(own), 'function')} of yours: {', '.join(own)}")
    yield _checked("functions", "import nothing that the cloud lacks", partial(_check_all, catalogues, project))
    yield from (_lock(project, each) for each in catalogues)
    if project.own:
        indexes = upgrade.new_indexes(project, catalogue)
        takes = f"{_listed(indexes)} would be built; each takes a minute or two, and its queries wait for it"
        yield Finding("indexes", takes if indexes else "no new one, compared with the lock and the last plan made here")
        yield from (Finding(f"plan {name}", summary) for name, summary in upgrade.saved_plans(project))


def _names(project: Project) -> Finding:
    removed = upgrade.removed_names(project.root)
    if not removed:
        return Finding("names", "this version of signalbox has every name that the project imports from it")
    return Finding("names", f"{_listed(removed)}. The changelog says what replaces a removed name", well=False)


def _listed(found: Sequence[str]) -> str:
    more = len(found) - LISTED_MAX
    return "; ".join(found[:LISTED_MAX]) + (f"; and {more} more" if more > 0 else "")


def _checked(name: str, well: str, check: Callable[[], None]) -> Finding:
    try:
        check()
    except CatalogueError as error:
        return Finding(name, str(error), well=False)
    return Finding(name, well)


def _check_all(catalogues: Iterable[Catalogue], project: Project) -> None:
    for each in catalogues:
        check_all(each, project.kit.root)


def _lock(project: Project, catalogue: Catalogue) -> Finding:
    """Compare the lock with what would be deployed now: rights and names that an upgrade or an edit has changed."""
    file = lock_of(project.catalogue, catalogue.database)
    if not file.is_file():
        return Finding(file.name, "not written yet: `signalbox catalogue` or the first deployment does")
    before = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
    differences = difflib.ndiff(before, text_of(catalogue).splitlines())
    changed = [f"{line[0]}{line[1:].strip()}" for line in differences if line[0] in "+-"]
    if not changed:
        return Finding(file.name, "is what would be deployed")
    return Finding(
        file.name, f"{counted(len(changed), 'line')} would change: {_listed(changed)}; see `signalbox catalogue`"
    )
