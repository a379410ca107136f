"""Transforms: the copies under links in a field are their output, and follow target and transform."""

from dataclasses import replace

import pytest

from signalbox.core.problems import BadKey, NotFound
from signalbox.documents.requests import FindRequest
from signalbox.documents.service import single_documents
from signalbox.transforms import service
from signalbox.transforms.problems import BadTransform, TransformFailed
from signalbox.transforms.requests import PutTransformRequest
from tests.unit.operations_platform import OperationsPlatform
from tests.unit.transforms.addressed_world import ADDRESS, FULL, SHOWN_FULL
from tests.unit.transforms.addressed_world import world as world


def test_a_put_embeds_the_output_of_the_fields_transform(world: OperationsPlatform) -> None:
    assert world.shown("897654") == {"key": "897654", "type": "Person", "name": "Fred", "address": SHOWN_FULL}
    assert single_documents.find(
        world.ports, FindRequest.from_request(["address.fulladdr==1 thing st, stuffville 54321"], [], "", "")
    ).documents == [world.shown("897654")]


def test_a_transform_is_applied_to_each_link_in_a_list_and_at_any_depth(world: OperationsPlatform) -> None:
    link = {"key": "1234567"}
    shown = world.put("p", address=[link, "text", [link]], home={"address": link, "other": link})
    plain = {"key": "1234567", **ADDRESS}
    assert shown == {
        "key": "p",
        "address": [SHOWN_FULL, "text", [SHOWN_FULL]],
        "home": {"address": SHOWN_FULL, "other": plain},
    }


def test_output_follows_its_target_under_every_field(world: OperationsPlatform) -> None:
    service.put(world.ports, PutTransformRequest.from_request("town", {"name": "#.city"}))
    world.put("p", address={"key": "1234567"}, town=[{"key": "1234567"}], plain={"key": "1234567"})
    world.settle()
    moved = {"addr1": "2 thing st", "city": "somewheretown", "zipcode": 12345}
    world.put("1234567", **moved)
    world.settle()
    assert world.shown("p") == {
        "key": "p",
        "address": {"key": "1234567", "fulladdr": "2 thing st, somewheretown 12345"},
        "town": [{"key": "1234567", "name": "somewheretown"}],
        "plain": {"key": "1234567", **moved},
    }


def test_a_links_own_key_wins_and_the_source_has_its_key(world: OperationsPlatform) -> None:
    service.put(
        world.ports,
        PutTransformRequest.from_request("l", {"key": "another", "of": "#.key", "inner": {"key": "1234567", "n": 1}}),
    )
    assert world.put("p", l={"key": "1234567"})["l"] == {
        "key": "1234567",
        "of": "1234567",
        "inner": {"key": "1234567", "link_cycle": True},
    }


def test_a_missing_target_ignores_the_transform_and_so_does_a_link_to_itself(world: OperationsPlatform) -> None:
    assert world.put("p", address=[{"key": "nobody"}, {"key": None}, {"key": "p"}])["address"] == [
        {"key": "nobody", "link_missing": True},
        {"key": None, "link_missing": True},
        {"key": "p", "link_cycle": True},
    ]
    world.settle()
    single_documents.delete(world.ports, "1234567")
    world.settle()
    assert world.shown("897654")["address"] == {"key": "1234567", "link_missing": True}
    world.put("1234567", **ADDRESS)
    world.settle()
    assert world.shown("897654")["address"] == SHOWN_FULL


def test_a_put_is_refused_where_output_is_not_an_object_and_nothing_is_lost(world: OperationsPlatform) -> None:
    service.put(world.ports, PutTransformRequest.from_request("part", "#.detail"))
    world.put("t", detail={"n": 1})
    world.put("p", part=[{"key": "t"}])
    before = world.record("documents/p")
    world.put("u", detail=5)
    with pytest.raises(TransformFailed) as refused:
        world.put("p", part=[{"key": "t"}, {"key": "u"}])
    assert (refused.value.status, refused.value.field) == (409, "part[1]")
    assert world.record("documents/p") == before


def test_a_copy_whose_transform_fails_is_marked_and_logged_until_it_succeeds(
    world: OperationsPlatform,
) -> None:
    service.put(world.ports, PutTransformRequest.from_request("part", "#.detail"))
    world.put("t", detail={"n": 1})
    world.put("p", part={"key": "t"}, n=1)
    world.settle()
    world.put("t", detail=5)
    world.settle()
    assert world.shown("p") == {"key": "p", "part": {"key": "t", "link_transform_failed": True}, "n": 1}
    assert world.reported == [("transform output is not an object", {"document": "p", "field": "part"})]
    world.put("t", detail={"n": 2})
    world.settle()
    assert world.shown("p")["part"] == {"key": "t", "n": 2}


def test_a_key_in_a_transform_is_not_a_link(world: OperationsPlatform) -> None:
    transform = {"a": {"key": "1234567"}, "b": [[{"key": "x"}]]}
    stored = service.put(world.ports, PutTransformRequest.from_request("l", transform))
    assert (stored.transform, stored.created) == (transform, True)
    assert service.get(world.ports, "l") == replace(stored, created=False)
    assert world.events == []
    assert world.ids("wanted") == []


def test_a_put_replaces_a_transform_and_an_unknown_one_is_not_found(world: OperationsPlatform) -> None:
    first = service.get(world.ports, "address")
    again = service.put(world.ports, PutTransformRequest.from_request("address", {"n": 1}))
    assert (again.transform, again.created) == ({"n": 1}, False)
    assert again.etag != first.etag
    for call in (service.get, service.delete):
        with pytest.raises(NotFound):
            call(world.ports, "nobody")


def test_an_invalid_transform_or_name_is_refused_and_stores_nothing() -> None:
    world = OperationsPlatform()
    with pytest.raises(BadTransform):
        service.put(world.ports, PutTransformRequest.from_request("address", "text"))
    with pytest.raises(BadKey):
        service.put(world.ports, PutTransformRequest.from_request("key", FULL))
    assert [world.ids(collection) for collection in ("transforms", "outbox")] == [[], []]
