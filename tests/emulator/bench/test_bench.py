"""The bench measures what it says, on numbers too small for their times to mean anything."""

import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.catalogue import reading as catalogues
from signalbox_tools.local.stack import Stack
from tests.bench import batches, leaderboards, measured_table, objects, standings, watchers
from tests.bench.bench_stack import TARGET, Stage, country
from tests.bench.documents import lines, sizes
from tests.bench.fan_out import FanOut, exponent, fan_out
from tests.bench.figures import Figure
from tests.bench.flows import __main__ as flows
from tests.bench.kit_cpu_time import event_microseconds, put_milliseconds
from tests.bench.rivals import rival_processes
from tests.required_programs import EMULATOR

pytestmark = [pytest.mark.slow, pytest.mark.marathon]


@pytest.fixture(scope="module", params=["sqlite", "emulator"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    if request.param == "emulator":
        EMULATOR.require()
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(folder=Path(folder), store=request.param) as stack,
        Stage(stack) as stage,
    ):
        yield stage


def parted(lines: Iterable[str]) -> tuple[list[str], list[Figure]]:
    """Return the lines of a bench's table, and its figures."""
    read = [(line, Figure.from_line(line)) for line in lines]
    return [line for line, figure in read if figure is None], [figure for _, figure in read if figure]


def test_a_measured_fan_out_refreshes_every_copy_once_and_so_do_the_bare_calls(stage: Stage) -> None:
    run = fan_out(stage, 20)
    around = 2 * (1 + 1)  # the source and its field's transform, before and after
    assert (run.copies, run.reads, run.writes, run.tasks) == (20, 20 + around, 20, 1)
    assert 0 < run.shown_seconds <= run.idle_seconds
    assert run.bare_seconds > 0


def test_the_table_has_a_line_for_each_thing_measured(stage: Stage) -> None:
    table, [figure] = parted(lines(stage, copies_max=10, calls=5))
    assert (figure.what, figure.anchor) == ("a change shown in 10 copies", "bare calls of the store")
    assert [line.split()[0] for line in table] == [
        *("put", "get", "query", "bulk"),
        *("copies", "10", "growth", "its"),
        *("put", "put", "put"),
    ]
    assert [line.partition("embedded by ")[2].partition(":")[0] for line in table[-3:]] == ["0", "1", "10"]


def test_fan_outs_grow_up_to_the_requested_size() -> None:
    assert (sizes(300), sizes(1_000), sizes(20_000)) == ([300], [500, 1_000], [500, 1_000, 5_000, 20_000])


def test_puts_of_a_document_that_some_embed_lead_to_no_fan_out_while_events_are_held(stage: Stage) -> None:
    stage.wait_until_idle()
    before = stage.followers.sums()
    assert put_milliseconds(stage, linkers=3, puts=2) > 0
    stage.wait_until_idle()
    assert stage.followers.sums() == before


def test_the_events_of_refreshed_copies_cause_no_work() -> None:
    microseconds, cost = event_microseconds(10)
    assert microseconds > 0
    assert cost == Cost()


def test_events_that_were_held_are_delivered_afterwards(stage: Stage) -> None:
    with stage.events_held():
        stage.clear()
        stage.seed(country(1), 2)
    stage.put(TARGET, country(2))
    stage.wait_until_shown(country(2), 2)
    stage.wait_until_idle()


@pytest.mark.parametrize(("seconds", "power"), [(20.0, 1.0), (200.0, 2.0)])
def test_growth_is_the_power_from_the_smallest_to_the_largest(seconds: float, power: float) -> None:
    runs = [FanOut(copies, shown, shown, 1.0, 0, 0, 0) for copies, shown in ((100, 2.0), (1_000, seconds))]
    assert exponent(runs) == pytest.approx(power)
    assert (
        measured_table.of_growth(runs) == f"growth     time grows as copies to the power of {power:.2f} (1 is linear)"
    )


def test_yokes_are_measured_until_their_standings_are_exact(stage: Stage) -> None:
    table, figures = parted(standings.lines(stage, 20))
    assert [figure.what for figure in figures] == ["yokes on one item", "yokes on 4 items"]
    assert [line.split()[0] for line in table] == [*["shards"] * 2, *["one"] * 2, *["standings"] * 2]


def test_ranks_are_checked_as_they_are_measured(stage: Stage) -> None:
    assert [line.split()[0] for line in leaderboards.lines(stage, 20)] == ["leaderboard", *["rank"] * 3]


def test_calls_of_objects_are_measured_until_each_has_counted_once(stage: Stage) -> None:
    table, figures = parted(objects.lines(stage, 20, 60))
    assert [figure.what for figure in figures] == ["calls by one caller", "calls by 16 callers"]
    assert [line.split()[0] for line in table][:7] == [*["bare"] * 3, *["objects"] * 3, "drained"]


def test_batches_are_measured_until_they_are_completed(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    runs = batches.measured(stage, [10, 120], per_task=20)
    batches.one_a_task(stage, runs[-1], 20)
    table, [figure] = parted(capsys.readouterr().out.splitlines())
    assert [run.units for run in runs] == [10, 120]
    assert [line.split()[:2] for line in table] == [
        *(["10", "units"], ["120", "units"], ["growth:", "time"]),
        ["120", "units"],
    ]
    assert (figure.what, figure.anchor) == ("120 units, 20 a task", "one a task")


def test_a_batch_line_has_the_processor_time_of_each_part() -> None:
    run = batches.BatchTime(1_000, 2.0, {"functions": 2.0, "queue": 1.0})
    assert run.line() == "  1,000 units     2.00 s     500/s   ms a unit: functions  2.00  queue  1.00"
    assert batches.growth([run, batches.BatchTime(10_000, 20.0, {})]) == pytest.approx(1.0)


def test_the_queue_of_units_has_as_many_shards_as_the_bench_is_given(tmp_path: Path) -> None:
    catalogue = catalogues.load(batches.catalogue_with(tmp_path, 3))
    assert catalogue.functions["bare_task"].invoked_by == ("queue",)
    assert catalogue.shards_of(["tasks"]) == ["tasks", "tasks-2", "tasks-3"]


def test_a_rival_that_takes_too_long_is_stopped_and_given_no_larger_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = {
        ("celery_chord", 1): rival_processes.Ran(2.0),
        ("celery_chord", 10): rival_processes.Ran(None, "stopped after 1 s"),
    }
    monkeypatch.setattr(
        rival_processes, "run", lambda rival, units, _: ran.get((rival, units), rival_processes.Ran(0.5))
    )
    assert [ended.line(rival, units) for rival, units, ended in rival_processes.runs([1, 10, 100], 1.0)] == [
        "      1 units     2.00 s       0/s   celery_chord",
        "     10 units   stopped after 1 s   celery_chord",
        *(f"{units:>7} units     0.50 s {units * 2:>7}/s   dbos_queue" for units in (1, 10, 100)),
        *(f"{units:>7} units     0.50 s {units * 2:>7}/s   durabletask_units" for units in (1, 10, 100)),
    ]


def test_flows_are_measured_in_chains_fan_outs_and_many_at_once() -> None:
    EMULATOR.require()  # the bench measures the emulator
    table = list(flows.table([3, 1, 4, 2, 2], alone=True))
    assert [line.split()[:2] for line in table] == [
        ["flows", "chain"],
        ["flows", "of"],
        ["flows", "first"],
        ["flows", "a"],
        ["flows", "a"],
        ["flows", "list"],
        ["flows", "batch"],
        ["flows", "2"],
        ["flows", "their"],
        ["flows", "processor"],
        ["inline", "chain"],
        ["inline", "first"],
        ["inline", "a"],
        ["inline", "a"],
        ["inline", "list"],
        ["inline", "2"],
        ["inline", "their"],
        ["inline", "processor"],
        ["=", "processor"],
    ]


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (FileNotFoundError(), "not measured: uv is not installed"),
        (subprocess.TimeoutExpired("uv", 1.0), "stopped after 600 s"),
        (subprocess.CompletedProcess("uv", 1, "", "a trace\nno such package\n"), "failed: no such package"),
    ],
)
def test_a_rival_that_gives_no_figures_says_why(monkeypatch: pytest.MonkeyPatch, ended: Any, reason: str) -> None:
    def run(*_: object, **__: object) -> Any:
        if isinstance(ended, Exception):
            raise ended
        return ended

    monkeypatch.setattr(subprocess, "run", run)
    assert flows.in_python(*flows.DBOS, [1]) == reason


def test_streams_are_measured_together_with_other_requests(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SECONDS", 0.5), ("LEFT_SECONDS", 0.0), ("UNITS", 100)):
        monkeypatch.setattr(watchers, name, value)
    table, [figure] = parted(watchers.lines(stage, [0, 2], rounds=1))
    assert (figure.what, figure.anchor) == ("other requests next to 2 streams", "next to 0 streams")
    assert [line.split()[:2] for line in table] == [["0", "streams"], ["2", "streams"]]
