"""The page of benchmarks has the figures of benches, each with its ratio, and its plot shows them."""

import re
from pathlib import Path

import pytest

from signalbox.catalogue.project import Project
from tests.bench import all_benches
from tests.bench.all_benches import BENCHES, PAGE, PLOT, plot, ratios_of, section, sections_of
from tests.bench.figures import Figure

ROOT = Project.find().root
ROW = re.compile(r"\| .+ \| (?P<value>[\d.,e+-]+) \S.* \| .+: (?P<anchor>[\d.,e+-]+) \| (?P<ratio>[\d.]+) \|")


def sections() -> dict[str, str]:
    return sections_of((ROOT / PAGE).read_text("utf-8"))


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_a_figure_is_read_from_the_line_that_a_bench_prints() -> None:
    figure = Figure("16 callers of one object", 201.5, "calls/s", "a bare loop", 250.0)
    assert Figure.from_line(f"{figure.line()}\n") == figure
    assert figure.ratio == pytest.approx(0.806)
    assert Figure.from_line("objects      16 callers      1 objects      201/s  x 0.81") is None


def test_a_section_has_the_ratio_of_each_figure() -> None:
    figure = Figure("a stack that does nothing", 0.5, "% of a core", "one core", 100)
    assert ratios_of(section("idle", [figure], "today")) == [("a stack that does nothing", 0.01)]


def test_the_figures_of_a_bench_whose_bar_does_not_hold_are_on_the_page_and_the_exit_code_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(all_benches, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(all_benches, "PLOT", tmp_path / "plot.svg")
    line = Figure("a stack that does nothing", 0.5, "% of a core", "one core", 100).line()
    codes = {"idle": f"print({line!r}); raise SystemExit(1)", "objects": "raise SystemExit(2)"}
    for title, code in codes.items():
        monkeypatch.setitem(BENCHES, title, ("timeit", "-n1", "-r1", code))
    monkeypatch.setattr("sys.argv", ["all_benches", "--only", "objects", "idle"])
    assert all_benches.main() == 1
    page = sections_of((tmp_path / "page.md").read_text("utf-8"))
    assert {title: ratios_of(text) for title, text in page.items()} == {"idle": [("a stack that does nothing", 0.01)]}
    assert "failed, or a bar does not hold: objects, idle" in capsys.readouterr().out


def test_the_sections_of_the_page_are_those_of_benches_in_their_order() -> None:
    assert list(sections()) == [title for title in BENCHES if title in sections()] != []


@pytest.mark.parametrize("title", sections())
def test_each_row_has_a_value_an_anchor_and_their_ratio(title: str) -> None:
    text = sections()[title]
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert rows
    for row in rows:
        found = ROW.fullmatch(row)
        assert found, row
        ratio = number(found["value"]) / number(found["anchor"])
        assert number(found["ratio"]) == pytest.approx(ratio, abs=0.01, rel=0.01)
    assert f"`python -m {' '.join(BENCHES[title])}`, 20" in text


def test_the_plot_shows_the_rows_of_the_page() -> None:
    assert (ROOT / PLOT).read_text("utf-8") == plot(sections())
