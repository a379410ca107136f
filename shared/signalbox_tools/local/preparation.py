"""Preparation of a local stack: check the project, clear its folder."""

from collections.abc import Sequence
from pathlib import Path

from signalbox.adapters.settings import SQLITE
from signalbox.adapters.sqlite.file import SYNCHRONOUS_LEVELS, Synchronous
from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.project import KIT
from signalbox.catalogue.reading import Catalogue
from signalbox_tools.local.folder.data_folder import EMULATOR, FILES
from signalbox_tools.local.functions import spans
from signalbox_tools.local.scheduler import PAUSED_FILE
from signalbox_tools.local.services.supervisor import StackError
from signalbox_tools.local.store import firestore_emulator
from signalbox_tools.local.store.firestore_emulator import Emulator
from signalbox_tools.local.user_variables import own_environment
from signalbox_tools.packaging.function_checks import check_all


def check(catalogue: Catalogue) -> None:
    """Refuse a project that would not run in the cloud. Raises `StackError` with the necessary change."""
    try:
        check_all(catalogue, KIT.root)
        own_environment(catalogue)
    except CatalogueError as error:
        raise StackError(str(error)) from error


def clear(folder: Path, service_names: Sequence[str], databases: bool) -> None:
    """Delete an earlier stack's logs, and its queues and events if its documents are gone."""
    for name in service_names:
        (folder / f"{name}.log").unlink(missing_ok=True)
    (folder / spans.FILE).unlink(missing_ok=True)
    for name in (*FILES, PAUSED_FILE.format("*")) if databases else ():
        for leftover in folder.glob(name):
            leftover.unlink()


def chosen_store(name: str) -> str:
    """Return the store that a variable or an option names. Raises `StackError`."""
    if name not in ("", SQLITE, EMULATOR):
        raise StackError(f"STORE is {name!r}: set it to {SQLITE} or {EMULATOR}, or unset it to use {SQLITE}")
    return name or SQLITE


def chosen_level(name: str) -> Synchronous:
    """Return the level of durability that a variable or an option names. Raises `StackError`."""
    for level in SYNCHRONOUS_LEVELS:
        if level == (name or "NORMAL"):
            return level
    raise StackError(f"SYNCHRONOUS is {name!r}: set it to NORMAL or FULL, or unset it to use NORMAL")


def installed_emulator() -> Emulator:
    """Return the emulator of this machine. Raises `StackError`, which names how to get it."""
    if emulator := firestore_emulator.find_installed():
        return emulator
    raise StackError(
        f"Google's Firestore emulator is not on this machine. Unset STORE, or {firestore_emulator.HOW_TO_GET_IT}"
    )
