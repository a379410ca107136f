"""A first deployment comes through Google's delays, or stops with what to do: some seeds of `first_deployments`."""

from pathlib import Path

import pytest

from infra.deploy import flow
from tests.infra.deploy.first_deployments import first_deployment

SEEDS = (0, 4, 5)
"""A project with slow APIs; one that also contends for its indexes and builds too early; one that fails half-way."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_first_deployment_comes_through(
    seed: int, tmp_path: Path, zips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "build", lambda *_: [])
    ended = first_deployment(seed, tmp_path, zips)
    assert ended.deployed, str(ended)
    assert 1 < ended.applies <= 4
