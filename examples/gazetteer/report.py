"""Show the job on a terminal or in a log: bars while it runs, a line a step, a table and the price at the end."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples.gazetteer.cost import Counts, Spent
from examples.gazetteer.job import OnProgress, Phase, Result
from examples.gazetteer.steps import Step

LOG_COLUMNS = 150
"""The width of a table without a terminal (as in the log of CI)."""

SECONDS_SHOWN_MIN = 0.05

VERBS: dict[Phase, str] = {
    "write": "writing",
    "follow": "copies follow",
    "query": "querying",
    "read": "reading back",
}


def console() -> Console:
    """Make the console: as wide as the terminal, or `LOG_COLUMNS`.

    Characters that it cannot show become question marks.
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    width = None if sys.stdout.isatty() else LOG_COLUMNS
    return Console(width=width, highlight=False)


@contextmanager
def progress_bars(console: Console) -> Iterator[OnProgress]:
    """Yield a callback that shows the current step as a bar, or nothing without a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", visible=False)
        yield partial(_show, progress, bar)


def _show(progress: Progress, bar: TaskID, step: Step, phase: Phase, done: int, total: int) -> None:
    progress.update(bar, description=f"{step.name}: {VERBS[phase]}", completed=done, total=total, visible=True)


def line(result: Result) -> str:
    """Return one line of rich's markup: how a step went."""
    how = "[red]FAILED[/red]" if result.faults else "[green]ok[/green]"
    followed = f", {result.copies:,} copies followed" if result.step.changes else ""
    seconds = f"{result.changing.seconds + result.checking.seconds:.1f} s"
    checked = f"{len(result.checks):,} checks on {result.compared:,} documents"
    return f"{how} {escape(result.step.name)}: {escape(result.step.summary)}{followed}; {checked}, {seconds}"


def faults(results: Sequence[Result]) -> list[str]:
    """Return a line for every check that did not hold."""
    return [f"{result.step.name}: {fault.sentence}: {fault.fault}" for result in results for fault in result.faults]


def table(results: Sequence[Result]) -> Table:
    """Return the table: the changes and the cost of each step, the cost of all checks, and totals."""
    drawn = Table(
        title="What was done, checked and counted",
        title_justify="left",
        caption=_caption(results),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    drawn.add_column("step", no_wrap=True)
    for name in ("written", "copies", "checked", "reads", "writes", "deletes", "tasks", "events", "seconds"):
        drawn.add_column(name, justify="right")
    for result in results:
        drawn.add_row(result.step.name, *_own(result), *_spent(result.changing))
    checking = sum((result.checking for result in results), Spent())
    drawn.add_row("all the checking", "", "", "", *_spent(checking), end_section=True)
    written, copies, checked = (sum(column) for column in zip(*map(_numbers, results), strict=True))
    drawn.add_row("total", *_texts(written, copies, checked), *_spent(_total(results)), style="bold")
    return drawn


def _caption(results: Sequence[Result]) -> str:
    return (
        "written: documents put or deleted by the job; copies: documents that had to follow; checked: comparisons\n"
        + _price(_total(results).counts)
    )


def _price(counts: Counts) -> str:
    if counts == Counts():
        return "The costs are not visible from here: the functions log them, a line a call."
    listed = "Estimated at list prices (Firestore multi-region, Cloud Tasks; no free tier, no computing)"
    return f"{listed}: {100 * counts.price_dollars:.2f} US cents"


def _total(results: Sequence[Result]) -> Spent:
    return sum((result.changing + result.checking for result in results), Spent())


def _numbers(result: Result) -> tuple[int, int, int]:
    return len(result.step.changes), result.copies, result.compared


def _own(result: Result) -> tuple[str, ...]:
    return _texts(*_numbers(result))


def _spent(spent: Spent) -> tuple[str, ...]:
    counts = spent.counts
    counted = _texts(counts.reads, counts.writes, counts.deletes, counts.tasks, counts.events)
    return (*counted, f"{spent.seconds:.1f}" if spent.seconds >= SECONDS_SHOWN_MIN else "–")


def _texts(*numbers: int) -> tuple[str, ...]:
    return tuple(f"{number:,}" if number else "–" for number in numbers)
