"""Sum up the functions' log: one JSON line for each handled call, with its reads, writes and tasks."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from threading import Lock

from signalbox_tools.local.logs.log_entries import entry_of

SUMMED = ("reads", "writes", "deletes", "round_trips", "tasks")


class LogStats:
    """Reads a growing log file; every line is counted once. Other lines are ignored.

    `functions` names the functions whose calls count. None means all.
    """

    def __init__(self, log_file: Path, functions: Collection[str] | None = None) -> None:
        self._log_file = log_file
        self._functions = functions
        self._offset = 0
        self._sums: Counter[str] = Counter({"calls": 0, **dict.fromkeys(SUMMED, 0)})
        self._lock = Lock()

    def sums(self) -> dict[str, int]:
        """Return the sums of `SUMMED` over all calls so far, and the number of `calls`."""
        with self._lock:
            for line in self._new_lines():
                self._count(line)
            return dict(self._sums)

    def _new_lines(self) -> Iterator[bytes]:
        if not self._log_file.exists():
            return
        with self._log_file.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # the rest is still to come
                self._offset += len(line)
                yield line

    def _count(self, line: bytes) -> None:
        said = _object(line)
        if said.get("message") != "handled" or (self._functions and said.get("function") not in self._functions):
            return
        self._sums["calls"] += 1
        for name in SUMMED:
            if isinstance(value := said.get(name), int):
                self._sums[name] += value


def _object(line: bytes) -> Mapping[str, object]:
    if b'"handled"' not in line:  # most lines are of another kind: do not parse them
        return {}
    return entry_of(line) or {}
