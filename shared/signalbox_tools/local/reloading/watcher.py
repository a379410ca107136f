"""Watch files and report changes. The operating system reports them, so waiting costs nothing (``watchdog``)."""

from collections.abc import Callable, Iterable
from pathlib import Path
from queue import Empty, SimpleQueue

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from signalbox_tools.local import user_variables
from signalbox_tools.local.kept_threads import kept_thread

QUIET_SECONDS = 0.08
"""A change is reported if no other follows for this time: an editor may save a file in several steps."""

CHANGES: list[type[FileSystemEvent]] = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]
"""The kernel is asked for these only. Each import of a module opens and closes a file, so a few processes that start at
once would fill the kernel's queue of 16,384 events. It then drops events, also those of changes.
"""
IGNORED_SUFFIXES = (".pyc", ".swp", ".swx", ".tmp", "~")


class Watcher(FileSystemEventHandler):
    """Calls `changed` with the paths that have changed, in a separate thread, one call at a time.

    Changes are noticed from `watch` on, and reported from `start` on. An exception of `changed` does not keep later
    changes from being reported.
    """

    def __init__(self, changed: Callable[[list[Path]], None]) -> None:
        self._changed = changed
        self._paths: SimpleQueue[Path | None] = SimpleQueue()
        self._observer = Observer()
        self._watched: set[Path] = set()
        self._trees: set[Path] = set()
        self._thread = kept_thread("watcher", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._observer.stop()
        self._paths.put(None)

    def watch(self, trees: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        """Watch folders, and `trees` with all subfolders. Skip folders that are watched or do not exist."""
        if not self._observer.is_alive():
            self._observer.start()
        for recursive, paths in ((True, trees), (False, folders)):
            for path in {each.resolve() for each in paths} - self._watched:
                if path.is_dir() and not any(path.is_relative_to(tree) for tree in self._trees):
                    self._observer.schedule(self, str(path), recursive=recursive, event_filter=CHANGES)
                    self._watched.add(path)
                    self._trees |= {path} if recursive else set()

    def on_any_event(self, event: FileSystemEvent) -> None:
        for name in (event.src_path, event.dest_path):
            path = Path(str(name))
            if name and not _ignored(path):
                self._paths.put(path)

    def _run(self) -> None:
        while paths := self._next_change():
            self._changed(paths)

    def _next_change(self) -> list[Path]:
        """Return the next changes, collected until a pause, or an empty list when stopped."""
        path, paths = self._paths.get(), set[Path]()
        while path is not None:
            paths.add(path)
            try:
                path = self._paths.get(timeout=QUIET_SECONDS)
            except Empty:
                return sorted(paths)
        return []


def _ignored(path: Path) -> bool:
    hidden = path.name.startswith(".") and path.name != user_variables.FILE
    return (
        hidden
        or "__pycache__" in (path.name, path.parent.name)
        or path.name.endswith(IGNORED_SUFFIXES)
        or path.name == "4913"
    )  # Vim's probe
