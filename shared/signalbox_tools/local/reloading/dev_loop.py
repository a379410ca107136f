"""Reload a running stack whenever its files change, and announce the result."""

import contextlib
import time
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from importlib.util import cache_from_source
from pathlib import Path

from signalbox.catalogue import reading as catalogues
from signalbox.catalogue.function_entries import Function
from signalbox.catalogue.project import PACKAGES, Project, is_test
from signalbox_tools.local import user_variables
from signalbox_tools.local.kept_threads import kept_thread
from signalbox_tools.local.reloading.reload import NotReloaded
from signalbox_tools.local.reloading.watcher import Watcher
from signalbox_tools.local.scheduler import schedule_lines
from signalbox_tools.local.stack import Stack, StackError
from signalbox_tools.packaging.imported_modules import LIBRARY

NAMED_MAX = 2
LIBRARY_FOLDER = PACKAGES / LIBRARY

Announce = Callable[[str, str], None]
"""Called with a line, and with a traceback or an empty text."""


class DevLoop:
    """Watches the library, the functions' folders and the catalogue of a stack, from `watch` to `stop`.

    `watch` may be called before the stack starts. Later changes are reloaded after `start`.
    """

    def __init__(
        self,
        stack: Stack,
        announce: Announce,
        catalogue: Path | None = None,
        misfits: Callable[[str, Path, str], str] = lambda *_: "",
        database: str = "",
    ) -> None:
        """`misfits` returns which runs of a function of a database would be stuck with its code (empty: none)."""
        self._stack = stack
        self._announce = announce
        self._project = Project.of(catalogue) if catalogue else Project.find()
        self._catalogue = catalogue.resolve() if catalogue else self._project.catalogue
        self._watcher = Watcher(self._changed)
        self._failed = self._stopped = False
        self._misfits = misfits
        self._database = database
        self._reloads = 0

    def watch(self) -> None:
        """Watch all folders, including new ones. Later changes are reloaded after `start`."""
        try:
            self._watch()
        except OSError as error:
            self._announce(f"not watching the files, so restart after a change: {error}", "")

    def start(self) -> None:
        """Reload the changes since `watch`, and all later ones."""
        self._watcher.start()

    def stop(self) -> None:
        self._stopped = True
        self._watcher.stop()

    def _watch(self) -> None:
        root = self._project.root
        trees = [LIBRARY_FOLDER, *(_top(folder, root) for folder in (*self._stack.folders, *self._named_folders()))]
        self._watcher.watch(trees=trees, folders=[root, self._catalogue.parent])

    def _named_folders(self) -> Iterable[Path]:
        """Return the folders that the catalogue names, or none if the catalogue cannot be read.

        The next correction may be in one of these folders.
        """
        try:
            found = catalogues.load_all(self._catalogue)
            return [function.folder for each in found for function in each.functions.values()]
        except (catalogues.CatalogueError, OSError):
            return []

    def _changed(self, paths: list[Path]) -> None:
        self.watch()
        _forget_bytecode(paths)
        if not self._failed and not (paths := [path for path in paths if self._counts(path)]):
            return
        started, schedules = time.monotonic(), self._stack.schedules
        try:
            self._stack.reload()
        except NotReloaded as error:
            self._failed = True
            self._announce(f"not reloaded, the last good version serves: {error}", error.trace)
        except (StackError, OSError) as error:
            self._failed = True
            if not self._stopped:
                self._announce(f"the reload did not finish, and the next change repeats it: {error}", "")
        except Exception as error:  # noqa: BLE001 (announced; the last good version serves)
            self._failed = True
            text = f"not reloaded, the last good version serves: {type(error).__name__}: {error}"
            self._announce(text, "".join(traceback.format_exception(error)))
        else:
            self._failed = False
            self._announce(f"reloaded in {time.monotonic() - started:.1f} s: {_named(paths, self._project.root)}", "")
            changed = [each for each in self._stack.schedules if each not in schedules]
            for line in schedule_lines(changed, datetime.now(UTC)):
                self._announce(f"schedule {line}", "")
            self._reloads += 1
            kept_thread("replays", partial(self._replay, paths, self._reloads)).start()

    def _replay(self, paths: list[Path], reloads: int) -> None:
        """Announce the runs that would be stuck with the code of the changed functions, until another reload."""
        try:
            functions = catalogues.load(self._catalogue, database=self._database).functions.values()
        except (catalogues.CatalogueError, OSError):  # the next reload reports it
            return
        folders, with_flows = [each.folder for each in functions], [each for each in functions if each.flows]
        for function in affected(paths, with_flows, folders):
            if self._stopped or reloads != self._reloads:
                return
            if misfits := self._misfits(function.name, self._project.root, self._database):
                self._announce(f"not all runs continue with the new {function.name}: {misfits}", "")

    def _counts(self, path: Path) -> bool:
        """Return whether a file belongs to the served functions."""
        if path.is_relative_to(LIBRARY_FOLDER):
            return path.suffix == ".py" or not path.exists()
        if is_test(path):
            return False
        chosen = (self._catalogue, self._project.root / user_variables.FILE)
        return path in chosen or any(path.is_relative_to(folder) for folder in self._stack.folders)


def affected(paths: Iterable[Path], chosen: Iterable[Function], folders: Iterable[Path]) -> list[Function]:
    """Return those of the chosen functions whose code has changed: in their folders, or in no function's folder."""
    owners = [[folder for folder in folders if path.is_relative_to(folder)] for path in paths]
    return [each for each in chosen if any(not owned or each.folder in owned for owned in owners)]


def _forget_bytecode(paths: Iterable[Path]) -> None:
    """Remove the bytecode of changed modules.

    Python recognizes a change by the second and the size. Bytecode that was written within the second of the last save
    would be loaded instead of the code.
    """
    for path in paths:
        if path.suffix == ".py":
            with contextlib.suppress(OSError):
                Path(cache_from_source(str(path))).unlink(missing_ok=True)


def _top(folder: Path, root: Path) -> Path:
    """Return the top folder around a function's folder.

    Fewer folders are then watched: each takes one of the few inotify instances.
    """
    return root / folder.relative_to(root).parts[0] if folder.is_relative_to(root) and folder != root else folder


def _named(paths: list[Path], root: Path) -> str:
    names = [str(path.relative_to(root) if path.is_relative_to(root) else path) for path in paths]
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
