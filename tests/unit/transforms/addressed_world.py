"""Fred, who lives at an address, and the transform of addresses: where the tests of transforms begin."""

from typing import Any

import pytest

from signalbox.transforms import service
from signalbox.transforms.requests import PutTransformRequest
from tests.unit.operations_platform import OperationsPlatform

ADDRESS: dict[str, Any] = {
    "type": "Address",
    "addr1": "1 thing st",
    "city": "stuffville",
    "zipcode": 54321,
    "tags": ["some", "tags"],
}
FULL = {"fulladdr": "{{.addr1}}, {{.city}} {{.zipcode}}"}
SHOWN_FULL = {"key": "1234567", "fulladdr": "1 thing st, stuffville 54321"}


@pytest.fixture
def world() -> OperationsPlatform:
    """A world at rest in which Fred lives at an address, and a transform makes one line of addresses."""
    world = OperationsPlatform()
    service.put(world.ports, PutTransformRequest.from_request("address", FULL))
    world.put("1234567", **ADDRESS)
    world.put("897654", type="Person", name="Fred", address={"key": "1234567"})
    world.settle()
    return world
