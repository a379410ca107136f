"""Follow the logs of a stack's services while they grow."""

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from signalbox_tools.local.kept_threads import kept_thread

POLL_SECONDS = 0.1
POLL_SECONDS_QUIET = 0.5
"""The pause after `QUIET_READS` reads without a new line, since an idle stack should cost nothing."""

QUIET_READS = 20
BYTES_AT_ONCE = 2**20
CUT = " … (a line of more than 1 MiB, whole in the log)"
SHOWN_OF_A_LONG_LINE = 1_000


class LogFollower:
    """Calls `show` with all lines that are new since the last call. A line comes with the name of its service."""

    def __init__(
        self, files: Sequence[Path], show: Callable[[Iterable[tuple[str, str]]], None], from_end: bool = False
    ) -> None:
        self._offsets = {file: file.stat().st_size if from_end else 0 for file in files}
        self._in_a_long_line = dict.fromkeys(files, False)
        self._show = show
        self._stopping = threading.Event()
        self._thread = kept_thread("logs", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Show the lines that were written so far, and end."""
        self._stopping.set()
        self._thread.join()
        self.read()

    def read(self) -> bool:
        """Show the new lines; return whether there are any."""
        lines = [(file.stem, line) for file in self._offsets for line in self._new_lines(file)]
        if lines:
            self._show(lines)
        return bool(lines)

    def _run(self) -> None:
        quiet_reads = 0
        while not self._stopping.wait(POLL_SECONDS if quiet_reads < QUIET_READS else POLL_SECONDS_QUIET):
            quiet_reads = 0 if self.read() else quiet_reads + 1

    def _new_lines(self, file: Path) -> list[str]:
        try:
            if file.stat().st_size <= self._offsets[file]:
                return []
            with file.open("rb") as log:
                log.seek(self._offsets[file])
                read = log.read(BYTES_AT_ONCE)
        except OSError:
            return []
        whole, end, _ = read.rpartition(b"\n")
        if not end:
            return self._begun(file, read) if len(read) == BYTES_AT_ONCE else []
        self._offsets[file] += len(whole) + 1
        lines = whole.decode("utf-8", "replace").split("\n")
        rest_of_a_long_line, self._in_a_long_line[file] = self._in_a_long_line[file], False
        return lines[1:] if rest_of_a_long_line else lines

    def _begun(self, file: Path, read: bytes) -> list[str]:
        """Skip a part of a line that is longer than a read; return the line's first characters, once."""
        self._offsets[file] += len(read)
        was_begun, self._in_a_long_line[file] = self._in_a_long_line[file], True
        return [] if was_begun else [read[:SHOWN_OF_A_LONG_LINE].decode("utf-8", "replace") + CUT]
