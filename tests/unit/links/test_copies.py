"""Copies once all is quiet: they equal their sources, whichever client wrote those."""

from typing import Any

import pytest

from signalbox.documents.limits import LIMITS
from signalbox.documents.model.stamped_contents import RESERVED
from signalbox.documents.requests import FindRequest
from signalbox.documents.service import single_documents
from signalbox.links.limits import LIMITS as LINKS_LIMITS
from tests.unit.links.embedding_world import MISSING, embedding_world, linked
from tests.unit.operations_platform import OperationsPlatform


@pytest.fixture
def embedding() -> OperationsPlatform:
    return embedding_world()


def test_a_person_lives_at_an_address_that_moves() -> None:
    world = OperationsPlatform()
    address = {
        "type": "Address",
        "addr1": "1 thing st",
        "city": "stuffville",
        "zipcode": 54321,
        "tags": ["some", "tags"],
    }
    world.put("1234567", **address)
    world.put("897654", type="Person", name="Fred", address={"key": "1234567"})
    world.settle()
    fred = {"key": "897654", "type": "Person", "name": "Fred"}
    assert world.shown("897654") == {**fred, "address": {"key": "1234567", **address}}
    world.put("1234567", type="Address", addr1="2 thing st", zipcode=12345)
    world.settle()
    moved = {"key": "1234567", "type": "Address", "addr1": "2 thing st", "zipcode": 12345}
    assert world.shown("897654") == {**fred, "address": moved}
    assert (
        single_documents.find(world.ports, FindRequest.from_request(["address.zipcode==54321"], [], "", "")).documents
        == []
    )
    assert single_documents.find(
        world.ports, FindRequest.from_request(["address.zipcode==12345"], [], "", "")
    ).documents == [world.shown("897654")]


def test_a_copy_of_a_deleted_document_is_marked_and_filled_again(embedding: OperationsPlatform) -> None:
    single_documents.delete(embedding.ports, "t")
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": MISSING}
    embedding.put("t", n=2)
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}}


def test_a_link_may_come_before_what_it_links_to() -> None:
    world = OperationsPlatform()
    world.put("p", a={"key": "t"}, l=[{"key": "u"}, 1])
    world.settle()
    assert world.shown("p") == {"key": "p", "a": MISSING, "l": [{"key": "u", "link_missing": True}, 1]}
    world.put("t", n=1)
    world.put("u", n=2)
    world.settle()
    assert world.shown("p") == {"key": "p", "a": {"key": "t", "n": 1}, "l": [{"key": "u", "n": 2}, 1]}


def test_a_change_travels_over_two_links() -> None:
    world = OperationsPlatform()
    world.put("c", n=1)
    world.put("b", c={"key": "c"})
    world.put("a", b={"key": "b"})
    world.settle()
    world.put("c", n=2)
    world.settle()
    assert world.shown("a") == {"key": "a", "b": {"key": "b", "c": {"key": "c", "n": 2}}}
    assert world.record("documents/a")[RESERVED]["hops"] == 2


def test_fan_outs_of_documents_that_embed_each_other_end() -> None:
    world = OperationsPlatform()
    world.put("a", n=1, b={"key": "b"}, me={"key": "a"})
    world.put("b", n=1, a={"key": "a"})
    world.settle()
    world.put("a", n=2, b={"key": "b"}, me={"key": "a"})
    world.settle()
    cycle = {"key": "a", "link_cycle": True}
    assert world.shown("a") == {"key": "a", "n": 2, "b": {"key": "b", "n": 1, "a": cycle}, "me": cycle}
    back = {"key": "b", "link_cycle": True}
    assert world.shown("b") == {"key": "b", "n": 1, "a": {"key": "a", "n": 2, "b": back, "me": cycle}}


def test_a_fan_out_over_several_pages_reaches_every_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LINKS_LIMITS, "page_copies_max", 3)
    world = OperationsPlatform()
    world.put("t", n=1)
    for number in range(10):
        world.put(f"p{number}", a={"key": "t"}, l=[{"key": "t"}])
    world.put("other", n=1)
    world.settle()
    other = world.record("documents/other")
    world.put("t", n=2)
    world.settle()
    copy = {"key": "t", "n": 2}
    assert [world.shown(f"p{n}") for n in range(10)] == [{"key": f"p{n}", "a": copy, "l": [copy]} for n in range(10)]
    assert world.record("documents/other") == other


def chain_of(length: int, first: dict[str, Any]) -> OperationsPlatform:
    """Return a world at rest in which c1 has a content and each of c2, c3 … links to the one before."""
    world = OperationsPlatform()
    world.put("c1", **first)
    for number in range(2, length + 1):
        world.put(f"c{number}", n=1, x={"key": f"c{number - 1}"})
    world.settle()
    return world


def test_a_change_at_one_end_of_a_long_chain_ends_by_itself_and_leaves_nothing_stale() -> None:
    """This includes a change that moves the place where copies are cut. The result does not show how it arrived."""
    world = chain_of(41, {"n": 1})
    world.put("c0", n=1)
    world.put("c1", n=2, x={"key": "c0"})
    before = {f"c{number}": world.record(f"documents/c{number}") for number in range(2, 42)}
    world.settle()
    changed = [key for key, record in before.items() if world.record(f"documents/{key}")["x"] != record["x"]]
    assert changed == [f"c{number}" for number in range(2, LIMITS.link_levels_max + 2)]
    anew = chain_of(41, {"n": 2, "x": {"key": "c0"}})
    anew.put("c0", n=1)
    anew.settle()
    for number in range(42):
        assert world.shown(f"c{number}") == anew.shown(f"c{number}")
        content = {name: item for name, item in world.shown(f"c{number}").items() if name != "key"}
        assert world.put(f"c{number}", **content) == anew.shown(f"c{number}")


def test_a_chain_of_documents_with_hardly_room_for_each_other_shows_what_puts_now_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LIMITS, "document_bytes_max", 1_000)
    world = chain_of(30, {"n": "x" * 600})
    for number in range(2, 31):
        world.put(f"c{number}", n="x" * 300, x={"key": f"c{number - 1}"})
    world.settle()
    world.put("c1", n=1)
    world.settle()
    for number in range(1, 31):
        shown = world.shown(f"c{number}")
        world.put(f"c{number}", **{name: item for name, item in shown.items() if name != "key"})
        assert world.shown(f"c{number}") == shown


def test_a_copy_that_no_longer_fits_is_marked_and_placed_again_when_it_fits() -> None:
    world = OperationsPlatform()
    world.put("t", x="x" * 10)
    world.put("p", a={"key": "t"}, n="x" * 600_000)
    world.settle()
    world.put("t", x="x" * 500_000)
    world.settle()
    assert world.shown("p")["a"] == {"key": "t", "link_too_large": True}
    world.put("t", x="small")
    world.settle()
    assert world.shown("p")["a"] == {"key": "t", "x": "small"}


def test_a_refresh_keeps_the_users_content_and_is_not_a_put(embedding: OperationsPlatform) -> None:
    embedding.put("p", a={"key": "t"}, n=[1, [2.0]])
    embedding.settle()
    embedding.put("t", n=2)
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}, "n": [1, [2.0]]}
    stamp = embedding.record("documents/p")[RESERVED]
    assert (stamp["author"], stamp["linked"]) == ("refresh", False)


# --- another client ---


def test_a_write_of_another_client_is_normalized_and_copied(embedding: OperationsPlatform) -> None:
    embedding.write_past("t", {"n": 5})
    embedding.write_past("q", {"a": {"key": "t", "n": 0}})
    embedding.settle()
    copy = {"key": "t", "n": 5}
    assert embedding.shown("p") == {"key": "p", "a": copy}
    assert embedding.shown("q") == {"key": "q", "a": copy}
    embedding.put("t", n=6)
    embedding.settle()
    assert embedding.shown("q") == {"key": "q", "a": {"key": "t", "n": 6}}


def test_a_field_key_of_another_client_does_not_take_the_place_of_a_links_key(embedding: OperationsPlatform) -> None:
    embedding.write_past("t", {"key": "elsewhere", "n": 5})
    embedding.settle()
    assert embedding.shown("t") == {"key": "t", "n": 5}
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 5}}
    assert embedding.record("documents/p")[RESERVED]["link_keys"] == ["t"]


@pytest.mark.parametrize("also_older", [False, True], ids=["of the same version", "of an older version"])
def test_a_restored_record_that_is_unlinked_is_still_copied(also_older: bool) -> None:
    world = OperationsPlatform()
    world.put("t", n=1)
    old = world.record("documents/t")
    if also_older:
        world.put("t", n=1)
    world.put("p", a={"key": "t"})
    world.settle()
    world.write_past("t", old)
    world.settle()
    assert linked(world, "t") is True
    world.put("t", n=2)
    world.settle()
    assert world.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}}


def test_a_write_of_another_client_that_a_put_would_refuse_is_logged_and_left(embedding: OperationsPlatform) -> None:
    embedding.write_past("q", {"l": [{"key": "t"}] * 501})
    embedding.settle()
    assert embedding.record("documents/q") == {"l": [{"key": "t"}] * 501}
    assert embedding.reported == [
        (
            "document normalization rejected",
            {"document": "q", "reason": "A document has at most 500 links."},
        )
    ]
