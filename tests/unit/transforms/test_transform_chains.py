"""Changes that travel through transforms over many links: they end."""

from typing import Any

import pytest

from signalbox.documents.limits import LIMITS
from signalbox.transforms import service
from signalbox.transforms.requests import PutTransformRequest
from tests.unit.operations_platform import OperationsPlatform
from tests.unit.transforms.addressed_world import world as world


@pytest.fixture
def chain() -> OperationsPlatform:
    """A world in which a change travels through transforms over more links than any may."""
    world = OperationsPlatform()
    service.put(world.ports, PutTransformRequest.from_request("x", {"n": "{{.n}}{{.x .n}}"}))
    world.put("d0", n="a")
    for number in range(1, LIMITS.hops_max + 4):
        world.put(f"d{number}", x={"key": f"d{number - 1}"})
    world.settle()
    return world


def test_a_change_travels_through_transforms_over_a_bounded_number_of_links(chain: OperationsPlatform) -> None:
    assert chain.shown(f"d{LIMITS.hops_max + 3}")["x"] == {"key": f"d{LIMITS.hops_max + 2}", "n": "a"}
    chain.put("d0", n="b")
    chain.settle()
    assert chain.shown(f"d{LIMITS.hops_max}")["x"]["n"] == "b"
    assert chain.shown(f"d{LIMITS.hops_max + 1}")["x"] == {"key": f"d{LIMITS.hops_max}", "link_cycle": True}


def test_a_put_fills_copies_that_were_cut_at_the_last_hop(chain: OperationsPlatform) -> None:
    chain.put("d0", n="b")
    chain.settle()
    far = f"d{LIMITS.hops_max}"
    before = chain.shown(far)
    chain.put(far, x={"key": f"d{LIMITS.hops_max - 1}"})
    assert chain.shown(far) == before
    chain.settle()
    assert chain.shown(f"d{LIMITS.hops_max + 1}")["x"] == {"key": far, "n": "b"}


@pytest.mark.parametrize(
    "transform",
    [{"x": "{{.x .x}}+"}, {"x": ["#.x .x", "#.n"]}, {"x": ["#.x .x @:", "{{.x .x}}"]}, {"x": {"x": "#.x .x"}}],
    ids=["a letter a hop", "a level a hop", "twice as long each hop", "an object a hop"],
)
def test_growth_round_a_cycle_of_documents_ends(transform: Any) -> None:
    world = OperationsPlatform()
    service.put(world.ports, PutTransformRequest.from_request("x", transform))
    for key, target in ("ab", "bc", "ca"):
        world.put(key, x={"key": target}, n=1)
    world.settle()
    first = [world.shown(key) for key in "abc"]
    world.put("b", x={"key": "c"}, n=2)
    world.settle()
    assert [world.shown(key)["n"] for key in "abc"] == [1, 2, 1]
    assert [world.shown(key) for key in "abc"] != first
