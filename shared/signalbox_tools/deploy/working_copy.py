"""The folder in which Terraform runs for a user's own project: the kit's files and the project's catalogue.

It is in the project's state folder and is updated before each use, since Terraform writes next to its files and an
installed package must not change. The providers' lock file is kept in the project's folder, and is to be committed. So
are the settings of the bootstrap, which Terraform reads by itself: `bootstrap/*.auto.tfvars.json`.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from signalbox.catalogue.project import KIT, Project
from signalbox_tools.catalogue_lock import lock, lock_of

LOCK_FILE = ".terraform.lock.hcl"
BOOTSTRAP, SETTINGS = "bootstrap", "*.auto.tfvars.json"


def renew(project: Project) -> None:
    """Update the files that have changed. In the kit's repository, Terraform runs in `infra/`, and this does
    nothing.
    """
    if not project.own:
        return
    wanted = {path.relative_to(KIT.infra): path.read_bytes() for path in _files(KIT.infra)}
    locks = [(lock_of(KIT.catalogue, each).name, lock_of(project.catalogue, each)) for each in _databases(project)]
    for name, file in (*locks, (LOCK_FILE, project.root / LOCK_FILE)):
        if file.is_file():
            wanted[Path(name)] = file.read_bytes()
    for path in (project.root / BOOTSTRAP).glob(SETTINGS):
        wanted[path.relative_to(project.root)] = path.read_bytes()
    locks_there = project.infra.glob(lock_of(KIT.catalogue, "*").name)
    for path in (*project.infra.rglob("*.tf"), *project.infra.rglob(SETTINGS), *locks_there):
        if path.relative_to(project.infra) not in wanted:
            path.unlink()
    for path, content in wanted.items():
        file = project.infra / path
        if not file.is_file() or file.read_bytes() != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def _databases(project: Project) -> Iterator[str]:
    """Iterate over the databases whose functions have locks, and an empty text for the functions without one."""
    yield ""
    begin, end = f"{project.catalogue.stem}.", ".lock.yaml"
    yield from (file.name[len(begin) : -len(end)] for file in project.root.glob(f"{begin}*{end}"))


def keep_catalogue(project: Project, say: Callable[[str], None]) -> None:
    """Write the locks of the catalogue that have changed, so that Terraform reads the rows of now."""
    for changed in lock(project.catalogue):
        say(f"{changed.name} has changed: commit it, so that a changed right shows in a diff.")
    renew(project)


def keep_lock_file(project: Project) -> Path:
    """Copy the lock file that Terraform wrote to the folder in which it is committed. Return the copy."""
    written = project.infra / LOCK_FILE
    kept = project.root / LOCK_FILE if project.own else written
    if kept != written:
        shutil.copyfile(written, kept)
    return kept


def _files(folder: Path) -> Iterator[Path]:
    yield from folder.glob("*.tf")
    for part in ("modules", BOOTSTRAP):
        files = (path for path in (folder / part).rglob("*") if path.suffix in (".tf", ".json"))
        yield from (path for path in files if not path.match(SETTINGS))
