"""Each promise of SECURITY.md names a test that exists, and no promise is left without one."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"\| (?P<promise>[^|]+) \| `(?P<path>tests/[\w/]+\.py)::(?P<name>test_\w+)` \|")


def rows() -> list[str]:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    table = text.partition("## The test of each promise")[2].partition("\n## ")[0]
    return [line for line in table.splitlines() if line.startswith("|")][2:]


def test_each_promise_names_a_test_that_exists() -> None:
    found = [ROW.fullmatch(row) for row in rows()]
    assert len(found) > 30
    assert [row for row, match in zip(rows(), found, strict=True) if match is None] == []
    missing = [
        match["name"]
        for match in found
        if match and f"def {match['name']}(" not in (ROOT / match["path"]).read_text("utf-8")
    ]
    assert missing == []
