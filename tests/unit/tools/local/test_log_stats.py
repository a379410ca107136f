"""The functions' log lines of their calls are summed once, whatever else is in their log."""

import json
from pathlib import Path

from signalbox_tools.local.logs.call_totals import LogStats


def handled(**values: object) -> str:
    return json.dumps({"severity": "INFO", "message": "handled", **values}) + "\n"


def test_calls_are_summed_as_their_lines_come(tmp_path: Path) -> None:
    log = tmp_path / "functions.log"
    log_stats = LogStats(log)
    assert log_stats.sums() == {"calls": 0, "reads": 0, "writes": 0, "deletes": 0, "round_trips": 0, "tasks": 0}
    log.write_text(handled(reads=1, writes=2) + 'Traceback "handled" {\n[1]\n' + handled(tasks=3, milliseconds=9))
    once = {"calls": 2, "reads": 1, "writes": 2, "deletes": 0, "round_trips": 0, "tasks": 3}
    assert log_stats.sums() == once
    assert log_stats.sums() == once


def test_a_line_that_is_half_written_counts_when_it_is_whole(tmp_path: Path) -> None:
    log, line = tmp_path / "functions.log", handled(reads=5)
    log_stats = LogStats(log)
    log.write_text(line[:20])
    assert log_stats.sums()["reads"] == 0
    log.write_text(line)
    assert log_stats.sums()["reads"] == 5


def test_a_tally_of_some_functions_passes_over_the_calls_of_others(tmp_path: Path) -> None:
    log = tmp_path / "functions.log"
    log.write_text(handled(function="sweep", reads=3) + handled(function="link_refresh", reads=5))
    assert LogStats(log, {"link_refresh"}).sums()["reads"] == 5
