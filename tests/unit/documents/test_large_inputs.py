"""Documents whose links have more to show than one request may hold: the same result, read in groups."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from signalbox.documents.machine import copies
from signalbox.documents.machine.patches import Null
from signalbox.documents.requests import BulkPutRequest, FindRequest, PatchRequest
from signalbox.documents.service import bulk, patches, single_documents
from signalbox.documents.storage import embedded_copies
from signalbox.links import tasks
from signalbox.links.service import refreshes
from signalbox.testing.replaced_limits import replaced
from signalbox.transforms import service
from signalbox.transforms.problems import TransformFailed
from signalbox.transforms.requests import PutTransformRequest
from tests.unit.operations_platform import OperationsPlatform

KEYS = "abcdef"
MISSING = "m"


@pytest.fixture
def world() -> Iterator[OperationsPlatform]:
    with replaced(document_bytes_max=900):
        yield OperationsPlatform()


def holding_little(world: OperationsPlatform, key: str, content: dict[str, Any]) -> Any:
    """Put a document by a request that holds one record at once."""
    with replaced(read_bytes_max=1):
        return world.put(key, **content)


@pytest.mark.parametrize("seed", range(30))
def test_a_document_shows_the_same_whether_its_targets_are_held_together_or_not(
    world: OperationsPlatform, seed: int
) -> None:
    random = Random(seed)
    if random.random() < 0.5:
        service.put(world.ports, PutTransformRequest.from_request("x", {"made": "#.n", "y": "#.y"}))
    for key in KEYS:
        world.put(key, n=key * random.choice((1, 40, 150, 300)), **some_links(random))
        world.settle()
    content = {"n": "p" * random.choice((1, 300)), **some_links(random), "z": [{"key": 7}, {"key": "p"}]}
    shown = world.put("p", **content)
    assert holding_little(world, "p", content) == shown
    assert holding_little(world, "p", {"n": 1} | content) == shown
    with replaced(read_bytes_max=1):
        assert not refreshes.normalize(world.ports, "p", by_another=False), "a put would store it so"


def some_links(random: Random) -> dict[str, Any]:
    """Return fields with links to some keys."""
    return {field: [{"key": random.choice(KEYS + MISSING)} for _ in range(random.randint(0, 3))] for field in "xy"}


def test_a_target_that_changes_between_sizes_and_copies_is_measured_again(
    world: OperationsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a", n="a")
    world.put("b", n="b")
    changed: list[Any] = []

    def change_then_choose(*args: Any) -> Any:
        if not changed:
            changed.append(world.put("a", n="a" * 890))
        return copies.fitting_levels(*args)

    monkeypatch.setattr(embedded_copies, "fitting_levels", change_then_choose)
    shown = holding_little(world, "p", {"x": {"key": "a"}, "y": {"key": "b"}})
    assert changed
    assert shown["x"] == {"key": "a", "link_too_large": True}
    assert shown["y"] == {"key": "b", "n": "b"}


def test_a_transform_that_fails_refuses_a_put_whose_inputs_are_large(world: OperationsPlatform) -> None:
    service.put(world.ports, PutTransformRequest.from_request("x", "#.n"))
    world.put("a", n=1)
    world.put("b", n=1)
    with pytest.raises(TransformFailed) as failed:
        holding_little(world, "p", {"x": {"key": "a"}, "y": {"key": "b"}})
    assert failed.value.field == "x"


def test_a_patch_embeds_the_links_that_stay_and_come(world: OperationsPlatform) -> None:
    for key in "ab":
        world.put(key, n=key * 100)
    world.put("p", x={"key": "a"})
    with replaced(read_bytes_max=1):
        request = PatchRequest.from_request("p", {"y": {"key": "b"}}, Null.IS_A_VALUE)
        shown = patches.patch(world.ports, request).document
    assert shown == {"key": "p", "x": {"key": "a", "n": "a" * 100}, "y": {"key": "b", "n": "b" * 100}}


def test_a_call_of_many_documents_puts_alone_what_needs_more_than_it_holds(world: OperationsPlatform) -> None:
    world.put("a", n="a" * 100)
    world.put("b", n="b" * 100)
    bodies = [{"key": "p", "x": [{"key": "a"}, {"key": "b"}]}, {"key": "q", "x": {"key": "p"}}, {"key": "r", "n": 1}]
    with replaced(read_bytes_max=1):
        results = bulk.put_each(world.ports, BulkPutRequest.from_request(bodies))
    embedded = [{"key": "a", "n": "a" * 100}, {"key": "b", "n": "b" * 100}]
    assert [each.outcome.document for each in results] == [  # type: ignore[union-attr]  # no put is refused here
        {"key": "p", "x": embedded},
        {"key": "q", "x": {"key": "p", "x": embedded}},
        {"key": "r", "n": 1},
    ]


def test_results_of_many_documents_need_not_hold_them(world: OperationsPlatform) -> None:
    [result] = bulk.put_each(world.ports, BulkPutRequest.from_request([{"key": "a", "n": 1}]), documents_wanted=False)
    assert result.outcome.document == {}  # type: ignore[union-attr]  # no put is refused here
    assert world.record("documents/a")["n"] == 1


def test_a_page_of_large_documents_ends_early_and_the_next_begins_behind_it(world: OperationsPlatform) -> None:
    for key in KEYS:
        world.put(key, n=key * 200)
    found, token = [], ""
    with replaced(read_bytes_max=500):
        for _ in range(3):
            page = single_documents.find(world.ports, FindRequest.from_request([], [], "5", token))
            found.append([one["key"] for one in page.documents])
            token = page.next_page_token
        assert single_documents.find(world.ports, FindRequest.from_request([], [], "5", token)).documents == []
    assert found == [["a", "b"], ["c", "d"], ["e", "f"]]


def test_a_fan_out_of_large_documents_reaches_them_all(world: OperationsPlatform) -> None:
    world.put("t", n="1")
    for key in KEYS:
        world.put(key, n=key * 200, x={"key": "t"})
    world.settle()
    with replaced(read_bytes_max=500):
        world.put("t", n="2")
        world.settle()
    assert [world.record(f"documents/{key}")["x"]["n"] for key in KEYS] == ["2"] * len(KEYS)


def test_documents_that_grew_while_they_were_refreshed_are_read_again_in_groups(world: OperationsPlatform) -> None:
    world.put("t", n="1")
    for key in KEYS:
        world.put(key, x={"key": "t"})
    world.settle()
    linking = world.store.read(*(f"documents/{key}" for key in KEYS))
    world.put("t", n="2")
    for key in KEYS:  # each loses its guard, and shows an old copy again
        world.write_past(key, {**(linking[0].data or {}), "n": key * 200})
    inputs = world.store.read("documents/t")
    with replaced(read_bytes_max=500):
        refreshes.refresh(world.ports, "t", linking, inputs)
        world.settle()
    assert [world.record(f"documents/{key}")["x"]["n"] for key in KEYS] == ["2"] * len(KEYS)


def test_the_event_of_a_put_compares_every_group_of_its_targets(world: OperationsPlatform) -> None:
    for key in KEYS:
        world.put(key, n=key)
    world.settle()
    with replaced(read_bytes_max=1):
        world.put("p", x=[{"key": key} for key in KEYS])
        world.settle()
        for key in KEYS:
            world.put(key, n=key * 2)
        world.settle()
    assert [copy["n"] for copy in world.record("documents/p")["x"]] == [key * 2 for key in KEYS]


def test_a_task_of_a_target_that_has_become_large_is_done(world: OperationsPlatform) -> None:
    world.put("t", n="1")
    world.put("p", x={"key": "t"})
    world.settle()
    world.put("t", n="t" * 890)
    world.settle()
    with replaced(read_bytes_max=1):
        tasks.run_link_task(world.ports, "copy", {"event": "e", "work": {"key": "t", "document": "p"}})
    assert world.record("documents/p")["x"] == {"key": "t", "link_too_large": True}
