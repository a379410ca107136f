"""Refuse a second local stack in a folder: it would delete the first one's databases and logs.

The operating system holds the lock (``flock``): it ends with the process that holds it, however the process ends.
The file contains the process's id, for the message, and is not deleted.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

LOCK_FILE = "stack.lock"


class FolderInUse(Exception):
    """Another process holds the folder. The message names it."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is created if necessary. Raises `FolderInUse` if another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            process = (folder / LOCK_FILE).read_text("utf-8").strip() or "unknown"
            raise FolderInUse(
                f"Another local stack (process {process}) uses {folder}. End it, or start this one in another folder."
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
