"""The page of a protocol names every planted fault under its clause, and places that are there."""

import re
from pathlib import Path

from tests.simulation.faults_semaphores import FAULTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/protocols/semaphores.md"


def test_the_semaphores_page_names_each_planted_fault_under_its_clause() -> None:
    sections = PAGE.read_text().split("\n## ")[1:]
    named = {
        (re.split(r"[ :]", section)[0], fault)
        for section in sections
        for fault in re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    }
    assert named == {(fault.clause, fault.without.replace("`", "")) for fault in FAULTS}


def test_the_semaphores_page_names_places_that_are_there() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if ".py`: " in line]
    for place in (place for row in rows for place in row.split("|")[2].split("; ")):
        path, *names = re.findall(r"`([\w./]+)`", place)
        found = ROOT / path if path.startswith("shared/") else ROOT / "shared/semaphores" / path
        assert names
        for name in names:
            assert re.search(rf"\b(def|class) {name.split('.')[-1]}\b", found.read_text()), place
