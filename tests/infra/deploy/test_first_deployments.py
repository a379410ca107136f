"""A first deployment comes through Google's delays, or stops with what to do: some seeds of `first_deployments`."""

from pathlib import Path

import pytest

from infra.deploy import flow
from infra.deploy.applying import APPLIES_MAX
from tests.infra.deploy.first_deployments import first_deployment

SEEDS = (4, 20)
"""A project that contends for its indexes and builds too early; one that also fails half-way."""


@pytest.mark.parametrize("seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[1:])])
def test_a_first_deployment_comes_through(
    seed: int, tmp_path: Path, zips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "build", lambda *_: [])
    ended = first_deployment(seed, tmp_path, zips)
    assert ended.deployed, str(ended)
    assert 1 < ended.applies <= APPLIES_MAX
