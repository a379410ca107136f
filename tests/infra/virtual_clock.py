"""A clock that advances only when a caller waits: a deployment of an hour is tried in seconds."""

import shlex
import sys
import threading
from pathlib import Path

PROGRAM = """#!/bin/sh
exec {python} -IS -c 'import sys; open(sys.argv[1], "a").write(sys.argv[2] + "\\n")' {record} "$@"
"""


class VirtualClock:
    """Seconds since it was made. With a folder, a program `sleep` in it waits by this clock too."""

    def __init__(self, folder: Path | None = None) -> None:
        self._at = 0.0
        self._lock = threading.Lock()
        self._record = folder / "slept.txt" if folder else None
        if folder and self._record:
            self._record.touch()
            program = folder / "sleep"
            program.write_text(PROGRAM.format(python=shlex.quote(sys.executable), record=self._record))
            program.chmod(0o755)

    def now(self) -> float:
        slept = self._record.read_text().split() if self._record else []
        return self._at + sum(map(float, slept))

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._at += seconds
