"""Records, writes and tasks grow as the units do, and no record is written often, whatever the size."""

import pytest

from tests.batch_sizes.sizes import WRITES_MAX, Run, Size, of_depth, of_size


def check_linear(sizes: list[Size]) -> None:
    """Check that a unit of the largest costs what one of the smallest does, but for some records of the batch."""
    smallest, *others = sizes
    for size in others:
        for name in ("records", "writes", "tasks"):
            share = getattr(size, name) / size.units
            assert share == pytest.approx(getattr(smallest, name) / smallest.units, rel=0.02), (name, size)
    assert max(size.hottest for size in sizes) <= WRITES_MAX
    assert {size.completions for size in sizes} == {1}


def test_batches_grow_linearly() -> None:
    check_linear([of_size(size) for size in (1_000, 8_000)])


def test_a_limit_of_what_runs_at_once_makes_no_record_hot() -> None:
    size = Run().flat(1_000, concurrency=7)
    assert (size.units, size.completions) == (1_000, 1)
    assert size.hottest <= WRITES_MAX


def test_sub_batches_of_sub_batches_end_once() -> None:
    size = of_depth(6)
    assert (size.units, size.completions) == (2**7 - 1, 1)
    assert size.hottest <= WRITES_MAX


@pytest.mark.marathon
@pytest.mark.timeout(3_600)
def test_a_million_units_grow_linearly() -> None:
    sizes = [of_size(size) for size in (10_000, 100_000, 800_000, 1_000_000)]
    assert [size.units for size in sizes] == [10_000, 100_000, 800_000, 1_000_100]
    check_linear(sizes)


@pytest.mark.marathon
@pytest.mark.timeout(3_600)
def test_sixteen_levels_of_sub_batches_end_once() -> None:
    size = of_depth(16)
    assert (size.units, size.completions) == (131_071, 1)
    assert size.hottest <= WRITES_MAX
