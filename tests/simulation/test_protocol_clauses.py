"""Every clause that a planted fault leaves out can be looked up in docs/protocols."""

import re
from pathlib import Path

import pytest

from tests.simulation.planted import FAULTS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "protocols"

HEADING = re.compile(r'^#+ +`?([\w-]+)|<a (?:id|name)="([\w-]+)"', re.MULTILINE)


def headings() -> set[str]:
    """Return the first word of every heading, and every anchor."""
    texts = [page.read_text("utf-8") for page in sorted(PAGES.glob("*.md"))]
    return {word or anchor for text in texts for word, anchor in HEADING.findall(text)}


@pytest.mark.parametrize("world", sorted(FAULTS))
def test_every_clause_of_a_planted_fault_has_its_heading(world: str) -> None:
    assert sorted({fault.clause for fault in FAULTS[world]} - headings()) == []
