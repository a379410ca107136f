"""Parse the transition tables in the docstrings of the machine's parts."""

import re
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: three columns, and the columns after those."""

    command: str
    state: str
    condition: str
    outcome: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.command}, {self.state}, {self.condition}: {' '.join(self.outcome)}"


def rows_of(module: ModuleType, *commands: str) -> list[Row]:
    """Return the rows of a module's tables that begin with one of these words, with columns two spaces apart.

    Fails if a word begins no row, so that a table cannot lose its tests.
    """
    rows = []
    for line in (module.__doc__ or "").splitlines():
        command, *columns = re.split(r"\s{2,}", line.strip())
        if line.startswith("    ") and command in commands and len(columns) >= 3:
            rows.append(Row(command, columns[0], columns[1], tuple(columns[2:])))
    assert {row.command for row in rows} == set(commands), "a table lacks rows"
    return rows
