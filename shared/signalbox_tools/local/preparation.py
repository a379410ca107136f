"""Preparation of a local stack: check the project, clear its folder."""

import os
from collections.abc import Sequence
from pathlib import Path

from signalbox.adapters.settings import EMBEDDED
from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.project import KIT
from signalbox.catalogue.reading import Catalogue
from signalbox_tools.local.functions import spans
from signalbox_tools.local.scheduler import PAUSED_FILE
from signalbox_tools.local.services.supervisor import StackError
from signalbox_tools.local.store import firestore_emulator
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
    for name in ("cloud-tasks.sqlite*", "events.sqlite*", "store.pickle", PAUSED_FILE.format("*")) if databases else ():
        for leftover in folder.glob(name):
            leftover.unlink()


def how_to_get_the_emulator() -> str:
    if os.environ.get("SIGNALBOX_STORE") == EMBEDDED:
        return "unset SIGNALBOX_STORE"
    return firestore_emulator.HOW_TO_GET_IT
