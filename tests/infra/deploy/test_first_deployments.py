"""A first deployment comes through Google's delays, or stops with what to do: some seeds of `first_deployments`."""

from pathlib import Path

import pytest

from signalbox_tools.deploy import deployment_steps
from signalbox_tools.deploy.apply_attempts import APPLIES_MAX
from tests.infra.deploy.first_deployments import KEPT, PAGE, Ended, first_deployment, table

pytestmark = pytest.mark.slow

SEEDS = (4, 20)
"""A project that contends for its indexes and builds too early; one that also fails half-way."""


@pytest.mark.parametrize("seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.marathon) for seed in SEEDS[1:])])
def test_a_first_deployment_comes_through(
    seed: int, tmp_path: Path, zips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment_steps, "build", lambda *_: [])
    ended = first_deployment(seed, tmp_path, zips)
    assert ended.deployed, str(ended)
    assert 1 < ended.applies <= APPLIES_MAX


def test_the_table_has_a_row_for_each_way_to_end_and_a_place_in_the_page() -> None:
    ended = [
        Ended(0, True, 3, 20.0, (), ""),
        Ended(1, True, 2, 9.0, (), ""),
        Ended(2, True, 2, 17.4, (), ""),
        Ended(3, False, 1, 5.0, (), "Choose another region."),
        Ended(4, False, 1, 6.0, (), ""),
    ]
    assert table(ended).splitlines()[2:] == [
        "| deployed, in 2 applies | 2 | 17 |",
        "| deployed, in 3 applies | 1 | 20 |",
        "| stopped: Choose another region. | 1 | 5 |",
        "| FAILED | 1 | 6 |",
    ]
    assert KEPT.search(PAGE.read_text("utf-8"))
