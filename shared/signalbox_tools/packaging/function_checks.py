"""Check a function before it is packaged, and before it is served on this machine, so that it works in both places."""

from pathlib import Path

from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.derived_keys import check_declared, usage_of
from signalbox.catalogue.function_entries import Function
from signalbox.catalogue.project import REQUIREMENTS, python_files
from signalbox.catalogue.reading import Catalogue
from signalbox_tools.packaging.import_resolution import check_imports
from signalbox_tools.packaging.imported_modules import PackagingError
from signalbox_tools.packaging.requirements import locked_packages


def check_all(catalogue: Catalogue, kit: Path) -> None:
    """Check every function of the catalogue. Raises `PackagingError` with all complaints."""
    refusals = (_refusal(function, kit, catalogue.is_complete) for function in catalogue.functions.values())
    complaints = [str(error) for error in refusals if error]
    if complaints:
        raise PackagingError("\n".join(complaints))


def check(function: Function, kit: Path, *, may_hide: bool = False) -> None:
    """Check that a function's imports resolve in the cloud, and that its entry declares its tasks and queues.

    `kit` holds the lock of all functions. `may_hide` is whether its imports need not show the parts of the kit that it
    uses. Raises `PackagingError` with the lines to add or change.
    """
    sources = python_files(function.folder)
    try:
        check_imports(sources, locked_packages(function.folder, kit), how_to_add(function))
        check_declared(function, usage_of(sources), may_hide=may_hide)
    except CatalogueError as error:
        raise PackagingError(f"{function.name}: {error}") from error


def how_to_add(function: Function) -> str:
    """Return how to make a module importable in the cloud."""
    own = function.folder / REQUIREMENTS
    return (
        f"Put a module of your own into {function.folder.name}/. Name a package in {own.with_suffix('.in')} and run "
        "`signalbox lock`, which locks it with hashes in requirements.txt next to it; `make setup` installs it here."
    )


def _refusal(function: Function, kit: Path, may_hide: bool) -> PackagingError | None:
    try:
        check(function, kit, may_hide=may_hide)
    except PackagingError as error:
        return error
    return None
