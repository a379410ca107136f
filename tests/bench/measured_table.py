"""The measured values, as lines of one table."""

from collections.abc import Iterator, Mapping, Sequence

from signalbox.adapters.cost_meter import Cost
from tests.bench.documents_a_second import Rate
from tests.bench.fan_out import FanOut, exponent
from tests.bench.figures import Figure

HEADER = "copies    shown s  copies/s   bare s   ratio    idle s   reads/copy  writes/copy  tasks/copy"


def of_rates(rates: Sequence[Rate]) -> Iterator[str]:
    for rate in rates:
        yield f"{rate.what:10} {rate.each_second:9,.0f} /s   {rate.how}"


def of_fan_out(run: FanOut) -> str:
    """Return the line of one fan-out, under `HEADER`."""
    times = f"{run.shown_seconds:8.2f}  {run.copies / run.shown_seconds:8,.0f} {run.bare_seconds:8.2f}"
    counts = f"{run.reads_a_copy:11.4f} {run.writes_a_copy:12.4f} {run.tasks / run.copies:11.4f}"
    return f"{run.copies:6,} {times} {run.ratio:8.2f}  {run.idle_seconds:8.2f} {counts}"


def figure_of_fan_out(run: FanOut) -> str:
    own, bare = run.copies / run.shown_seconds, run.copies / run.bare_seconds
    return Figure(f"a change shown in {run.copies:,} copies", own, "copies/s", "bare calls of the store", bare).line()


def of_growth(runs: Sequence[FanOut]) -> str:
    """Return the line on how time grows, which needs two sizes."""
    if len(runs) < 2:
        return "growth     unknown from one size"
    return f"growth     time grows as copies to the power of {exponent(runs):.2f} (1 is linear)"


def of_events(microseconds: float, cost: Cost, events: int) -> str:
    spent = f"{cost.reads} reads, {cost.writes} writes, {cost.tasks} tasks"
    return f"its events {microseconds:9,.0f} µs of the handler's own work each; {events:,} of them took {spent}"


def of_puts(milliseconds: Mapping[int, float]) -> Iterator[str]:
    """Iterate over the lines on puts, by how many embed the document, each compared with the first."""
    alone = next(iter(milliseconds.values()))
    for linkers, each in milliseconds.items():
        yield f"put        {each:9.2f} ms   embedded by {linkers:,}: {each / alone:.2f} times that by nobody"
