"""How long a page of a leaderboard and a rank take, on a leaderboard of so many entries."""

import time
from collections.abc import Callable, Iterator
from functools import partial

from signalbox.adapters.system_clock import SystemClock
from signalbox.core.ports import Ports, Put
from signalbox.core.problems import Unavailable
from signalbox.standings.model.aggregates import Standing
from signalbox.standings.model.exact_sums import Tally
from signalbox.standings.model.yokes import StandingKey
from signalbox.standings.requests import BoardRequest, RankRequest
from signalbox.standings.service import ranks
from signalbox.testing.recorded_log import RecordedLog
from tests.bench.bench_stack import SEED_PAGE, Stage
from tests.bench.due_tasks import DueTasks


def lines(stage: Stage, entries: int) -> Iterator[str]:
    """Store standings, the first the largest, and measure; iterate over the lines of the table."""
    ports = Ports(stage.store, DueTasks(lambda *_: None), SystemClock(), RecordedLog())
    with stage.events_held():
        stage.clear()
        for first in range(0, entries, SEED_PAGE):
            numbers = range(first, min(first + SEED_PAGE, entries))
            ports.store.write_each([_put(number, entries - number) for number in numbers])
        taken = _taken(lambda: ranks.leaderboard(ports, BoardRequest("item", "count", 100, "")))
        yield f"leaderboard  {entries:>7,} entries   first 100  {taken:>8}"
        for rank in (1, entries // 2, entries):
            taken = _taken(partial(_check_rank, ports, rank))
            yield f"rank         {entries:>7,} entries {rank:>9,}.  {taken:>8}"
        stage.clear()


def _put(number: int, count: int) -> Put:
    return Put(StandingKey("item", f"i{number:07}").path, Standing(Tally(count)).to_record())


def _check_rank(ports: Ports, rank: int) -> None:
    found = ranks.rank(ports, RankRequest(StandingKey("item", f"i{rank - 1:07}"), "count", 0)).rank
    assert found == rank, "a rank is wrong"


def _taken(call: Callable[[], object]) -> str:
    """Make a call and return the time that it took. The emulator reads the whole leaderboard, and may be too slow."""
    began = time.monotonic()
    try:
        call()
    except Unavailable:
        return "no answer"
    return f"{(time.monotonic() - began) * 1000:,.0f} ms"
