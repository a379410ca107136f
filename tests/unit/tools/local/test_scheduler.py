"""The local scheduler's pace: the sweeper slows down while nothing happens, a user's schedule never does."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from signalbox.catalogue.reading import Schedule
from signalbox_tools.local import serving
from signalbox_tools.local.scheduler import PAUSED_FILE, QUIET_CALLS, QUIET_FACTOR, Caller, Pace, schedule_lines


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
    monkeypatch.setattr(Caller, "call", lambda _, each, __: called.append(each.function))
    caller = Caller("http://x/", "", "", folder=tmp_path)
    caller.call_unless_paused(schedule("sweep"))
    (tmp_path / PAUSED_FILE.format("each")).touch()
    caller.call_unless_paused(schedule("tidy"))
    caller.call_unless_paused(replace(schedule("report"), name="another"))
    assert called == ["sweep", "report"]


NIGHTLY = Schedule(name="nightly", function="tidy", task="mail", cron="0 2 * * *", time_zone="Europe/Berlin")


def test_a_schedule_without_an_interval_is_called_at_its_times_only() -> None:
    clock = [datetime(2026, 3, 28, 12, tzinfo=UTC)]
    pace = Pace(NIGHTLY, lambda: 1, lambda: clock[0])
    seen = []
    for late_seconds in (0, 0.5, 5 * 86_400, 0):  # the machine sleeps for days
        seen.append((pace.seconds(), f"{pace.planned_at:%d %H:%M}"))
        clock[0] = pace.planned_at + timedelta(seconds=late_seconds)
    assert [at for _, at in seen] == ["30 00:00", "31 00:00", "01 00:00", "07 00:00"]  # on the 29th, 2:00 is left out
    assert seen[0][0] == 36 * 3600
    assert seen[2][0] == 86_400 - 0.5


def test_the_local_stack_lists_which_schedule_runs_when() -> None:
    now = datetime(2026, 1, 9, 12, tzinfo=UTC)
    often = replace(NIGHTLY, name="often", local_every_seconds=90)
    never = replace(NIGHTLY, name="never", cron="0 0 30 2 *")
    assert list(schedule_lines([NIGHTLY, often, never], now)) == [
        "nightly: 0 2 * * * Europe/Berlin, next Sat 2026-01-10 02:00",
        "often: every 90 s (on this machine)",
    ]


SCHEDULED = """from signalbox import Function

app = Function("orders")


@app.schedule("0 2 * * *")
@app.task
def tidy() -> None: ...


orders = app.entry_point()
"""


@pytest.mark.parametrize(("api", "needs"), [("", ", with `api: [tasks]` in the catalogue"), ("api: [tasks]\n", "")])
def test_the_local_stack_names_what_a_schedule_that_is_run_now_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], api: str, needs: str
) -> None:
    main = tmp_path / "functions" / "orders" / "main.py"
    main.parent.mkdir(parents=True)
    main.write_text(SCHEDULED)
    (tmp_path / "signalbox.yaml").write_text(f"{api}functions: {{orders: {{}}}}\n")
    monkeypatch.chdir(tmp_path)
    serving._print_schedules()
    assert capsys.readouterr().out.splitlines()[-1] == f"           One now: signalbox schedules run NAME{needs}"
