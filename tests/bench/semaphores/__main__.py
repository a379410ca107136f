"""Measure a semaphore under contention: 64 clients, 3 permits, each client with one pair of wait and signal under way.

python -m tests.bench.semaphores --pairs 2000

The kit's pairs go over HTTP and the queue: a wait that names a task, the task under its lease, its signal. Beside them
plain acquires over HTTP, which poll or wait, bare calls of the same store, and Redis and ZooKeeper where they
are installed: all these hold a permit in a client's thread and run no task. A grant is measured from the call to the
moment the permit is held. Numbers of a laptop compare with each other, not with the cloud.
"""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from signalbox.semaphores.limits import LIMITS
from signalbox_tools.local.logs.call_totals import LogStats
from tests.bench.bench_stack import Stage, staged
from tests.bench.figures import CHECK_FAILED, Figure
from tests.bench.semaphores import redis_and_zookeeper
from tests.bench.semaphores.bare_firestore import Guarded, Transactions
from tests.bench.semaphores.kit_waits import Kit, catalogue
from tests.bench.semaphores.visits import Act, Run, most_inside, run

CLIENTS = 64
PERMITS = 3
GRANT_SECONDS_MAX = 2.0
OF_ONE = 4
"""A lone client does one in so many pairs: it has no others to wait for, and none to share the rest with."""

HEADER = (
    f"{'way':<28} {'clients':>7} {'pairs':>6} {'pairs/s':>8} {'p50 grant':>10} {'p99 grant':>10} {'inside':>6}  refused"
)


QUEUED, PLAIN, LONG = "the kit, through its queue", "the kit, plain acquires", "the kit, acquires that wait"
KIT_WAYS = (QUEUED, PLAIN, LONG)
"""The kit's ways to get a permit; `LONG` is a long poll."""


class Bench:
    """Measures way by way; `broken` lists what must hold and did not."""

    def __init__(self, stage: Stage, clients: int, pairs: int) -> None:
        self._stage, self._clients, self._pairs = stage, clients, pairs
        self.broken: list[str] = []
        self._rates: dict[str, float] = {}

    def lines(self) -> Iterator[str]:
        """Measure, and iterate over the lines of the table."""
        yield HEADER
        yield from self._kit()
        yield from self._acquires()
        yield from self._bare()
        yield from self._others()
        yield from self._figures()
        yield from self.broken or ["every check held"]

    def _figures(self) -> Iterator[str]:
        """Iterate over the kit's pairs a second with all clients, compared with each other way that had no refusals."""
        for way in (way for way in KIT_WAYS if way in self._rates):
            for anchor in [each for each in self._rates if each not in KIT_WAYS]:
                what = f"{self._clients} clients, {way}"
                yield Figure(what, self._rates[way], "pairs/s", anchor, self._rates[anchor]).line()

    def _kit(self) -> Iterator[str]:
        with Kit(self._stage.stack.base_url, PERMITS) as kit:
            run("warm-up", 8, 40, kit.pair)
            runs = []
            stats = LogStats(self._stage.stack.folder / "functions.log")
            before = self._spent(stats)
            for measured in self._alone_and_together(QUEUED, kit.pair):
                runs.append(measured)
                after = self._spent(stats)
                yield line(measured)
                yield note(_each(before, after, len(measured.visits)))
                before = after
            yield note(f"tasks that came twice: {kit.reports.again}")
            self._check(kit.is_free(), "permits or waiters are left")
        self._check_pairs(*runs)

    def _check_pairs(self, one: Run, many: Run) -> None:
        self._check(not one.refusals and not many.refusals, "a pair failed")
        more = many.each_second >= one.each_second
        self._check(more, f"{many.clients} clients do fewer pairs a second than one")
        self._check(many.grant_seconds(0.99) < GRANT_SECONDS_MAX, f"p99 of a grant is above {GRANT_SECONDS_MAX:.0f} s")

    def _spent(self, stats: LogStats) -> Mapping[str, int]:
        """Return the processor time that the functions have used so far, while no request runs."""
        self._stage.wait_until_idle()
        return stats.sums()

    def _acquires(self) -> Iterator[str]:
        with Kit(self._stage.stack.base_url, PERMITS, "doors") as kit:
            yield from map(line, self._alone_and_together(PLAIN, kit.acquire))
            waiting = partial(kit.acquire, wait_seconds=LIMITS.acquire_wait_seconds_max)
            yield from map(line, self._alone_and_together(LONG, waiting))
            yield note(", ".join(f"{what} {count:,}" for what, count in sorted(kit.calls.items())))
            self._stage.wait_until_idle()  # an admit run applies the last signals
            self._check(kit.is_free(), "a permit was not given back")

    def _bare(self) -> Iterator[str]:
        guarded = Guarded(self._stage.store, PERMITS)
        yield from map(line, self._alone_and_together("bare, guarded retries", guarded.pair))
        if self._stage.is_sqlite:
            return
        with contextlib.closing(Transactions(self._stage.host, self._stage.project, PERMITS)) as transactions:
            yield from map(line, self._alone_and_together("bare, transactions", transactions.pair))
            yield note(f"transactions the library gave up: {transactions.given_up:,}")

    def _others(self) -> Iterator[str]:
        ways: dict[str, Callable[[int, int], contextlib.AbstractContextManager[Act]]]
        ways = {"Redis, 3 locks": redis_and_zookeeper.redis, "ZooKeeper, Semaphore": redis_and_zookeeper.zookeeper}
        for name, way in ways.items():
            try:
                with way(PERMITS, self._clients) as act:
                    yield from map(line, self._alone_and_together(name, act))
            except redis_and_zookeeper.Missing as missing:
                yield f"{name:<28} not measured: {missing}"

    def _alone_and_together(self, way: str, act: Act) -> Iterator[Run]:
        for clients, pairs in ((1, max(1, self._pairs // OF_ONE)), (self._clients, self._pairs)):
            measured = run(way, clients, pairs, act)
            inside = most_inside(measured.visits)
            self._check(inside <= PERMITS, f"{way}: {inside} were inside at once")
            if clients == self._clients and (way in KIT_WAYS or not measured.refusals):
                self._rates[way] = measured.each_second
            yield measured

    def _check(self, held: bool, otherwise: str) -> None:
        if not held:
            self.broken.append(f"does not hold: {otherwise}")


def _each(before: Mapping[str, int], after: Mapping[str, int], pairs: int) -> str:
    counted = ("calls", "round_trips", "reads", "writes", "tasks")
    spent = (f"{(after[name] - before[name]) / max(1, pairs):.2f} {name.replace('_', ' ')}" for name in counted)
    return f"each pair took the functions {', '.join(spent)}"


def note(text: str) -> str:
    """Return a line on the run above it."""
    return f"{'':<28} {text}"


def line(measured: Run) -> str:
    """Return the line of one run, under `HEADER`."""
    refused = ", ".join(f"{count} {what}" for what, count in measured.refusals.items()) or "none"
    grants = " ".join(f"{1_000 * measured.grant_seconds(share):7,.0f} ms" for share in (0.5, 0.99))
    counts = f"{measured.clients:7} {len(measured.visits):6,} {measured.each_second:8,.1f}"
    return f"{measured.way:<28} {counts} {grants} {most_inside(measured.visits):6}  {refused}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.semaphores", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000, help="of each way (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="at once (default: %(default)s)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with staged(folder / "state", catalogue(folder / "project")) as stage:
            bench = Bench(stage, chosen.clients, chosen.pairs)
            for each in bench.lines():
                print(each, flush=True)
    return CHECK_FAILED if bench.broken else 0


if __name__ == "__main__":
    sys.exit(main())
