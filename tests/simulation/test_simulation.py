"""The properties hold in thousands of seeded worlds, and the simulation notices each clause that is left out."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation import (
    faults_batches,
    faults_documents,
    faults_links,
    faults_outbox,
    faults_semaphores,
    faults_transforms,
    faults_verify,
)
from tests.simulation.__main__ import WORLDS, violations
from tests.simulation.reach import EVENTS_LATE, NAMES_REUSED, OUTAGES, RUN_AGAIN
from tests.simulation.world import Violation

SEEDS = {"links": 2_000, "outbox": 1_500, "semaphores": 1_500, "batches": 1_500, "verify": 500}
"""A few seconds' worth; `make simulate SEEDS=100000` runs more."""

FAULTS = {
    "links": faults_links.FAULTS + faults_transforms.FAULTS + faults_documents.FAULTS,
    "outbox": faults_outbox.FAULTS,
    "semaphores": faults_semaphores.FAULTS,
    "batches": faults_batches.FAULTS,
    "verify": faults_verify.FAULTS,
}

REACHED_IN = {
    "links": (NAMES_REUSED, EVENTS_LATE, OUTAGES),
    "outbox": (NAMES_REUSED, OUTAGES, RUN_AGAIN),
    "semaphores": (NAMES_REUSED, OUTAGES, RUN_AGAIN),
    "batches": (NAMES_REUSED, OUTAGES, RUN_AGAIN),
    "verify": (NAMES_REUSED, EVENTS_LATE, OUTAGES),
}
"""What the seeds of each world must reach: rare faults that a small change could make unreachable without a sign."""

FAULTS_SECONDS_MAX = 600
"""Thousands of seeds on two cores that other tests share."""

FAULT_SEEDS_MAX = 12_000
"""Seeds until a planted fault must have been noticed; most are within a hundred."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        yield executor


def test_every_world_has_its_seeds_and_its_faults() -> None:
    assert SEEDS.keys() == FAULTS.keys() == WORLDS.keys()
    assert all(FAULTS.values())


@pytest.mark.parametrize("world", sorted(WORLDS))
def test_every_property_holds_in_every_seed(world: str, pool: ProcessPoolExecutor) -> None:
    half = SEEDS[world] // 2
    chunks = list(pool.map(violations, [world] * 2, [range(half), range(half, SEEDS[world])]))
    assert [violation for found, _ in chunks for violation in found] == []
    reached = chunks[0][1] + chunks[1][1]
    assert [what for what in REACHED_IN[world] if not reached[what]] == []


def noticed(world: str, index: int) -> int | None:
    """Return the first seed that notices a fault, or None."""
    fault = FAULTS[world][index]
    with fault.plant():
        for seed in range(FAULT_SEEDS_MAX):
            try:
                fault.run(seed)
            except Violation:
                return seed
    return None


@pytest.mark.timeout(FAULTS_SECONDS_MAX)
@pytest.mark.parametrize("world", sorted(WORLDS))
def test_every_clause_that_is_left_out_is_noticed(world: str, pool: ProcessPoolExecutor) -> None:
    planted = FAULTS[world]
    seeds = pool.map(noticed, [world] * len(planted), range(len(planted)))
    assert [str(fault) for fault, seed in zip(planted, seeds, strict=True) if seed is None] == []


@pytest.mark.parametrize("world", sorted(WORLDS))
def test_a_seed_replays_to_the_letter(world: str) -> None:
    first: list[str] = []
    again: list[str] = []
    for seed in range(8, 12):
        WORLDS[world](seed, first.append)
        WORLDS[world](seed, again.append)
    assert first == again
    assert len(first) > 100
