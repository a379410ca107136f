"""A log for tests that keeps its lines."""

import sys
import traceback

from signalbox.adapters import tracing
from signalbox.core.effects import RecordedSpan
from signalbox.core.problems import Problem

Line = tuple[str, dict[str, object]]
"""A message and its values."""


class RecordedLog:
    """A log that a test can read: its lines in order, in `infos`, `warnings` and `errors`.

    `notes` are the durations of requests.

    Exceptions are also written to standard error, where pytest shows them with a failure.
    """

    def __init__(self) -> None:
        self.infos: list[Line] = []
        self.warnings: list[Line] = []
        self.errors: list[Line] = []
        self.notes: list[dict[str, float]] = []
        self.spans: list[RecordedSpan] = []

    def note(self, **seconds: float) -> None:
        self.notes.append(seconds)

    def span(self, recorded: RecordedSpan) -> None:
        self.spans.append(recorded)
        tracing.record(recorded)

    def info(self, message: str, /, **values: object) -> None:
        self.infos.append((message, values))

    def warning(self, message: str, /, **values: object) -> None:
        self.warnings.append((message, values))

    def error(self, message: str, /, **values: object) -> None:
        self.errors.append((message, values))
        exception = values.get("exception")
        if isinstance(exception, Exception) and not isinstance(exception, Problem):
            traceback.print_exception(exception, file=sys.stderr)
