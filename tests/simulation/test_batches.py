"""Batches end once, whole and with exact counts in thousands of seeded worlds, and each clause left out is noticed."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation import batches_world
from tests.simulation.__main__ import violations
from tests.simulation.faults_batches import FAULTS
from tests.simulation.world import Violation

SEEDS = 1_500
"""A few seconds' worth; `make simulate SEEDS=100000` runs more."""

FAULT_SEEDS_MAX = 6_000
"""Seeds until a planted fault must have been noticed; most are within a hundred."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        yield executor


def test_every_property_of_batches_holds_in_every_seed(pool: ProcessPoolExecutor) -> None:
    found = pool.map(violations, ["batches"] * 2, [range(SEEDS // 2), range(SEEDS // 2, SEEDS)])
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


def test_every_clause_of_the_batches_protocol_that_is_left_out_is_noticed(pool: ProcessPoolExecutor) -> None:
    seeds = dict(zip(map(str, FAULTS), pool.map(noticed, range(len(FAULTS))), strict=True))
    assert [fault for fault, seed in seeds.items() if seed is None] == []


def test_a_seed_of_batches_replays_to_the_letter() -> None:
    first: list[str] = []
    again: list[str] = []
    batches_world.run(7, first.append)
    batches_world.run(7, again.append)
    assert first == again
    assert len(first) > 20
