"""The properties hold in thousands of seeded worlds, and the simulation notices each clause that is left out."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation import links_world
from tests.simulation.__main__ import violations
from tests.simulation.faults import FAULTS
from tests.simulation.world import Violation

SEEDS = {"links": 1_500, "outbox": 1_500}
"""A few seconds' worth; `make simulate SEEDS=100000` runs more."""

FAULT_SEEDS_MAX = 12_000
"""Seeds until a planted fault must have been noticed; most are within a hundred."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        yield executor


@pytest.mark.parametrize("world", sorted(SEEDS))
def test_every_property_holds_in_every_seed(world: str, pool: ProcessPoolExecutor) -> None:
    half = SEEDS[world] // 2
    found = pool.map(violations, [world] * 2, [range(half), range(half, 2 * half)])
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


def test_the_simulation_notices_every_clause_that_is_left_out(pool: ProcessPoolExecutor) -> None:
    seeds = dict(zip(map(str, FAULTS), pool.map(noticed, range(len(FAULTS))), strict=True))
    assert [fault for fault, seed in seeds.items() if seed is None] == []


def test_a_seed_replays_to_the_letter() -> None:
    first: list[str] = []
    again: list[str] = []
    links_world.run(8, first.append)
    links_world.run(8, again.append)
    assert first == again
    assert len(first) > 100
