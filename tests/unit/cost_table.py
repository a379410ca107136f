"""The rows of docs/costs.yaml: what operations cost. Tests of costs assert them; docs/reference/costs.md shows them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from signalbox.adapters.cost_meter import Cost
from tests.yaml_files import read_yaml

FIGURES = ("round_trips", "reads", "writes", "deletes", "tasks")
ROWS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    part["subject"]: part["rows"] for part in read_yaml(Path(__file__).parents[2] / "docs" / "costs.yaml")
}


def row_cost(subject: str, row: str, *added: str, **variables: int) -> Cost:
    """Return the cost of a row for values of its variables, with those of the rows that are `added` to it."""
    figures = [_figures(subject, name, variables) for name in (row, *added)]
    return Cost(**{name: sum(each[name] for each in figures) for name in FIGURES})


def _figures(subject: str, row: str, variables: Mapping[str, int]) -> Mapping[str, int]:
    figures = {name: str(ROWS[subject][row].get(name, 0)) for name in FIGURES}
    return {
        name: eval(figure, {"max": max, "min": min}, dict(variables))  # noqa: S307  an expression of the project's own table
        for name, figure in figures.items()
    }


def is_within(subject: str, row: str, cost: Any, operations: int) -> bool:
    """Return whether an operation's average cost is within a row of bounds; a figure without a bound is exact.

    `cost` has the figures as attributes. Those that the row leaves out, or marks with "-", are not bounded.
    """
    bounds = {name: str(figure) for name, figure in ROWS[subject][row].items() if name in FIGURES and figure != "-"}
    averages = {name: getattr(cost, name) / operations for name in bounds}
    return all(
        averages[name] < float(bound.removeprefix("<")) if bound.startswith("<") else averages[name] == float(bound)
        for name, bound in bounds.items()
    )


def total(*costs: Cost) -> Cost:
    """Return the sum of costs."""
    return Cost(**{name: sum(getattr(cost, name) for cost in costs) for name in FIGURES})
