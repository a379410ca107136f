"""Documents with links over HTTP, on the reference data: an address, and Fred, who lives there."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox.links import tasks as links_tasks
from signalbox.links.service import refreshes
from tests.unit.documents.documents_front import Front, front, problem

ADDRESS = {
    "type": "Address",
    "addr1": "1 thing st",
    "city": "stuffville",
    "zipcode": 54321,
    "tags": ["some", "tags"],
}
COPY = {"key": "1234567", **ADDRESS}
FRED = {"key": "897654", "type": "Person", "name": "Fred", "address": COPY}


@pytest.fixture
def at() -> Iterator[Front]:
    """A front behind which Fred's address and Fred have been put, in this order."""
    with front() as found:
        found.ask("PUT", "/1234567", ADDRESS)
        found.ask("PUT", "/897654", {"type": "Person", "name": "Fred", "address": {"key": "1234567"}})
        found.world.settle()
        yield found


def keys(at: Front, where: str) -> list[str]:
    """Return the keys that a query finds."""
    answer: Any = at.client.get("/", query_string={"where": where}).json
    return [document["key"] for document in answer["documents"]]


def test_a_document_has_no_empty_key_and_is_an_object(at: Front) -> None:
    assert problem(at.ask("POST", "/", {"key": "", "name": "Fred"})) == (400, "key-required", "key")
    bodies: list[Any] = [[], "text", 5, True]
    for body in bodies:
        assert problem(at.ask("PUT", "/a", body)) == (400, "not-an-object", None)
    assert at.world.ids("documents") == ["1234567", "897654"]


def test_a_put_replaces_and_a_merge_keeps_what_it_does_not_name(at: Front) -> None:
    assert at.ask("PATCH", "/897654", {"age": {"years": 30}}).json == {**FRED, "age": {"years": 30}}
    at.ask("PATCH", "/897654", {"age": {"months": 1}})
    assert at.seen("897654") == {**FRED, "age": {"years": 30, "months": 1}}
    at.ask("PUT", "/897654", {"name": "Fred"})
    assert at.seen("897654") == {"key": "897654", "name": "Fred"}
    assert at.ask("PATCH", "/new", {"n": 1}).status_code == 201


def test_fields_are_found_at_any_depth_and_lists_by_their_simple_members(at: Front) -> None:
    """The inside of objects and lists in a list is kept and not searched."""
    at.ask("PUT", "/a", {"x": {"y": {"z": [1, "two"]}}, "l": [{"n": 1}, [2, [3]], []], "e": {}})
    assert keys(at, 'x.y.z contains "two"') == ["a"]
    assert keys(at, "l.n==1") == keys(at, "l contains 2") == []
    assert keys(at, 'tags contains "tags"') == ["1234567"]
    assert keys(at, 'address.tags contains "tags"') == ["897654"]
    assert at.seen("a") == {"key": "a", "x": {"y": {"z": [1, "two"]}}, "l": [{"n": 1}, [2, [3]], []], "e": {}}


@pytest.mark.parametrize("letters", [600, 1_501, 100_000])
def test_long_strings_come_back(at: Front, letters: int) -> None:
    at.ask("PUT", "/a", {"t": "é" * letters})
    assert at.seen("a") == {"key": "a", "t": "é" * letters}


def test_a_read_returns_the_json_and_the_key_without_metadata(at: Front) -> None:
    assert (at.seen("1234567"), at.seen("897654")) == (COPY, FRED)


def test_a_link_is_any_object_with_a_key_at_any_depth_and_only_its_key_counts(at: Front) -> None:
    """In a list among other things too."""
    link = {"key": "1234567", "city": "elsewhere", "more": [1]}
    at.ask("PUT", "/a", {"in": {"deep": link}, "l": [1, link, "x", {"no": "link"}, [link]]})
    assert at.seen("a") == {"key": "a", "in": {"deep": COPY}, "l": [1, COPY, "x", {"no": "link"}, [COPY]]}


@pytest.mark.parametrize("key", ["nobody", None, "", 5])
def test_a_link_to_an_unknown_null_or_empty_key_is_marked_missing(at: Front, key: Any) -> None:
    missing = {"key": key, "link_missing": True}
    assert at.ask("PUT", "/a", {"l": {"key": key}}).json == {"key": "a", "l": missing}
    assert at.ask("PATCH", "/a", {"m": {"key": key}}).json == {"key": "a", "l": missing, "m": missing}


def test_a_put_embeds_the_targets_own_copies(at: Front) -> None:
    assert at.ask("PUT", "/a", {"who": {"key": "897654"}}).json == {"key": "a", "who": FRED}


def test_every_copy_follows_a_change_a_merge_a_delete_and_a_new_life(at: Front) -> None:
    """Over two links, with fields that come and go."""
    at.ask("PUT", "/a", {"who": {"key": "897654"}})
    at.ask("PATCH", "/1234567", {"city": "newville"})
    at.world.settle()
    moved = {**COPY, "city": "newville"}
    assert at.seen("a") == {"key": "a", "who": {**FRED, "address": moved}}
    at.ask("PUT", "/1234567", {"zipcode": 1})
    at.world.settle()
    assert at.seen("897654")["address"] == {"key": "1234567", "zipcode": 1}
    at.ask("DELETE", "/1234567")
    at.world.settle()
    assert at.seen("a")["who"]["address"] == {"key": "1234567", "link_missing": True}
    at.ask("POST", "/", [COPY])
    at.world.settle()
    assert at.seen("a") == {"key": "a", "who": FRED}


def test_fan_outs_of_cycles_and_self_links_end(at: Front) -> None:
    """Whichever of them changes."""
    at.ask("PATCH", "/1234567", {"who": {"key": "897654"}, "me": {"key": "1234567"}})
    at.world.settle()
    at.ask("PATCH", "/897654", {"name": "Freda"})
    at.world.settle()
    address: Any = at.seen("1234567")
    assert address["me"] == {"key": "1234567", "link_cycle": True}
    assert address["who"]["name"] == "Freda"
    assert address["who"]["address"] == {"key": "1234567", "link_cycle": True}


def test_a_fan_out_that_runs_twice_and_backwards_leaves_the_newest_copies_and_every_users_write(at: Front) -> None:
    for city in "abc":
        at.ask("PATCH", "/1234567", {"city": city})
    events = list(at.world.events)
    at.ask("PATCH", "/897654", {"name": "Freda"})
    at.world.settle()
    tasks = []
    for event in [*reversed(events), *events]:
        refreshes.fan_out(at.world.ports, event)
        tasks += at.world.tasks
    at.world.settle()
    for task in tasks:
        links_tasks.run_link_task(at.world.ports, task.task, task.payload)
    assert at.seen("897654") == {**FRED, "name": "Freda", "address": {**COPY, "city": "c"}}


@pytest.mark.parametrize("order", ["target first", "target last"])
def test_a_copy_with_too_long_a_field_path_is_marked_and_the_rest_is_stored(at: Front, order: str) -> None:
    """At a put and at a refresh alike."""
    target = {"n" * 1_000: {"m" * 400: 1}}
    bodies: list[tuple[str, Any]] = [("/t", target), ("/p", {"l": {"key": "t"}, "o" * 100: [{"key": "t"}], "n": 1})]
    for path, body in bodies if order == "target first" else bodies[::-1]:
        assert at.ask("PUT", path, body).status_code == 201
        at.world.settle()
    marked = [{"key": "t", "link_too_large": True}]
    assert at.seen("p") == {"key": "p", "l": {"key": "t", **target}, "o" * 100: marked, "n": 1}
    assert at.world.reported == []
