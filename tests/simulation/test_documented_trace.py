"""The trace that docs/simulation.md explains is the one that its seed gives."""

import re
from pathlib import Path

from tests.simulation.__main__ import WORLDS

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
TRACE = re.compile(r"<!-- trace: (\w+) (\d+) -->\n```\n(.*?)```", re.DOTALL)


def test_every_documented_line_is_in_the_trace_of_its_seed_in_this_order() -> None:
    [(world, seed, documented)] = TRACE.findall(PAGE.read_text("utf-8"))
    lines: list[str] = []
    WORLDS[world](int(seed), lines.append)
    rest = iter([" ".join(line.split()) for line in lines])
    for line in documented.splitlines():
        begin = " ".join(line.split()).removesuffix("…").rstrip()
        assert any(one.startswith(begin) for one in rest), line


def test_the_page_names_the_seed_of_its_trace() -> None:
    assert f"--replay {TRACE.findall(PAGE.read_text('utf-8'))[0][1]}" in PAGE.read_text("utf-8")
