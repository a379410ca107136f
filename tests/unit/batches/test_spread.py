"""Records of a batch that are written hundreds of times a second spread over the range of ids."""

from collections import Counter

import pytest

from signalbox.batches.model.tree import BatchRun, PageNode, spread

RUN = BatchRun("b", "i")
CONSECUTIVE, RANGES = 500, 16


def ranges(ids: list[str]) -> Counter[str]:
    """Count the ids in each of 16 ranges: those that begin with the same digit."""
    return Counter(one.removeprefix("i-").removeprefix("c-")[0] for one in ids)


@pytest.mark.parametrize("first", [0, 7, 99_750, 799_500])
def test_consecutive_units_fall_evenly_over_the_ranges(first: int) -> None:
    found = ranges([RUN.unit_id(index) for index in range(first, first + CONSECUTIVE)])
    assert len(found) == RANGES
    assert max(found.values()) - min(found.values()) <= 1


@pytest.mark.parametrize("first", [0, 7, 99_750])
def test_a_unit_and_the_next_are_never_neighbours(first: int) -> None:
    ids = sorted(RUN.unit_id(index) for index in range(first, first + CONSECUTIVE))
    place = {one: at for at, one in enumerate(ids)}
    apart = [abs(place[RUN.unit_id(index)] - place[RUN.unit_id(index + 1)]) for index in range(first, first + 499)]
    assert min(apart) >= CONSECUTIVE // RANGES - 1


@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_the_entries_of_the_index_on_state_are_spread_as_the_ids_are(state: str) -> None:
    """An entry is the value, then the record: of one value, the entries sort by ids."""
    entries = sorted((state, RUN.unit_id(index)) for index in range(1_000, 1_000 + CONSECUTIVE))
    assert ranges([id_ for _, id_ in entries]) == ranges([RUN.unit_id(index) for index in range(1_000, 1_500)])
    assert len(ranges([id_ for _, id_ in entries])) == RANGES


def test_counters_of_consecutive_pages_fall_into_different_ranges() -> None:
    counters = [counter for page in range(RANGES) for counter in PageNode(page, 0, 100, None).counters()]
    ids = [RUN.counter_path(counter).rpartition("/")[2] for counter in counters]
    assert set(ranges(ids).values()) == {5}


def test_every_number_has_an_id_of_its_own() -> None:
    assert len({spread(number) for number in range(20_000)}) == 20_000
    assert spread(0x12AB) == "ba210000"
