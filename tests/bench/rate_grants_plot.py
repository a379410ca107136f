"""Plot the starts that a rate grants in a real minute, with its bound, and how two tenants share a semaphore.

python -m tests.bench.rate_grants_plot

A local stack grants waits that exist before the minute begins, and its tasks report when they start. The plots are
`docs/rate-grants.svg` and `docs/shares.svg`.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from signalbox.catalogue.project import Project
from signalbox_tools.local.stack import Stack
from tests.bench.semaphores.kit_waits import Reports, catalogue

SECONDS = 60
LATE_SECONDS = 10
"""How long after the minute a report may come."""

PER_MINUTE, BURST = 240, 30
PERMITS, HOLD_SECONDS = 4, 0.5
WEIGHTS = {"small": 1, "large": 3}

Line = Sequence[tuple[float, float]]
"""Points: seconds, and a count."""


class Minute:
    """Waits that are granted together, under what is paused while they are made."""

    def __init__(self, http: httpx.Client, reports: Reports, paused: str) -> None:
        self._http, self._reports, self._paused = http, reports, paused
        self._asked: list[str] = []

    def wait(self, path: str, task: str, body: Mapping[str, Any], **payload: Any) -> str:
        """Ask for a permit for a task; return the name under which it reports."""
        pair = f"{self._paused}-{len(self._asked)}"
        self._reports.expect(pair)
        call = {"function": "turnstile", "task": task, "payload": {"pair": pair, "port": self._reports.port, **payload}}
        self._http.post(path, json={**body, "continuation": call}).raise_for_status()
        self._asked.append(pair)
        return pair

    def starts(self, seconds: float) -> dict[str, float]:
        """Resume, and return the tasks that started within so many seconds, each with its time."""
        began = time.monotonic()
        self._http.post(f"{self._paused}/resume").raise_for_status()
        time.sleep(seconds)
        reported = {pair: self._reports.wait(pair, 0.0) for pair in self._asked}
        return {pair: times[0] - began for pair, times in reported.items() if times and times[0] - began <= seconds}


def of_a_rate(http: httpx.Client, reports: Reports, seconds: float) -> dict[str, Line]:
    """Return the starts of tasks under a rate, and the most that it may have granted by then."""
    limits = {"per_minute": PER_MINUTE, "burst": BURST}
    http.put("rates/calls", json=limits).raise_for_status()
    http.post("rates/calls/pause").raise_for_status()
    minute = Minute(http, reports, "rates/calls")
    for _ in range(int(bound(seconds)) + BURST):
        minute.wait("rates/calls/waits", "begin", {})
    times = minute.starts(seconds)
    return {
        f"the bound: {BURST} + {PER_MINUTE / 60:g} a second": [(0, bound(0)), (seconds, bound(seconds))],
        "tasks that started": counted(times.values()),
    }


def bound(seconds: float) -> float:
    """Return how many permits the rate may have granted so many seconds after it was resumed."""
    return BURST + PER_MINUTE * seconds / 60


def of_two_tenants(http: httpx.Client, reports: Reports, seconds: float) -> dict[str, Line]:
    """Return the starts of two tenants' tasks under a semaphore, while both have tasks that wait."""
    settings = {"permits": PERMITS, "lease_seconds": 60, "weights": WEIGHTS}
    http.put("semaphores/shared", json=settings).raise_for_status()
    http.post("semaphores/shared/pause").raise_for_status()
    minute = Minute(http, reports, "semaphores/shared")
    waits = range(int(seconds * PERMITS / HOLD_SECONDS))
    ask = partial(minute.wait, "semaphore-wait/shared", "enter", hold_seconds=HOLD_SECONDS)
    tenants = {key: {ask(body={"key": key}) for _ in waits} for key in WEIGHTS}
    times = minute.starts(seconds)
    return {
        f"{key}, weight {WEIGHTS[key]}": counted(at for pair, at in times.items() if pair in pairs)
        for key, pairs in tenants.items()
    }


def counted(times: Any) -> Line:
    """Return how many there were by each time."""
    return [(at, number) for number, at in enumerate(sorted(times), 1)]


def over_bound(starts: Line) -> int:
    """Return the most starts by which a rate was ahead of its bound; 0 or less if it never was."""
    return max((int(number - bound(at)) for at, number in starts), default=0)


# --- the plot ---

WIDTH, HEIGHT, MARGIN = 640, 300, 44
COLOURS = ("#cf222e", "#0969da")


def plot(lines: Mapping[str, Line], seconds: float) -> str:
    """Return an SVG of counts over time, with a name at the end of each line."""
    top = max(count for line in lines.values() for _, count in line)
    style = "text{font:12px sans-serif;fill:#57606a}polyline{fill:none;stroke-width:1.5}line{stroke:#afb8c1}"
    drawn = "\n".join([*_axes(seconds, top), *_lines(lines, seconds, top)])
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{style}</style>\n{drawn}\n</svg>\n'


def _axes(seconds: float, top: float) -> Iterator[str]:
    bottom, right = HEIGHT - MARGIN, WIDTH - MARGIN
    yield f'<line x1="{MARGIN}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
    yield f'<line x1="{MARGIN}" x2="{MARGIN}" y1="{MARGIN}" y2="{bottom}"/>'
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = _at(share * seconds, share * top, seconds, top)
        yield f'<text x="{x:.0f}" y="{bottom + 18}" text-anchor="middle">{share * seconds:.0f} s</text>'
        yield f'<text x="{MARGIN - 6}" y="{y + 4:.0f}" text-anchor="end">{share * top:.0f}</text>'


def _lines(lines: Mapping[str, Line], seconds: float, top: float) -> Iterator[str]:
    for place, (name, line) in enumerate(lines.items()):
        points = " ".join("{:.1f},{:.1f}".format(*_at(*point, seconds, top)) for point in line)
        yield f'<polyline points="{points}" stroke="{COLOURS[place]}"/>'
        label = f'x="{MARGIN + 12}" y="{MARGIN + 16 * place}" style="fill:{COLOURS[place]}"'
        yield f"<text {label}>{name}</text>"


def _at(at: float, count: float, seconds: float, top: float) -> tuple[float, float]:
    across, up = at / seconds, count / top
    return MARGIN + across * (WIDTH - 2 * MARGIN), HEIGHT - MARGIN - up * (HEIGHT - 2 * MARGIN)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.rate_grants_plot", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each plot is (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Project.find().root / "docs", help="where the plots are written")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Stack(folder=folder / "state", catalogue=catalogue(folder / "project"), store="emulator") as stack:
            http, reports = httpx.Client(base_url=stack.base_url, timeout=60), Reports()
            granted = of_a_rate(http, reports, chosen.seconds)
            shared = of_two_tenants(http, reports, chosen.seconds)
    (chosen.folder / "rate-grants.svg").write_text(plot(granted, chosen.seconds), "utf-8")
    (chosen.folder / "shares.svg").write_text(plot(shared, chosen.seconds), "utf-8")
    ahead = over_bound(granted["tasks that started"])
    counts = {name: len(line) for lines in (granted, shared) for name, line in lines.items()}
    sys.stdout.write(f"{json.dumps(counts)}\nahead of the bound by at most {max(0, ahead)} starts\n")
    return 1 if ahead > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
