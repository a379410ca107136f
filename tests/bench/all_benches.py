"""Run all benches and write what they measured to `docs/benchmarks.md`, with a plot: ``make bench``.

python -m tests.bench.all_benches --only objects flows --stores sqlite --runs 3

A bench with a local stack runs on each store. Each runs in its own process, one after another, on a machine that should
do nothing else. With several runs, the stores take turns, and a row is that of the run with the median ratio. The page
is written after each bench. A bench that is not run, crashes or prints no figures keeps its old section. The exit code
is 1 if a bench crashed, printed no figures, or has a check that does not hold. A bench with such a check gets a new
section all the same. `--small` runs each bench on numbers that are too small to mean anything, and writes no page.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from math import log10
from pathlib import Path

from signalbox.catalogue.project import Project
from tests.bench.figures import CHECK_FAILED, Figure

BENCHES: Mapping[str, tuple[str, ...]] = {
    "documents": ("tests.bench.documents", "--copies", "5000"),
    "standings": ("tests.bench.standings", "--yokes", "1000"),
    "semaphores": ("tests.bench.semaphores", "--pairs", "1000"),
    "objects": ("tests.bench.objects", "--calls", "1000", "--waiting", "2000"),
    "flows": ("tests.bench.flows", "--steps", "300", "--rounds", "3", "--flows", "300", "--flow-steps", "10"),
    "flows at once": ("tests.bench.flows", "--steps", "30", "--rounds", "1", "--flows", "1000", "--flow-steps", "10"),
    "batches": ("tests.bench.batches", "--sizes", "1000", "5000", "--per-task", "20", "--rivals", "1000"),
    "watchers": ("tests.bench.watchers", "--rounds", "3"),
    "cold starts": ("tests.bench.cold_start", "documents", "semaphore_wait", "batches", "shop", "--pairs", "7"),
    "idle": ("tests.bench.idle_stack",),
}
"""The benches by the title of their section, with the module and its arguments."""

SMALL: Mapping[str, tuple[str, ...]] = {
    "documents": ("--copies", "20", "--calls", "10"),
    "standings": ("--yokes", "20", "--board", "50"),
    "semaphores": ("--pairs", "20", "--clients", "4"),
    "objects": ("--calls", "20", "--waiting", "20"),
    "flows": ("--steps", "5", "--rounds", "1", "--flows", "5", "--flow-steps", "2", "--width", "5", "--no-rivals"),
    "flows at once": ("--steps", "5", "--rounds", "1", "--flows", "5", "--flow-steps", "2", "--no-rivals"),
    "batches": ("--sizes", "20", "40", "--per-task", "5"),
    "watchers": ("--streams", "0", "2", "--rounds", "1"),
    "cold starts": ("documents", "--pairs", "1"),
    "idle": ("1",),
}
"""The arguments of `--small`, which runs no other system that would have to be installed first."""

STORES: Mapping[str, str] = {"sqlite": "a file", "emulator": "Google's emulator"}
ONCE = frozenset({"cold starts"})
"""The benches without a local stack."""

PAGE, PLOT = Path("docs/benchmarks.md"), Path("docs/benchmarks.svg")
PACKAGES = ("google-cloud-firestore", "google-cloud-tasks", "functions-framework", "flask")

INTRODUCTION = """# Benchmarks

`make bench` runs all benches on your machine and writes this page. A machine's figures cannot be compared with
those of the cloud, where a round trip takes longer and instances are added. So each row has the ratio of a figure to an
*anchor* that was measured in the same run: bare calls of the client, a bare function, another system, or the kit with
another setting. If the unit ends in `/s`, a higher ratio is better; otherwise a lower one. Each section says
when and with which versions it was measured: compare values only within a section. No test requires a figure to reach a
value.

![Ratios](benchmarks.svg)

The compared systems differ in durability. With their settings in these benchmarks, acknowledged writes survive:

| | the death of the processes | a power cut |
| --- | --- | --- |
| the kit on its store in a file | yes | not the last commits; with `--synchronous FULL`, yes |
| the kit on Google's emulator | tasks, not documents | not the last tasks |
| DBOS on SQLite or PostgreSQL | yes | yes |
| Restate, which syncs its log | yes | yes |
| Celery on Redis, which syncs its file each second | yes | not the last second |
| durabletask, in memory | no | no |
"""
COLUMNS = "| what | measured | anchor | ratio |\n| --- | --- | --- | --- |\n"


def machine() -> str:
    """Return the line that says what was measured where."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    cores = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"
    return f"{datetime.now(UTC):%Y-%m-%d}; {cores}; Python {platform.python_version()}; {packages}."


def run_on(stores: Sequence[str], runs: int, arguments: Sequence[str]) -> tuple[list[Figure], int]:
    """Run a bench `runs` times on each store in turn; return its figures and the worst exit code."""
    found: dict[str, dict[str, list[Figure]]] = {store: {} for store in stores}
    codes = []
    for _ in range(runs):
        for store in stores:
            figures, code = run(arguments, store)
            codes.append(code)
            for figure in figures:
                found[store].setdefault(f"{figure.what} | {figure.anchor}", []).append(figure)
    return [_median(store, figures) for store in stores for figures in found[store].values()], _worst(codes)


def _worst(codes: Sequence[int]) -> int:
    """Return the exit code of a crash, else that of a check that does not hold, else 0."""
    return next((code for code in codes if code not in (0, CHECK_FAILED)), CHECK_FAILED if any(codes) else 0)


def _median(store: str, figures: Sequence[Figure]) -> Figure:
    """Return the figure with the median ratio, with its store, and with the least and the greatest ratio."""
    ordered = sorted(figures, key=lambda figure: figure.ratio)
    least, median, greatest = ordered[0], ordered[(len(ordered) - 1) // 2], ordered[-1]
    what = f"{median.what}, on {STORES[store]}" if store in STORES else median.what
    spread = f" (ratio {least.ratio:.2f} to {greatest.ratio:.2f})" if len(figures) > 1 else ""
    return replace(median, what=what, unit=f"{median.unit}{spread}")


def run(arguments: Sequence[str], store: str = "") -> tuple[list[Figure], int]:
    """Run a bench on a store and print its output; return its figures and its exit code."""
    command = [sys.executable, "-m", *arguments]
    figures = []
    environment = os.environ | ({"STORE": store} if store else {})
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Project.find().root, env=environment
    ) as process:
        assert process.stdout is not None, "it is a pipe"
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if figure := Figure.from_line(line):
                figures.append(figure)
    return figures, process.returncode


def section(title: str, figures: Sequence[Figure], measured: str) -> str:
    """Return a section of the page."""
    module, *arguments = BENCHES[title]
    command = f"`python -m {' '.join([module, *arguments])}`"
    return f"## {title.capitalize()}\n\n{command}, {measured}\n\n{COLUMNS}{''.join(map(_row, figures))}"


def _row(figure: Figure) -> str:
    anchor = f"{figure.anchor}: {figure.anchor_value:,.4g}"
    return f"| {figure.what} | {figure.value:,.4g} {figure.unit} | {anchor} | {figure.ratio:.2f} |\n"


def sections_of(page: str) -> dict[str, str]:
    """Return the sections of a page by their titles."""
    parts = re.split(r"(?m)^## ", page)[1:]
    return {part.partition("\n")[0].lower(): f"## {part.rstrip()}\n" for part in parts}


def ratios_of(section_text: str) -> list[tuple[str, float]]:
    """Return the rows of a section: what was measured, and its ratio."""
    rows = [line.split(" | ") for line in section_text.splitlines() if line.startswith("| ")][2:]
    return [(row[0].removeprefix("| "), float(row[3].removesuffix(" |"))) for row in rows]


# --- the plot ---

ROW, LEFT, WIDE, RIGHT = 20, 400, 360, 60
DECADES = 2
"""The axis ends at this power of ten of the anchor's value, in both directions."""


def plot(sections: Mapping[str, str]) -> str:
    """Return an SVG with a bar for each ratio, on a logarithmic axis on which the anchor is 1."""
    rows = [(title, what, ratio) for title, text in sections.items() for what, ratio in ratios_of(text)]
    height = ROW * (len(rows) + 2)
    size = f'width="{LEFT + WIDE + RIGHT}" height="{height}"'
    drawn = "\n".join([*_axis(height), *(_bar(place, *row) for place, row in enumerate(rows))])
    style = "text{font:12px sans-serif;fill:#57606a}rect{fill:#0969da}line{stroke:#afb8c1}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{style}</style>\n{drawn}\n</svg>\n'


def _axis(height: int) -> Iterator[str]:
    for power in range(-DECADES, DECADES + 1):
        at = _place(10.0**power)
        yield f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{ROW}" y2="{height}"/>'
        yield f'<text x="{at:.0f}" y="{ROW - 6}" text-anchor="middle">{10.0**power:g}</text>'


def _bar(place: int, title: str, what: str, ratio: float) -> str:
    from_, to = sorted((_place(1), _place(ratio)))
    top = ROW * (place + 1) + 4
    name = f'<text x="{LEFT - 8}" y="{top + 11}" text-anchor="end">{_escaped(f"{title}: {what}")}</text>'
    bar = f'<rect x="{from_:.1f}" y="{top}" width="{max(1, to - from_):.1f}" height="{ROW - 6}"/>'
    return f'{name}{bar}<text x="{LEFT + WIDE + 6}" y="{top + 11}">{ratio:.2f}</text>'


def _place(ratio: float) -> float:
    share = (log10(max(ratio, 10.0**-DECADES)) + DECADES) / (2 * DECADES)
    return LEFT + WIDE * min(1.0, share)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.all_benches", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", nargs="+", choices=BENCHES, default=[*BENCHES], metavar="BENCH")
    parser.add_argument("--stores", nargs="+", choices=STORES, default=[*STORES], metavar="STORE")
    parser.add_argument("--runs", type=int, default=1, help="of each bench on each store (default: %(default)s)")
    parser.add_argument("--small", action="store_true", help="run on tiny numbers, and write no page")
    chosen = parser.parse_args()
    root = Project.find().root
    sections = sections_of((root / PAGE).read_text("utf-8")) if (root / PAGE).exists() else {}
    failed = []
    for title in chosen.only:
        stores = ("",) if title in ONCE else chosen.stores
        module, *arguments = BENCHES[title]
        figures, code = run_on(stores, chosen.runs, (module, *(SMALL[title] if chosen.small else arguments)))
        if code or not (figures or chosen.small):
            failed.append(title)
        if chosen.small:
            continue
        if figures and code in (0, CHECK_FAILED):
            sections[title] = section(title, figures, machine())
        ordered = {title: sections[title] for title in BENCHES if title in sections}
        (root / PAGE).write_text("\n".join([INTRODUCTION, *ordered.values()]), "utf-8")
        (root / PLOT).write_text(plot(ordered), "utf-8")
    if failed:
        what = "These benches crashed, printed no figures, or have a check that does not hold"
        sys.stdout.write(f"{what}: {', '.join(failed)}. See their output above.\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
