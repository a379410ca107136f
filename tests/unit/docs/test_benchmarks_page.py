"""The page of benchmarks has the figures of benches, each with its ratio, and its plot shows them."""

import re
from pathlib import Path

import pytest

from signalbox.catalogue.project import Project
from tests.bench import all_benches
from tests.bench.all_benches import BENCHES, PAGE, PLOT, plot, ratios_of, section, sections_of
from tests.bench.figures import CHECK_FAILED, Figure

ROOT = Project.find().root
ROW = re.compile(r"\| .+ \| (?P<value>[\d.,e+-]+) \S.* \| .+: (?P<anchor>[\d.,e+-]+) \| (?P<ratio>[\d.]+) \|")
IDLE = Figure("a stack that does nothing", 0.5, "% of a core", "one core", 100)
IDLE_ROWS = [("a stack that does nothing, on a file", 0.01), ("a stack that does nothing, on Google's emulator", 0.01)]


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
    assert ratios_of(section("idle", [IDLE], "today")) == [("a stack that does nothing", 0.01)]


@pytest.mark.parametrize(
    ("figures", "bench_exit_code", "is_new", "exit_code"),
    [
        ([IDLE], 0, True, 0),
        ([IDLE], CHECK_FAILED, True, 1),
        ([IDLE], 1, False, 1),
        ([], 0, False, 1),
        ([], 2, False, 1),
    ],
)
def test_only_a_bench_that_printed_figures_and_did_not_crash_replaces_its_section(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    figures: list[Figure],
    bench_exit_code: int,
    is_new: bool,
    exit_code: int,
) -> None:
    page, old = tmp_path / "page.md", Figure("old", 1, "/s", "older", 2)
    page.write_text("\n".join(section(title, [old], "before") for title in ("flows", "idle")), "utf-8")
    monkeypatch.setattr(all_benches, "PAGE", page)
    monkeypatch.setattr(all_benches, "PLOT", tmp_path / "plot.svg")
    monkeypatch.setattr(all_benches, "run", lambda *_: (figures, bench_exit_code))
    monkeypatch.setattr("sys.argv", ["all_benches", "--only", "idle"])
    assert all_benches.main() == exit_code
    rows = {title: ratios_of(text) for title, text in sections_of(page.read_text("utf-8")).items()}
    assert rows == {"flows": [("old", 0.5)], "idle": IDLE_ROWS if is_new else [("old", 0.5)]}
    assert ("does not hold: idle" in capsys.readouterr().out) == bool(exit_code)


def test_the_page_is_written_after_each_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(all_benches, "PAGE", page)
    monkeypatch.setattr(all_benches, "PLOT", tmp_path / "plot.svg")
    page_existed: list[bool] = []

    def run(*_: object) -> tuple[list[Figure], int]:
        page_existed.append(page.exists())
        return [IDLE], 0

    monkeypatch.setattr(all_benches, "run", run)
    monkeypatch.setattr("sys.argv", ["all_benches", "--only", "objects", "idle"])
    assert all_benches.main() == 0
    assert page_existed == [False, False, True, True], "each bench runs on two stores"


def test_the_row_of_several_runs_is_that_of_the_median_ratio_and_has_the_spread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []
    values = iter((3.0, 30.0, 1.0, 10.0, 2.0, 20.0))

    def run(_: object, store: str) -> tuple[list[Figure], int]:
        ran.append(store)
        return [Figure("calls", next(values), "calls/s", "bare", 2.0)], CHECK_FAILED if len(ran) == 2 else 0

    monkeypatch.setattr(all_benches, "run", run)
    figures, code = all_benches.run_on(["sqlite", "emulator"], 3, ["a bench"])
    assert ran == ["sqlite", "emulator"] * 3
    assert figures == [
        Figure("calls, on a file", 2.0, "calls/s (ratio 0.50 to 1.50)", "bare", 2.0),
        Figure("calls, on Google's emulator", 20.0, "calls/s (ratio 5.00 to 15.00)", "bare", 2.0),
    ]
    assert code == CHECK_FAILED
    assert ratios_of(section("idle", figures, "today")) == [
        ("calls, on a file", 1),
        ("calls, on Google's emulator", 10),
    ]


def test_each_bench_has_numbers_that_are_small() -> None:
    assert all_benches.SMALL.keys() == BENCHES.keys()


def test_a_run_returns_the_figures_and_the_exit_code_of_a_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "benches.py").write_text(f"import sys\nprint('a table')\nprint({IDLE.line()!r})\nsys.exit(2)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert all_benches.run(["benches"]) == ([IDLE], 2)


def test_the_sections_of_the_page_are_those_of_benches_in_their_order() -> None:
    assert list(sections()) == list(BENCHES)


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
