"""The protocol page of batches names every planted fault under its clause, and places that exist in the code."""

import re
from pathlib import Path

import pytest

from tests.simulation.planted import FAULTS

ROOT = Path(__file__).parents[2]
CODE = ROOT / "shared/signalbox/batches"
SECTIONS = (ROOT / "docs/protocols/batches.md").read_text("utf-8").split("\n## ")[1:]
CLAUSES = [section for section in SECTIONS if not section.startswith("Planted faults")]
"""The sections of the page, one for each clause, each with its number as its first word."""


def unwrapped(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_the_page_names_each_planted_fault_under_its_clause() -> None:
    named = {
        (clause.split()[0], fault)
        for clause in CLAUSES
        for faults in re.findall(r"\(faults?: ([^)]*)\)", unwrapped(clause))
        for fault in re.findall(r'"([^"]+)"', faults)
    }
    assert named == {
        (fault.clause, fault.without) for world in ("batches", "grouped_batches", "watch") for fault in FAULTS[world]
    }


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.split()[0])
def test_every_clause_names_code_that_exists(clause: str) -> None:
    _, _, places = unwrapped(clause).rpartition("Code: ")
    paths = re.findall(r"`([\w/]+\.py)`(?: \(([^)]*)\))?", places)
    assert paths
    for path, names in paths:
        text = (ROOT / path if path.startswith(("shared/", "tests/")) else CODE / path).read_text("utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE), f"{path}: {name}"
