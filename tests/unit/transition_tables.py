"""Transition tables in docstrings, parsed so that a test can run each row.

A table has a line of column names, a line of dashes, and rows. Columns are separated by two spaces or more. Rows may be
grouped by blank lines. The table ends with the first line that is indented less, or with the next table.
"""

import re
from itertools import pairwise

Row = dict[str, str]


def tables(doc: str | None) -> list[list[Row]]:
    """Return the rows of each table, by column name. A row may omit its last columns."""
    lines = (doc or "").splitlines()
    heads = [number - 1 for number, line in enumerate(lines) if re.fullmatch(r" +-+( +-+)+", line)]
    return [_rows(lines[head:end]) for head, end in pairwise([*heads, len(lines)])]


def _rows(lines: list[str]) -> list[Row]:
    indent = len(lines[0]) - len(lines[0].lstrip())
    names = _cells(lines[0])
    rows: list[Row] = []
    for line in lines[2:]:
        if line and len(line) - len(line.lstrip()) < indent:
            break
        if line:
            rows.append(dict(zip(names, _cells(line), strict=False)))
    return rows


def _cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def values(cell: str) -> list[str]:
    """Return the values of a cell that lists several, separated by commas."""
    return cell.split(", ")
