"""Every property holds although reads find half a commit, as those of Google's emulator do."""

from collections.abc import Callable

import pytest

from signalbox.core.ports import Ports, Put, Query
from tests.simulation.__main__ import OF_DRIVER, WORLDS, violations
from tests.simulation.half_commits import half_commits
from tests.simulation.reached_counts import HALF_COMMITS
from tests.simulation.world import World

SEEDS = 40
"""Of each world; `python -m tests.simulation --torn 1 --seeds 5000` runs more."""

PAIR = ("d/b", "d/a")
"""In the order of the writes of a commit, which is not that of their ids."""


@pytest.mark.slow
@pytest.mark.parametrize("world", sorted(WORLDS.keys() - OF_DRIVER))
def test_every_property_holds_although_reads_find_half_a_commit(world: str) -> None:
    found, reached = violations(world, range(SEEDS), torn=1.0)
    assert found == []
    assert reached[HALF_COMMITS] > 0


def by_paths(ports: Ports) -> tuple[int, ...]:
    return tuple((one.data or {"n": 0})["n"] for one in ports.store.read(*PAIR))


def by_query(ports: Ports) -> tuple[int, ...]:
    found = {one.path: one.data or {} for one in ports.store.query(Query("d"))}
    return tuple(found.get(path, {"n": 0})["n"] for path in PAIR)


@pytest.mark.parametrize("read", [by_paths, by_query])
@pytest.mark.parametrize(("share", "differences"), [(0.0, {0}), (1.0, {0, 1})])
def test_a_read_finds_the_first_writes_of_a_commit_without_the_others(
    read: Callable[[Ports], tuple[int, ...]], share: float, differences: set[int]
) -> None:
    seen = set()

    def write(world: World) -> None:
        for n in range(1, 20):
            world.ports.store.commit([Put(path, {"n": n}) for path in PAIR])

    def look(world: World) -> None:
        for _ in range(20):
            first, second = read(world.ports)
            seen.add(first - second)

    with half_commits(share):
        world = World(1)
        world.fault_rates.left = 0
        world.run(
            [lambda: world.start("writer", lambda: write(world)), lambda: world.start("reader", lambda: look(world))]
        )
    assert seen == differences


def test_what_was_committed_before_a_read_began_is_found_whole() -> None:
    with half_commits(1.0):
        world = World(1)
        world.fault_rates.left = 0
        seen = []

        def write_and_read() -> None:
            for n in range(1, 20):
                world.ports.store.commit([Put(path, {"n": n}) for path in PAIR])
                seen.append(by_paths(world.ports))

        world.run([lambda: world.start("alone", write_and_read)])
    assert seen == [(n, n) for n in range(1, 20)]
