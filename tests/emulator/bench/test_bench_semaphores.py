"""The bench of semaphores counts what it says, and runs, on numbers too small for their times to mean anything."""

import time
from collections import Counter
from pathlib import Path
from threading import Semaphore

import pytest

from signalbox_tools.local.stack import Stack
from tests.bench.bench_stack import Stage
from tests.bench.figures import Figure
from tests.bench.semaphores import __main__ as bench_module
from tests.bench.semaphores.__main__ import PLAIN, Bench, line
from tests.bench.semaphores.kit_waits import catalogue
from tests.bench.semaphores.visits import Refused, Run, Visit, most_inside, run, visit
from tests.required_programs import EMULATOR

pytestmark = [pytest.mark.slow, pytest.mark.marathon]


@pytest.mark.parametrize(
    ("visits", "inside"),
    [([], 0), ([(1, 2), (2, 3)], 1), ([(1, 3), (2, 4), (3, 5)], 2), ([(1, 9), (2, 8), (3, 4), (5, 6)], 3)],
)
def test_those_inside_at_once_are_counted(visits: list[tuple[float, float]], inside: int) -> None:
    assert most_inside([Visit(0, *times) for times in visits]) == inside


def test_clients_do_so_many_pairs_together_and_their_refusals_are_counted() -> None:
    permits = Semaphore(2)

    def act(number: int, stop_at: float) -> Visit:
        if number == 0:
            raise Refused("no entry")
        return visit(lambda: permits.acquire(blocking=False), permits.release, stop_at)

    measured = run("threads", 4, 24, act)
    assert len(measured.visits) + measured.refusals["no entry"] == 24
    assert 1 <= most_inside(measured.visits) <= 2


def test_a_client_that_gets_no_permit_stops_when_the_time_is_over() -> None:
    with pytest.raises(Refused):
        visit(lambda: False, lambda: None, time.monotonic())


def test_a_line_shows_rate_waits_and_refusals() -> None:
    visits = [Visit(0, wait, wait + 1) for wait in (0.1, 0.2, 0.3, 4.0)]
    shown = line(Run("way", 4, 2.0, visits, Counter({"no entry": 3})))
    assert shown.split() == ["way", "4", "4", "2.0", "300", "ms", "4,000", "ms", "3", "3", "no", "entry"]


def test_the_anchors_are_the_ways_in_which_all_clients_had_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(way: str, clients: int, *_: object) -> Run:
        return Run(way, clients, 1.0, [Visit(0, 0, 0)] * clients, Counter({"no permit": 1} if way in refused else {}))

    refused = (PLAIN, "bare, transactions")
    monkeypatch.setattr(bench_module, "run", run)
    bench = Bench(stage=None, clients=4, pairs=8)  # type: ignore[arg-type]  # no way is run
    for way in (PLAIN, "bare, guarded retries", "bare, transactions"):
        assert len(list(bench._alone_and_together(way, lambda *_: Visit(0, 0, 0)))) == 2
    assert list(bench._figures()) == [Figure(f"4 clients, {PLAIN}", 4, "pairs/s", "bare, guarded retries", 4).line()]


@pytest.mark.timeout(600)
def test_every_way_is_measured_and_no_way_lets_more_inside_than_there_are_permits(tmp_path: Path) -> None:
    EMULATOR.require()  # the bench measures the emulator
    with (
        Stack(folder=tmp_path / "s", catalogue=catalogue(tmp_path / "p"), store="emulator") as stack,
        Stage(stack) as stage,
    ):
        bench = Bench(stage, clients=4, pairs=12)
        table = list(bench.lines())
    ways = ("the kit, through", "the kit, plain", "bare, guarded", "bare, transactions", "Redis", "ZooKeeper")
    assert [way for way in ways if not any(each.startswith(way) for each in table)] == []
    assert [each for each in bench.broken if "failed" in each or "inside" in each or "left" in each] == []
