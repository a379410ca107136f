"""Measure yokes on a local stack's store: the kit's standings compared with two direct implementations.

python -m tests.bench.standings --yokes 1000 --board 100000

Each line: yokes a second, put and counted or left for a fold run, with 16 callers at once; one item is hot. Behind it:
how long after the last yoke all standings are exact, which is a slot of the fold runs and their work.
The two others keep a count of the item, none of the user and no extremes, and cannot follow a yoke that changes or is
deleted: a guarded read-modify-write of one record, and a blind increment of one of ten shards (the distributed
counter). Each is in the commit that creates the yoke, under the guard that it does not exist: a repeat counts once.
Numbers of a laptop compare with each other, not with the cloud; the ratio is to the shards on one item in the same run.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from signalbox.adapters.grouped_requests import Gathering
from signalbox.adapters.system_clock import SystemClock
from signalbox.catalogue import reading
from signalbox.core import kit_names
from signalbox.core.effects import Decision
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Change, DocumentEvent, Increment, Must, Ports, Put, Snapshot
from signalbox.core.problems import Unavailable
from signalbox.standings import tasks
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.yokes import YOKES, StandingKey, Yoke, YokeKey
from signalbox.standings.service import reads, yokes
from signalbox.testing.recorded_log import RecordedLog
from tests.bench import leaderboards
from tests.bench.bench_stack import Stage, staged
from tests.bench.due_tasks import DueTasks
from tests.bench.figures import Figure

CALLERS = 16
FOLDS = reading.load().queues[kit_names.STANDINGS_QUEUE].concurrent_max
SHARDS = 10
WARM_UP_YOKES = 100
CALLS_MAX = 1_000
"""Of a visit or a counter that keeps losing its race."""

GATHERING = Gathering[DocumentEvent, bool](LIMITS.visits_together_max)
Act = Callable[[Ports, str, str], None]


def folds() -> DueTasks:
    """Return a queue that runs fold tasks, as many at a time as the catalogue's."""
    return DueTasks(lambda ports, task, _: tasks.run_task(ports, task.task, task.payload), FOLDS)


def kit(ports: Ports, user: str, item: str) -> None:
    """Put a yoke and count it, as its event does: with those of other callers that arrive meanwhile."""
    key = YokeKey(user, item)
    yokes.put_yoke(ports, Yoke(key, 1))
    event = DocumentEvent(key.id, YOKES, key.id, key.path, None, None)
    _until_done(partial(GATHERING.answer, id(ports), key.id, event, partial(tasks.count_events, ports)))


def guarded(ports: Ports, user: str, item: str) -> None:
    """Create the yoke and count it in one record, under its guard."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        count = (read[0].data or {"count": 0})["count"] + 1
        yoke = Put(f"bare/{user}~{item}", {"value": 1}, Must.NOT_EXIST)
        return Decision((Put(f"counts/{item}", {"count": count}, read[0].guard), yoke), None)

    _until_done(lambda: perform(ports, [f"counts/{item}"], decide))


def sharded(ports: Ports, user: str, item: str) -> None:
    """Create the yoke and increment one of the shards."""
    shard = f"shards/{item}-{hash(user) % SHARDS}"
    yoke = Put(f"bare/{user}~{item}", {"value": 1}, Must.NOT_EXIST)
    _until_done(lambda: ports.store.commit([yoke, Change(shard, {("count",): Increment(1)}, None)]))


def _until_done(call: Callable[[], object]) -> None:
    for _ in range(CALLS_MAX):
        try:
            call()
        except Unavailable:
            continue
        return
    raise TimeoutError("a call never got through")


@dataclass(frozen=True, slots=True)
class Measured:
    """Yokes a second as their callers see it, and the seconds from the last of them until all is exact."""

    rate: float
    behind_seconds: float


def measure(stage: Stage, act: Act, yokes_count: int, items: int) -> Measured:
    """Yoke and count, and wait until the standings of the kit are exact."""
    queue = folds()
    ports = Ports(stage.store, queue, SystemClock(), RecordedLog())
    with stage.events_held():
        stage.clear()
        queue.start(ports)
        began = time.monotonic()
        with ThreadPoolExecutor(CALLERS) as callers:
            list(callers.map(lambda number: act(ports, f"u{number}", f"i{number % items}"), range(yokes_count)))
        made = time.monotonic()
        if act is kit:
            _wait_until_exact(ports, yokes_count, items)
        measured = Measured(yokes_count / (made - began), time.monotonic() - made)
        queue.stop()
        stage.clear()
    return measured


def _wait_until_exact(ports: Ports, yokes_count: int, items: int) -> None:
    for item in range(items):
        expected = len(range(item, yokes_count, items))
        key = StandingKey("item", f"i{item}")
        while (shown := reads.get_standing(ports, key)).standing.tally.count != expected:
            assert shown.pending or shown.standing.tally.count < expected, "a yoke was lost or counted twice"
            time.sleep(0.05)


def lines(stage: Stage, yokes_count: int) -> Iterator[str]:
    """Measure each way on one item and on many; iterate over the lines of the table."""
    many = max(1, yokes_count // 5)
    ways = {"shards": sharded, "one record": guarded, "standings": kit}
    for act in ways.values():  # a Java program is slow at first
        measure(stage, act, min(yokes_count, WARM_UP_YOKES), 1)
    base: dict[int, float] = {}
    for name, act in ways.items():
        for items in (1, many):
            measured = measure(stage, act, yokes_count, items)
            base.setdefault(items, measured.rate)
            behind = f"  exact {measured.behind_seconds:.1f} s later" if act is kit else ""
            yield f"{name:<12} {items:>6} items {measured.rate:>9.0f}/s  x {measured.rate / base[1]:.2f}{behind}"
            if act is kit:
                what = f"yokes on {'one item' if items == 1 else f'{items} items'}"
                yield Figure(what, measured.rate, "yokes/s", "a counter of ten shards", base[items]).line()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.standings", description=__doc__.splitlines()[0])
    parser.add_argument("--yokes", type=int, default=1_000, help="of each measurement (default: %(default)s)")
    parser.add_argument("--board", type=int, default=10_000, help="entries of a leaderboard (default: %(default)s)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder)) as stage:
        for line in chain(lines(stage, chosen.yokes), leaderboards.lines(stage, chosen.board)):
            sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
