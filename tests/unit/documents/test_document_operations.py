"""Documents are put, got, deleted and found."""

from dataclasses import replace
from typing import Any

import pytest

from signalbox.core.ports import Put
from signalbox.core.problems import BadKey, BadQuery, NotFound, Problem, TooLarge
from signalbox.documents.model.stamped_contents import RESERVED, path_of
from signalbox.documents.problems import ReservedField
from signalbox.documents.requests import FindRequest, PutRequest
from signalbox.documents.service import single_documents
from signalbox.documents.shown import DocumentsShown
from tests.unit.operations_platform import OperationsPlatform


def find(
    world: OperationsPlatform, *where: str, order_by: tuple[str, ...] = (), limit: str = "", page_token: str = ""
) -> DocumentsShown:
    return single_documents.find(world.ports, FindRequest.from_request(where, order_by, limit, page_token))


def keys(found: DocumentsShown) -> list[str]:
    return [document["key"] for document in found.documents]


def paged(world: OperationsPlatform, *where: str, order_by: tuple[str, ...] = ()) -> list[str]:
    """Collect the keys of all pages of two."""
    page = find(world, *where, order_by=order_by, limit="2")
    collected = keys(page)
    while page.next_page_token:
        page = find(world, *where, order_by=order_by, limit="2", page_token=page.next_page_token)
        collected += keys(page)
    return collected


def test_a_document_is_returned_as_put_with_its_key_and_without_metadata() -> None:
    world = OperationsPlatform()
    content = {"n": 1, "f": 1.0, "l": [[1, []], {}], "m": {"[]": {"[][]": None}}, "t": "x" * 700, "é.b": True}
    stored = single_documents.put(world.ports, PutRequest.from_request("a", {**content, "key": "a"}))
    assert stored.document == {"key": "a", **content}
    got = world.shown("a")
    assert got == {"key": "a", **content}
    assert (type(got["n"]), type(got["f"])) == (int, float)


def test_a_put_replaces_all_that_was_there() -> None:
    world = OperationsPlatform()
    first = single_documents.put(world.ports, PutRequest.from_request("a", {"old": 1, "n": 1}))
    second = single_documents.put(world.ports, PutRequest.from_request("a", {"n": 2}))
    assert (first.created, second.created) == (True, False)
    assert world.shown("a") == {"key": "a", "n": 2}


def test_every_put_has_another_etag_and_get_shows_the_last() -> None:
    world = OperationsPlatform()
    etags = [single_documents.put(world.ports, PutRequest.from_request("a", {"n": n})).etag for n in (1, 2, 1)]
    assert len(set(etags)) == 3
    assert single_documents.get(world.ports, "a").etag == etags[-1]


def test_an_etag_is_not_that_of_an_earlier_life() -> None:
    world = OperationsPlatform()
    first = single_documents.put(world.ports, PutRequest.from_request("a", {"n": 1})).etag
    single_documents.delete(world.ports, "a")
    assert single_documents.put(world.ports, PutRequest.from_request("a", {"n": 1})).etag != first


def test_an_etag_stays_when_a_document_is_only_marked_as_linked() -> None:
    world = OperationsPlatform()
    etag = single_documents.put(world.ports, PutRequest.from_request("t", {"n": 1})).etag
    world.put("p", a={"key": "t"})
    world.settle()
    assert world.record(path_of("t"))[RESERVED]["linked"] is True
    assert single_documents.get(world.ports, "t").etag == etag


def test_every_write_of_another_client_has_an_etag_of_its_own() -> None:
    world = OperationsPlatform()
    etags = [single_documents.put(world.ports, PutRequest.from_request("a", {"n": 1})).etag]
    stamped = world.record(path_of("a"))
    for data in ({**stamped, "n": 2}, {"n": 2}, {"n": 1}, {**stamped, "n": 2}):
        world.pass_time(1)
        world.write_past("a", data)
        etags.append(single_documents.get(world.ports, "a").etag)
    world.settle()
    etags.append(single_documents.get(world.ports, "a").etag)
    assert len(set(etags)) == len(etags)


def test_a_record_that_another_client_restores_has_its_former_etag() -> None:
    world = OperationsPlatform()
    first = single_documents.put(world.ports, PutRequest.from_request("a", {"n": 1}))
    record = world.record(path_of("a"))
    world.put("a", n=2)
    world.write_past("a", record)
    assert single_documents.get(world.ports, "a") == replace(first, created=False)


def test_a_refreshed_copy_changes_the_etag() -> None:
    world = OperationsPlatform()
    world.put("t", n=1)
    etag = single_documents.put(world.ports, PutRequest.from_request("p", {"a": {"key": "t"}})).etag
    world.settle()
    assert single_documents.get(world.ports, "p").etag == etag
    world.put("t", n=2)
    world.settle()
    assert single_documents.get(world.ports, "p").etag != etag


def test_a_put_embeds_its_targets_as_they_are() -> None:
    world = OperationsPlatform()
    world.put("1234567", addr1="1 thing st", city="stuffville")
    put = world.put("897654", name="Fred", address={"key": "1234567", "city": "elsewhere"}, boss={"key": "nobody"})
    assert put == {
        "key": "897654",
        "name": "Fred",
        "address": {"key": "1234567", "addr1": "1 thing st", "city": "stuffville"},
        "boss": {"key": "nobody", "link_missing": True},
    }
    assert world.shown("897654") == put


def test_a_put_writes_no_record_but_its_own() -> None:
    world = OperationsPlatform()
    world.put("t", n=1)
    before = world.record("documents/t")
    world.put("p", a={"key": "t"})
    assert world.record("documents/t") == before
    assert (world.ids("wanted"), world.ids("outbox"), world.tasks) == ([], [], [])


def test_a_put_over_another_clients_record_counts_as_embedded() -> None:
    world = OperationsPlatform()
    world.write_past("a", {"n": 1})
    world.put("a", n=2)
    world.put("b", n=2)
    assert world.record("documents/a")[RESERVED]["linked"] is True
    assert world.record("documents/b")[RESERVED]["linked"] is False


def test_what_was_deleted_is_not_found_and_cannot_be_deleted_again() -> None:
    world = OperationsPlatform()
    world.put("a", n=1)
    single_documents.delete(world.ports, "a")
    for call in (single_documents.get, single_documents.delete):
        with pytest.raises(NotFound) as refused:
            call(world.ports, "a")
        assert (refused.value.status, refused.value.field) == (404, "key")


@pytest.mark.parametrize(
    ("key", "body", "problem"),
    [
        ("__x__", {}, BadKey),
        ("a", {"key": "b"}, BadKey),
        ("a", {RESERVED: 1}, ReservedField),
        ("a", {"n": "x" * 1_000_000}, TooLarge),
        ("a", {"l": [{"key": "t"}] * 501}, TooLarge),
        ("a", {"a": {"key": "t"}, "n": "x" * 999_980}, TooLarge),
    ],
)
def test_a_put_that_is_refused_leaves_what_was_there(key: str, body: Any, problem: type[Problem]) -> None:
    world = OperationsPlatform()
    world.put("a", n=1)
    before = world.record("documents/a")
    with pytest.raises(problem):
        single_documents.put(world.ports, PutRequest.from_request(key, body))
    assert (world.ids("documents"), world.record("documents/a")) == (["a"], before)


def test_a_bad_key_is_refused_by_get_and_delete() -> None:
    world = OperationsPlatform()
    for call in (single_documents.get, single_documents.delete):
        with pytest.raises(BadKey):
            call(world.ports, "..")


# --- queries ---


@pytest.fixture
def people() -> OperationsPlatform:
    """Five people, four of them at two addresses."""
    world = OperationsPlatform()
    world.put("home", zipcode=54321, tags=["some", "tags"])
    world.put("work", zipcode=12345, tags=["other"])
    world.put("ann", age=30, name="Ann", address={"key": "home"}, likes=["tea", 1])
    world.put("bob", age=40, name="Bob", address={"key": "work"}, likes=["tea", [2]])
    world.put("cid", age=30, name="Cid", address={"key": "home"}, likes=[])
    world.put("dot", age=50, name="Dot", address={"key": "home"}, likes=[[1], {"a": 1}])
    world.put("eve", age="old", name="Eve")
    world.settle()
    return world


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (("address.zipcode==54321",), ["ann", "cid", "dot"]),
        (("address.key==work",), ["bob"]),
        (("address.tags contains some", "age==30"), ["ann", "cid"]),
        (("likes contains tea",), ["ann", "bob"]),
        (("likes contains 1",), ["ann"]),
        (("likes contains [2]",), ["bob"]),
        (("likes==[]",), ["cid"]),
        (('likes==[[1],{"a":1}]',), ["dot"]),
        (('name in ["Eve","Ann"]',), ["ann", "eve"]),
        (("age>30",), ["bob", "dot"]),
        (("age>=30", "age<50"), ["ann", "cid", "bob"]),
        (("age==old",), ["eve"]),
        (("age!=30",), ["bob", "dot", "eve"]),
        (("age==30.0",), ["ann", "cid"]),
        (("age==thirty",), []),
    ],
)
def test_documents_are_found_by_what_they_hold_or_embed(
    people: OperationsPlatform, where: tuple[str, ...], found: list[str]
) -> None:
    assert keys(find(people, *where)) == found
    assert paged(people, *where) == found


def test_a_query_returns_documents_as_get_does(people: OperationsPlatform) -> None:
    [bob] = find(people, "name==Bob").documents
    assert bob == people.shown("bob")
    assert bob["address"] == {"key": "work", "zipcode": 12345, "tags": ["other"]}


@pytest.mark.parametrize(
    ("where", "order_by", "found"),
    [
        ((), ("name",), ["ann", "bob", "cid", "dot", "eve"]),
        ((), ("-age", "name"), ["eve", "dot", "bob", "ann", "cid"]),
        ((), ("age", "-name"), ["cid", "ann", "bob", "dot", "eve"]),
        ((), ("address.zipcode",), ["bob", "ann", "cid", "dot"]),
        (("age>=30",), ("address.zipcode",), ["bob", "ann", "cid", "dot"]),
        (("age>=30",), ("-address.zipcode",), ["dot", "cid", "ann", "bob"]),
    ],
)
def test_pages_of_an_order_follow_each_other(
    people: OperationsPlatform, where: tuple[str, ...], order_by: tuple[str, ...], found: list[str]
) -> None:
    assert keys(find(people, *where, order_by=order_by)) == found
    assert paged(people, *where, order_by=order_by) == found


def test_a_page_token_stays_valid_when_its_document_is_deleted(people: OperationsPlatform) -> None:
    page = find(people, order_by=("name",), limit="2")
    single_documents.delete(people.ports, "bob")
    people.put("abe", name="Abe")
    rest = find(people, order_by=("name",), page_token=page.next_page_token)
    assert (keys(page), keys(rest), rest.next_page_token) == (["ann", "bob"], ["cid", "dot", "eve"], "")


def test_an_order_by_times_that_another_client_stored_can_be_paged() -> None:
    world = OperationsPlatform()
    for key in "abc":
        world.pass_time(60)
        world.store.commit([Put(f"documents/{key}", {"at": world.now})])
    assert paged(world, order_by=("-at",)) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("where", "field"),
    [(("age<null",), "age"), (("a contains 1", "b contains 2"), None), (("a!=1", "b!=2"), None)],
)
def test_what_firestore_does_not_answer_is_refused(where: tuple[str, ...], field: str | None) -> None:
    with pytest.raises(BadQuery) as refused:
        find(OperationsPlatform(), *where)
    assert refused.value.field == field
