"""What one request takes in memory at its peak, and that as many as an instance handles fit into its memory."""

import re

import pytest

from signalbox.catalogue import reading as catalogues
from signalbox.core.limits import LIMITS
from tests.memory.largest_requests import REQUESTS
from tests.memory.peak_memory import measured

pytestmark = pytest.mark.slow

UNITS = {"Mi": 2**20, "Gi": 2**30}
ON_DOCUMENTS = ("documents", "link_fan_out", "link_refresh", "link_verify")
WORST = "page"


def assert_within_the_limits(host: str, names: list[str]) -> None:
    """Measure requests. Neither a request nor the idle process before it may take more than its bound."""
    for name, (base, held) in measured(host, names):
        assert held <= LIMITS.request_memory_bytes_max, name
        assert base <= LIMITS.instance_memory_bytes, name


def test_the_largest_request_takes_no_more_than_its_bound(firestore_emulator: str) -> None:
    assert_within_the_limits(firestore_emulator, [WORST])


@pytest.mark.marathon
def test_no_request_takes_more_than_its_bound(firestore_emulator: str) -> None:
    assert_within_the_limits(firestore_emulator, [name for name in REQUESTS if name != WORST])


@pytest.mark.parametrize("name", ON_DOCUMENTS)
def test_the_requests_that_an_instance_handles_at_once_fit_into_its_memory(name: str) -> None:
    function = catalogues.load().functions[name]
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", function.memory).groups()  # type: ignore[union-attr]  # the catalogue checks the form
    taken = LIMITS.instance_memory_bytes + function.concurrency * LIMITS.request_memory_bytes_max
    assert taken <= int(number) * UNITS[unit]
