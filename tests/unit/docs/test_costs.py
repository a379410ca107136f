"""Each row of docs/costs.yaml is asserted by a test of costs."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.unit.cost_table import ROWS

TESTS = Path(__file__).parents[1]
ASSERTING = {"row_cost", "is_within"}


def asserted(path: Path) -> Iterator[tuple[str, str]]:
    """Iterate over the rows that the tests of a file name, by subject."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASSERTING:
            subject, *rows = [
                each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
            yield from ((subject, row) for row in rows)


def test_every_row_of_the_table_of_costs_is_asserted_by_a_test() -> None:
    named = {row for path in TESTS.rglob("test_*.py") if path != Path(__file__) for row in asserted(path)}
    assert named == {(subject, row) for subject, rows in ROWS.items() for row in rows}
