"""Semaphores hold their properties in seeded worlds, and the simulation notices each clause that is left out."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation.__main__ import violations
from tests.simulation.faults_semaphores import FAULTS
from tests.simulation.world import Violation

SEEDS = 600
"""A few seconds' worth; `make simulate` runs more."""

FAULT_SEEDS_MAX = 3_000
"""Seeds until a planted fault must have been noticed; most are within a hundred."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        yield executor


def test_every_property_of_semaphores_holds_in_every_seed(pool: ProcessPoolExecutor) -> None:
    half = SEEDS // 2
    found = pool.map(violations, ["semaphores"] * 2, [range(half), range(half, SEEDS)])
    assert [violation for some in found for violation in some] == []


def noticed(index: int) -> int | None:
    """Give the first seed that notices a fault, or None."""
    fault = FAULTS[index]
    with fault.plant():
        for seed in range(FAULT_SEEDS_MAX):
            try:
                fault.run(seed)
            except Violation:
                return seed
    return None


def test_the_simulation_notices_every_clause_of_semaphores_that_is_left_out(pool: ProcessPoolExecutor) -> None:
    seeds = dict(zip(map(str, FAULTS), pool.map(noticed, range(len(FAULTS))), strict=True))
    assert [fault for fault, seed in seeds.items() if seed is None] == []
