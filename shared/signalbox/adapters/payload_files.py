"""Payloads in files of a folder, for the local stack.

A file has the owner in its first line, then the content. It has its name only once it is complete, so a process that is
killed leaves no part of it under that name.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from os import fsync, walk
from pathlib import Path
from uuid import uuid4

from signalbox.core.ports import StoredPayload
from signalbox.core.problems import Unavailable

PART = ".part"


class FilePayloads:
    """A `PayloadStore` in a folder. A key is the path of a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, key: str, content: bytes, owner: str) -> None:
        file = self._folder / key
        if file.exists():
            return
        part = file.with_name(f"{uuid4().hex}{PART}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # for no other user of the machine
            part.parent.mkdir(parents=True, exist_ok=True)
            with part.open("xb") as stream:
                stream.write(json.dumps(owner).encode() + b"\n" + content)
                stream.flush()
                fsync(stream.fileno())
            part.replace(file)
        except OSError as error:  # its folder was removed meanwhile, or the disk is full
            raise Unavailable(str(error)) from error
        finally:
            part.unlink(missing_ok=True)

    def read(self, key: str) -> bytes | None:
        try:
            return (self._folder / key).read_bytes().partition(b"\n")[2]
        except FileNotFoundError:
            return None

    def copy(self, source: str, target: str, owner: str) -> bool:
        content = self.read(source)
        if content is None:
            return False
        self.create(target, content, owner)
        return True

    def list(self, prefix: str, after: str, limit: int) -> Sequence[StoredPayload]:
        keys = sorted(key for key in self._keys(prefix) if key.startswith(prefix) and key > after)
        return [found for key in keys[:limit] if (found := self._listed(key))]

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            file = self._folder / key
            file.unlink(missing_ok=True)
            for folder in list(file.relative_to(self._folder).parents)[:-1]:
                with suppress(OSError):  # it has other files
                    (self._folder / folder).rmdir()

    def _keys(self, prefix: str) -> Iterator[str]:
        below = self._folder / prefix.rpartition("/")[0]
        for folder, _, names in walk(below):  # it skips folders that are removed meanwhile
            for name in names:
                if not name.endswith(PART):
                    yield (Path(folder) / name).relative_to(self._folder).as_posix()

    def _listed(self, key: str) -> StoredPayload | None:
        file = self._folder / key
        try:
            with file.open("rb") as stream:
                owner = json.loads(stream.readline())
            return StoredPayload(key, owner, datetime.fromtimestamp(file.stat().st_mtime, UTC))
        except FileNotFoundError:  # it was deleted meanwhile
            return None
