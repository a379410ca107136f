"""The pages of the examples have one style, `examples/style.css`, since each is served by its own function."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
PAGES = sorted(path for path in EXAMPLES.glob("*/page.html"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.parent.name)
def test_a_page_has_the_common_style(path: Path) -> None:
    _, _, style = path.read_text("utf-8").partition("  /* examples/style.css */\n")
    assert style.partition("  /* this page */\n")[0] == (EXAMPLES / "style.css").read_text("utf-8")


def test_there_are_three() -> None:
    assert [path.parent.name for path in PAGES] == ["quilt", "social_code", "todos"]
