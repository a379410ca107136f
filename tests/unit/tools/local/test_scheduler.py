"""The local scheduler's pace: the sweeper slows down while nothing happens, a user's schedule never does."""

from dataclasses import replace
from pathlib import Path

import pytest

from signalbox.catalogue.reading import Schedule
from signalbox_tools.local.scheduler import PAUSED_FILE, QUIET_CALLS, QUIET_FACTOR, Caller, Pace


def schedule(function: str) -> Schedule:
    return Schedule(name="each", function=function, cron="* * * * *", local_every_seconds=2)


def test_the_sweeper_slows_down_when_nothing_happens_and_is_quick_again_when_something_does() -> None:
    counters = [1]
    pace = Pace(schedule("sweep"), lambda: list(counters))
    pauses = [pace.seconds() for _ in range(QUIET_CALLS + 3)]
    assert pauses == [2] * (QUIET_CALLS + 1) + [2 * QUIET_FACTOR] * 2
    counters.append(2)
    assert pace.seconds() == 2


def test_a_users_schedule_keeps_its_interval_and_so_does_a_sweeper_that_cannot_see() -> None:
    tidy, blind = Pace(schedule("tidy"), lambda: 1), Pace(schedule("sweep"), lambda: None)
    assert {pace.seconds() for pace in (tidy, blind) for _ in range(50)} == {2}


def test_a_schedule_is_not_called_while_its_file_of_a_pause_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setattr(Caller, "call", lambda _, each: called.append(each.function))
    caller = Caller("http://x/", "", "", folder=tmp_path)
    caller.call_unless_paused(schedule("sweep"))
    (tmp_path / PAUSED_FILE.format("each")).touch()
    caller.call_unless_paused(schedule("tidy"))
    caller.call_unless_paused(replace(schedule("report"), name="another"))
    assert called == ["sweep", "report"]
