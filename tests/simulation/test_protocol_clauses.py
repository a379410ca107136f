"""Every clause that a planted fault leaves out has its heading in docs/protocols, and every fault point exists."""

from itertools import chain
from pathlib import Path

import pytest

from signalbox_tools.setup.generated_pages import PROTOCOLS, clauses
from tests.simulation.faults import points
from tests.simulation.faults.points import FAULT_POINTS, place
from tests.simulation.planted import FAULTS


@pytest.mark.parametrize("world", sorted(FAULTS))
def test_every_clause_of_a_planted_fault_has_its_heading(world: str) -> None:
    headings = set(chain.from_iterable(map(clauses, PROTOCOLS)))
    assert sorted({fault.clause for fault in FAULTS[world]} - headings) == []


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_every_fault_point_exists_in_the_library(point: str) -> None:
    owner, name = place(point)
    assert hasattr(owner, name)


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_no_fault_point_names_a_private_function_or_class(point: str) -> None:
    """A rename or an inlined helper then changes no fault: a clause that is broken alone has a name of the library."""
    attribute = FAULT_POINTS[point].partition(":")[2]
    private = [name for name in attribute.split(".") if name.startswith("_") and not name.endswith("__")]
    assert private == []


def test_every_fault_point_is_named_by_a_fault() -> None:
    sources = [path for path in Path(points.__file__).parent.rglob("*.py") if path.name != "points.py"]
    text = "".join(path.read_text("utf-8") for path in sources)
    assert [point for point in FAULT_POINTS if f'"{point}"' not in text] == []
