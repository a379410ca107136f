"""`make demo NAME=philosophers` as a user sees it: every meal in order, or a deadlock that is shown and ends."""

import pytest

from examples.local.philosophers import main

pytestmark = pytest.mark.slow


@pytest.mark.marathon
@pytest.mark.timeout(300)
def test_ordered_philosophers_eat_every_meal_and_no_neighbours_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--mode", "ordered", "--seats", "5", "--rounds", "5"]) == 0
    assert "holds: 25 meals of 25" in capsys.readouterr().out


@pytest.mark.marathon
@pytest.mark.timeout(1200)
def test_a_large_table_eats_every_meal_too() -> None:
    assert main(["--mode", "ordered", "--seats", "50", "--rounds", "10"]) == 0


@pytest.mark.marathon
@pytest.mark.timeout(300)
def test_naive_philosophers_deadlock_which_is_shown_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--mode", "naive", "--seats", "5", "--rounds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "Deadlock: no philosopher runs" in shown
    assert "holds: all 5 wait in one circle" in shown
