"""A log that a test can read. Exceptions are also written to standard error, where pytest shows them with a failure."""

import sys
import traceback

from shared.core.rules.problems import Problem

Line = tuple[str, dict[str, object]]
"""A message and its values."""


class RecordedLog:
    """Log lines in order, by severity: `infos` and `errors`."""

    def __init__(self) -> None:
        self.infos: list[Line] = []
        self.errors: list[Line] = []

    def info(self, message: str, /, **values: object) -> None:
        self.infos.append((message, values))

    def error(self, message: str, /, **values: object) -> None:
        self.errors.append((message, values))
        exception = values.get("exception")
        if isinstance(exception, Exception) and not isinstance(exception, Problem):
            traceback.print_exception(exception, file=sys.stderr)
