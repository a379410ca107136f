"""The plots of grants show their lines, and the bench sees a rate that is ahead of its bound."""

import re
from pathlib import Path

import pytest

from tests.bench.rate_grants_plot import bound, counted, over_bound, plot

DOCS = Path(__file__).parents[3] / "docs"


def test_a_start_before_its_time_is_ahead_of_the_bound() -> None:
    assert bound(60) - bound(0) == 60 * (bound(1) - bound(0))
    in_time = counted([0.0] * int(bound(0)))
    assert over_bound(in_time) == 0
    assert over_bound(counted([0.0] * (int(bound(0)) + 2))) == 2


def test_a_line_rises_from_the_left_below_to_the_right_above() -> None:
    drawn = plot({"none": [(0, 0), (10, 0)], "all": [(0, 0), (10, 40)]}, 10)
    [flat, rising] = [re.findall(r"([\d.]+),([\d.]+)", points) for points in re.findall(r'points="([^"]+)"', drawn)]
    assert flat[0][1] == flat[1][1] == rising[0][1]
    assert float(rising[1][1]) < float(rising[0][1])
    assert float(rising[1][0]) > float(rising[0][0])


@pytest.mark.parametrize(("name", "page"), [("rate-grants.svg", "rates.md"), ("shares.svg", "semaphores.md")])
def test_each_plot_has_two_lines_and_a_place_in_a_page(name: str, page: str) -> None:
    assert (DOCS / name).read_text("utf-8").count("<polyline") == 2
    assert f"({name})" in (DOCS / page).read_text("utf-8")
