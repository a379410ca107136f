"""How long a page of a leaderboard and a rank take, on a leaderboard of so many entries."""

import time
from collections.abc import Callable, Iterator

from shared.adapters.clock import SystemClock
from shared.core.operations.ports import Ports, Put
from shared.standings.operations import boards
from shared.standings.rules.keys import StandingKey
from shared.standings.rules.requests import BoardRequest, RankRequest
from shared.standings.rules.standings import Standing
from shared.standings.rules.tallies import Tally
from shared.testing.recorded_log import RecordedLog
from tests.bench.due_tasks import DueTasks
from tests.bench.stage import SEED_PAGE, Stage


def lines(stage: Stage, entries: int) -> Iterator[str]:
    """Store standings, the first the largest, and measure; iterate over the lines of the table."""
    ports = Ports(stage.store, DueTasks(lambda *_: None), SystemClock(), RecordedLog())
    with stage.events_held():
        stage.clear()
        for first in range(0, entries, SEED_PAGE):
            numbers = range(first, min(first + SEED_PAGE, entries))
            ports.store.write_each([_put(number, entries - number) for number in numbers])
        seconds = _seconds(lambda: boards.top(ports, BoardRequest("item", "count", 100, "")))
        yield f"leaderboard  {entries:>7,} entries   first 100  {seconds * 1000:>8,.0f} ms"
        for rank in (1, entries // 2, entries):
            seconds = _seconds(lambda rank=rank: _check_rank(ports, rank))  # type: ignore[misc]
            yield f"rank         {entries:>7,} entries {rank:>9,}.  {seconds * 1000:>8,.0f} ms"
        stage.clear()


def _put(number: int, count: int) -> Put:
    return Put(StandingKey("item", f"i{number:07}").path, Standing(Tally(count)).to_record())


def _check_rank(ports: Ports, rank: int) -> None:
    found = boards.rank(ports, RankRequest(StandingKey("item", f"i{rank - 1:07}"), "count", 0))["rank"]
    assert found == rank, "a rank is wrong"


def _seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began
