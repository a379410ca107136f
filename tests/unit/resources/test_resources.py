"""Resources over HTTP: what clients of the usual kinds send, and what they get."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Annotated, Any, Literal

import pytest

from signalbox import Function, Hidden, ReadOnly, RefersTo, add_resource, documents, resource
from signalbox.core import outbox
from signalbox.core.effects import name_of
from signalbox.core.kit_names import KIT
from signalbox.core.ports import Delete, Put
from signalbox.core.problems import NotFound, Unavailable
from signalbox.documents.machine.reactions import WRITERS
from signalbox.documents.model.stamped_contents import path_of, wanted_path
from signalbox.resources import service
from signalbox.resources.model.fields import made_id
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.indexed_store import IndexedStore
from signalbox.testing.replaced_limits import replaced


class ToDo:
    text: str = "empty todo..."
    order: int = 0
    done: bool = False


class Everything:
    text: str
    number: float = 0.5
    day: date = date(2026, 11, 22)
    time: datetime | None = None
    tags: list[str]
    level: Literal["low", "high"] = "low"
    friends: list[Annotated[str, RefersTo("everything")]]
    note: Annotated[str, Hidden] = "unknown"
    views: Annotated[int, ReadOnly] = 0
    created: datetime
    modified: datetime


@dataclass
class Country:
    name: str
    note: Annotated[str, Hidden] = "none"
    languages: list[str] = field(default_factory=list)


class City:
    name: str
    population: int = 0
    country: Annotated[str, RefersTo("countries", on_delete="cascade")] | None = None
    twin: Annotated[str, RefersTo("cities")] | None = None


class Note:
    text: str
    note: str | None = None


class Sight:
    city: Annotated[str, RefersTo("cities", on_delete="cascade")]


class Folder:
    above: Annotated[str, RefersTo("folders", on_delete="cascade")] | None = None


@pytest.fixture(autouse=True)
def atlas(harness: Harness) -> Iterator[Function]:
    todos, everything, atlas, notes = map(Function, ("todos", "everything", "atlas", "notes"))
    add_resource(notes, Note)
    add_resource(todos, ToDo)
    add_resource(everything, Everything)
    add_resource(atlas, Country, "/countries", ids_from_clients=True)
    add_resource(atlas, City, "/cities")
    add_resource(atlas, Sight, "/sights")
    for each in (todos, everything, atlas, notes):
        harness.add(each)
    return iter([atlas])


def without_indexes(harness: Harness) -> None:
    harness.ports = replace(harness.ports, store=IndexedStore(harness.ports.store, ()))


@pytest.fixture(params=["every index", "no composite index"])
def stores(request: pytest.FixtureRequest, harness: Harness) -> None:
    """Serve lists once as Firestore does with every index, and once as it does with those it keeps by itself."""
    if request.param == "no composite index":
        without_indexes(harness)


def new(harness: Harness, at: str, **fields: Any) -> dict[str, Any]:
    answer = harness.post(at, json=fields)
    assert answer.status == 201, answer.json
    created: dict[str, Any] = answer.json
    return created


def wrong(answer: Any) -> list[str]:
    assert (answer.status, answer.json["type"]) == (400, "urn:signalbox:problem:invalid-fields")
    assert answer.headers["Content-Type"] == "application/problem+json"
    return [each["field"] for each in answer.json["errors"]]


# --- R1: the collection and its items ---


def test_behind_a_domain_addresses_are_those_of_the_domain(harness: Harness, behind_a_domain: str) -> None:
    created = harness.post("todos", json={"text": "a"})
    assert created.headers["Location"] == f"{behind_a_domain}todos/{created.json['id']}"
    harness.post("todos", json={"text": "b"})
    assert f"<{behind_a_domain}todos?" in harness.get("todos?_page=1&_limit=1").headers["Link"]


def test_what_backbone_does_with_a_collection(harness: Harness) -> None:
    answer = harness.post("todos", json={"text": "buy tea", "order": 1, "done": False})
    item = answer.json
    assert (answer.status, item) == (201, {"id": item["id"], "text": "buy tea", "order": 1, "done": False})
    assert answer.headers["Location"].endswith(f"/todos/{item['id']}")
    saved = harness.put(f"todos/{item['id']}", json={**item, "done": True})
    assert (saved.status, saved.json) == (200, {**item, "done": True})
    assert harness.get("todos").json == harness.get("todos/").json == [saved.json]
    assert harness.get(f"todos/{item['id']}").json == saved.json
    assert harness.delete(f"todos/{item['id']}").status == 204
    assert harness.get("todos").json == []
    assert [call(f"todos/{item['id']}").status for call in (harness.get, harness.delete)] == [404, 404]
    assert harness.put(f"todos/{item['id']}", json=item).status == 404


def test_one_line_makes_the_entry_point_of_a_function() -> None:
    entry = resource("todos", ToDo)
    assert callable(entry)
    with pytest.raises(ValueError, match="not a valid name of a resource"):
        resource("To Dos", ToDo)


def test_a_document_of_another_kind_is_not_an_item(harness: Harness) -> None:
    documents.put("todos~7", {"text": "I am a document"})
    assert harness.get("todos/7").status == harness.put("todos/7", json={}).status == 404
    assert harness.get("todos").json == []
    assert harness.get("todos/..%2F7").status == harness.put("todos/%00", json={}).status == 404


# --- R2: the model ---


def test_fields_have_defaults_and_the_whole_item_is_answered(harness: Harness) -> None:
    item = new(harness, "everything", text="a")
    kept = {name: item.pop(name) for name in ("id", "created", "modified")}
    assert kept["created"] == kept["modified"]
    assert item == {
        "text": "a",
        "number": 0.5,
        "day": "2026-11-22",
        "time": None,
        "tags": [],
        "level": "low",
        "friends": [],
        "views": 0,
    }


def test_times_are_stored_in_utc_so_that_they_sort(harness: Harness) -> None:
    item = new(harness, "everything", text="a", time="2026-11-22T12:00:00+02:00")
    assert item["time"] == "2026-11-22T10:00:00.000000Z"
    assert harness.get("everything?time_lt=2026-11-22T10:00:00.5Z").json == [item]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", 1),
        ("text", None),
        ("number", "1"),
        ("number", True),
        ("number", [1.5]),
        ("day", "2026-13-01"),
        ("day", "20261122"),
        ("day", 5),
        ("time", "2026-11-22T12:00:00"),
        ("time", "2026-11-22"),
        ("time", "0001-01-01T00:00:00+23:00"),
        ("tags", "a"),
        ("level", "middle"),
        ("friends", "x"),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_fields_name(harness: Harness, name: str, value: object) -> None:
    assert wrong(harness.post("everything", json={"text": "a", name: value})) == [name]


def test_every_wrong_field_is_named_at_once_and_what_is_missing(harness: Harness) -> None:
    answer = harness.post("everything", json={"number": "x", "tags": ["a", 1], "friends": [{"id": 1}]})
    assert wrong(answer) == ["number", "tags[1]", "friends[0]", "text"]
    assert answer.json["field"] == "number"
    assert "`text` is required" in answer.json["detail"]
    item = new(harness, "todos")
    assert wrong(harness.put(f"todos/{item['id']}", json={"order": 2**63, "done": "yes"})) == ["order", "done"]
    assert harness.get(f"todos/{item['id']}").json == item


def test_hidden_fields_are_taken_and_never_shown_and_read_only_ones_are_shown_and_not_taken(harness: Harness) -> None:
    item = new(harness, "everything", text="a", note="s", views=9, created="2000-01-01T00:00:00Z")
    assert (item["views"], "note" in item, item["created"][:4]) == (0, False, "2026")
    assert documents.get(f"everything~{item['id']}")["_resource"]["hidden"] == {"note": "s"}
    assert harness.get("everything?note=s").status == 400
    friend = new(harness, "everything", text="b", friends=[item["id"]])
    assert friend["friends"][0] == {name: value for name, value in item.items() if name not in ("created", "modified")}


def test_modified_moves_only_with_the_fields(harness: Harness) -> None:
    item = new(harness, "everything", text="a")
    same = harness.put(f"everything/{item['id']}", json=item).json
    assert same == item
    changed = harness.put(f"everything/{item['id']}", json={"text": "b"}).json
    assert changed["modified"] > item["modified"]
    assert changed["created"] == item["created"]


def test_meta_lists_the_types_of_fields(harness: Harness) -> None:
    meta = harness.get("everything/meta").json
    assert meta["resource"] == "everything"
    assert {name: each["type"] for name, each in meta["fields"].items()} == {
        "text": "string",
        "number": "float",
        "day": "date",
        "time": "datetime",
        "tags": "string",
        "level": "string",
        "friends": "reference",
        "views": "int",
        "created": "datetime",
        "modified": "datetime",
    }
    assert meta["fields"]["friends"] == {
        "type": "reference",
        "required": False,
        "default": [],
        "list": True,
        "refers_to": "everything",
    }
    assert meta["fields"]["text"] == {"type": "string", "required": True}


def test_a_field_that_is_new_in_the_model_shows_its_default_in_older_items(harness: Harness) -> None:
    item = new(harness, "todos")
    older = documents.get(f"todos~{item['id']}")
    documents.put(f"todos~{item['id']}", {name: value for name, value in older.items() if name != "order"})
    assert harness.get(f"todos/{item['id']}").json == item


def unfit(**annotations: Any) -> type:
    return type("Unfit", (), {"__annotations__": annotations})


@pytest.mark.parametrize(
    "model",
    [
        unfit(id=int),
        unfit(_x=int),
        unfit(x=dict),
        unfit(x=int | str),
        unfit(x=list[str | None]),
        unfit(created=int),
        unfit(x=Literal[1]),
        type("Unfit", (), {"__annotations__": {"x": int}, "x": "a"}),
    ],
)
def test_a_model_that_cannot_be_is_refused_where_it_is_declared(model: type) -> None:
    with pytest.raises(TypeError):
        resource("unfit", model)


# --- R3: partial changes and status codes ---


def test_a_put_is_partial_and_ignores_unknown_fields_and_an_id(harness: Harness) -> None:
    item = new(harness, "todos", text="a", order=3)
    for call in (harness.put, harness.patch):
        answer = call(f"todos/{item['id']}", json={"done": True, "id": "other", "unknown": 1})
        assert (answer.status, answer.json) == (200, {**item, "done": True})


def test_a_body_that_is_not_a_json_object_is_refused(harness: Harness) -> None:
    assert harness.post("todos", json=[1]).json["type"] == "urn:signalbox:problem:not-an-object"
    assert harness.post("todos", data=b"{", content_type="application/json").status == 400
    assert harness.post("todos/7", json={}).status == 405
    assert harness.delete("todos").status == 405
    assert harness.post("todos?x=1", json={}).status == 400


def test_entity_tags_guard_changes_and_spare_reads(harness: Harness) -> None:
    answer = harness.post("todos", json={})
    at, tag = f"todos/{answer.json['id']}", answer.headers["ETag"]
    assert harness.get(at, headers={"If-None-Match": tag}).status == 304
    changed = harness.put(at, json={"done": True}, headers={"If-Match": tag})
    assert changed.status == 200
    assert harness.put(at, json={"done": False}, headers={"If-Match": tag}).status == 412
    assert harness.delete(at, headers={"If-Match": tag}).status == 412
    assert harness.get(at, headers={"If-None-Match": tag}).headers["ETag"] == changed.headers["ETag"]
    assert harness.delete(at, headers={"If-Match": changed.headers["ETag"]}).status == 204


def test_a_post_that_is_repeated_under_its_idempotency_key_creates_one_item(harness: Harness) -> None:
    first = harness.post("todos", json={"text": "a"}, headers={"Idempotency-Key": "k"})
    again = harness.post("todos", json={"text": "a"}, headers={"Idempotency-Key": "k"})
    assert (first.status, again.status, again.json) == (201, 200, first.json)
    assert len(harness.get("todos").json) == 1


def test_the_guard_of_a_wanted_item_is_not_taken_for_its_receipt(harness: Harness) -> None:
    key = {"Idempotency-Key": "k"}
    id_ = harness.post("todos", json={"text": "a"}, headers=key).json["id"]
    path = f"todos~{id_}"
    records = [path_of(path), *(f"receipts/{each}" for each in harness.ids("receipts"))]
    harness.store.commit([*map(Delete, records), Put(wanted_path(path), {})])
    with WRITERS.replaced(KIT):
        created = harness.post("todos", json={"text": "a"}, headers=key)
    assert (created.status, created.json["id"]) == (201, id_)
    assert harness.record(path_of(path))["_signalbox"]["linked"] is True


def test_an_idempotency_key_is_of_one_body_and_of_one_life_of_its_item(harness: Harness) -> None:
    key = {"Idempotency-Key": "k"}
    first = harness.post("todos", json={"text": "a"}, headers=key)
    other = harness.post("todos", json={"text": "b"}, headers=key)
    assert (other.status, other.json["type"]) == (409, "urn:signalbox:problem:other-body")
    assert texts(harness.get("todos")) == ["a"]
    assert harness.delete(f"todos/{first.json['id']}").status == 204
    late = harness.post("todos", json={"text": "a"}, headers=key)
    assert (late.status, late.json["type"]) == (410, "urn:signalbox:problem:item-deleted")
    assert harness.get("todos").json == []


def test_no_client_takes_the_id_of_an_item_that_a_key_will_create(harness: Harness) -> None:
    key = {"Idempotency-Key": "k"}
    id_ = made_id(name_of("item", "countries", "", "k"))
    taken = harness.put(f"atlas/countries/{id_}", json={"name": "France"})
    assert (taken.status, taken.json["field"]) == (400, "id")
    assert harness.put(f"atlas/countries/{id_}0", json={"name": "France"}).status == 201
    created = harness.post("atlas/countries", json={"name": "Spain"}, headers=key)
    assert (created.status, created.json) == (201, {**created.json, "id": id_, "name": "Spain"})
    assert harness.put(f"atlas/countries/{id_}", json={"name": "Peru"}).json["name"] == "Peru"


@pytest.mark.parametrize("id_", ["meta", "openapi.json"])
def test_an_item_cannot_have_the_id_of_another_address(harness: Harness, id_: str) -> None:
    answer = harness.put(f"atlas/countries/{id_}", json={"name": "France"})
    assert (answer.status, answer.json["field"]) == (400, "id")
    assert harness.get("atlas/countries").json == []


def test_with_ids_from_clients_a_put_creates(harness: Harness) -> None:
    answer = harness.put("atlas/countries/FR", json={"name": "France"})
    assert (answer.status, answer.json) == (201, {"id": "FR", "name": "France", "languages": []})
    assert harness.put("atlas/countries/FR", json={"name": "Gaul"}).status == 200
    assert wrong(harness.put("atlas/countries/DE", json={})) == ["name"]
    assert harness.put("atlas/countries/FR", json={}, headers={"If-None-Match": "*"}).status == 412


# --- lists ---


def filled(harness: Harness) -> None:
    for order, text in enumerate(("c", "a", "b", "d")):
        new(harness, "todos", text=text, order=order, done=order % 2 == 0)


def texts(answer: Any) -> list[str]:
    assert answer.status == 200, answer.json
    return [each["text"] for each in answer.json]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("_sort=order", "cabd"),
        ("_sort=text&_order=desc", "dcba"),
        ("_sort=-text", "dcba"),
        ("_sort=done,text&_order=desc,asc", "bcad"),
        ("done=true&_sort=text", "bc"),
        ("done=false&_sort=-order", "da"),
        ("order_gte=1&order_lt=3&_sort=order", "ab"),
        ("order_gt=1&order_lte=3&_sort=order", "bd"),
        ("text_ne=a&_sort=order", "cbd"),
        ("text=a&text=b&_sort=text", "ab"),
        ("_sort=order&_start=1&_end=3", "ab"),
        ("_sort=order&_page=2&_limit=3", "d"),
        ("_sort=order&_limit=2", "ca"),
        ("_sort=order&_start=9&_end=20", ""),
        ("_sort=order&_start=1&_end=1", ""),
    ],
)
@pytest.mark.usefixtures("stores")
def test_lists_are_filtered_sorted_and_cut(harness: Harness, query: str, expected: str) -> None:
    filled(harness)
    assert texts(harness.get(f"todos?{query}")) == list(expected)


@pytest.mark.usefixtures("stores")
def test_the_total_comes_with_a_page_and_does_not_depend_on_it(harness: Harness) -> None:
    filled(harness)
    assert harness.get("todos?_start=0&_end=1").headers["X-Total-Count"] == "4"
    assert harness.get("todos?done=true&_sort=text&_page=1").headers["X-Total-Count"] == "2"
    assert "X-Total-Count" not in harness.get("todos").headers


@pytest.mark.parametrize("query", ["", "_sort=order&", "_sort=id&_order=desc&", "done_ne=false&", "_sort=-done,text&"])
@pytest.mark.usefixtures("stores")
def test_the_links_of_pages_lead_through_all_items_once(harness: Harness, query: str) -> None:
    filled(harness)
    whole = texts(harness.get(f"todos?{query}"))
    found, at = [], f"todos?{query}_limit=1"
    while at:
        answer = harness.get(at)
        found += texts(answer)
        link = answer.headers.get("Link", "")
        at = f"todos{link[link.index('?') : link.index('>')]}" if link.endswith('; rel="next"') else ""
    assert found == whole
    assert sorted(found) == sorted(whole)


@pytest.mark.usefixtures("stores")
def test_ids_sort_both_ways_and_are_searched(harness: Harness) -> None:
    filled(harness)
    ids = [each["id"] for each in harness.get("todos").json]
    assert ids == sorted(ids)
    assert [each["id"] for each in harness.get("todos?_sort=id&_order=DESC").json] == ids[::-1]
    assert [each["id"] for each in harness.get(f"todos?id={ids[2]}&id={ids[0]}").json] == [ids[0], ids[2]]
    assert len(harness.get(f"todos?id_gt={ids[1]}").json) == 2


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("colour=red", "colour"),
        ("order=x", "order"),
        ("done=1", "done"),
        ("order_like=1", "order_like"),
        ("_sort=colour", "_sort"),
        ("_sort=text,text", "_sort"),
        ("_sort=text&_order=up", "_order"),
        ("_start=x", "_start"),
        ("_start=", "_start"),
        ("_page=", "_page"),
        ("_start=3&_end=2", "_end"),
        ("_limit=0", "_limit"),
        ("_page=2&_page=3", "_page"),
        ("_page=10000&_limit=1000", "_page"),
        ("page_token=x", "page_token"),
        ("text_ne=a&text_ne=b", "text_ne"),
        ("text.x=1", "text.x"),
        ("_resource.name=x", "_resource.name"),
        ("id=", "id"),
    ],
)
def test_a_parameter_that_cannot_be_is_named(harness: Harness, query: str, field: str) -> None:
    answer = harness.get(f"todos?{query}")
    assert (answer.status, answer.json["field"]) == (400, field)


def test_a_large_list_needs_the_index_that_a_small_one_does_without(harness: Harness) -> None:
    without_indexes(harness)
    filled(harness)
    assert texts(harness.get("todos?_sort=text")) == list("abcd")
    with replaced(resource_sorted_max=3):
        refused = harness.get("todos?_sort=text")
        assert harness.get("todos?_sort=id&_order=desc").status == 400
        assert len(texts(harness.get("todos?done=true"))) == 2
    assert refused.json["type"] == "urn:signalbox:problem:needs-index"
    assert '{collection: documents, fields: ["_resource.name", "text"]}' in refused.json["detail"]


def test_a_list_that_is_too_large_to_be_sorted_is_counted_and_not_read(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(harness)
    monkeypatch.setattr(service, "SORTED_AT_ONCE", 1)
    reads = []
    for most in (4, 3):
        with replaced(resource_sorted_max=most):
            status = harness.get("todos?_sort=id&_order=desc").status
        reads.append((status, [values["reads"] for message, values in harness.log.infos if message == "handled"][-1]))
    assert reads == [(200, 6), (400, 2)]  # one item and a count, then the four


@pytest.mark.usefixtures("stores")
def test_members_of_lists_are_searched(harness: Harness) -> None:
    new(harness, "everything", text="a", tags=["red", "blue"])
    assert texts(harness.get("everything?tags_contains=red")) == ["a"]
    assert texts(harness.get("everything?tags_contains=red&_sort=text&number_lt=3")) == ["a"]
    assert harness.get("everything?tags=red").status == harness.get("everything?friends_contains=x").status == 400
    assert texts(harness.get("everything?time=null")) == ["a"]


@pytest.mark.usefixtures("stores")
def test_null_is_found_and_left_out_by_every_operator_that_can(harness: Harness) -> None:
    for text, note in (("a", None), ("b", "x"), ("c", "null")):
        new(harness, "notes", text=text, note=note)
    assert texts(harness.get("notes?note=null")) == ["a"]
    assert sorted(texts(harness.get("notes?note_ne=null"))) == ["b", "c"]
    assert texts(harness.get('notes?note="null"')) == ["c"]
    assert sorted(texts(harness.get('notes?note="null"&note=x'))) == ["b", "c"]
    for suffix in ("_gt", "_gte", "_lt", "_lte"):
        assert harness.get(f"notes?note{suffix}=null").status == 400
    assert harness.get("notes?note=null&note=x").status == 400


# --- references ---


def test_a_reference_shows_the_item_and_follows_it(harness: Harness) -> None:
    harness.put("atlas/countries/FR", json={"name": "France", "note": "wine"})
    paris = new(harness, "atlas/cities", name="Paris", country="FR")
    assert paris["country"] == {"id": "FR", "name": "France", "languages": []}
    twin = new(harness, "atlas/cities", name="Rome", twin=paris)
    assert twin["twin"]["country"]["name"] == "France"
    harness.put("atlas/countries/FR", json={"name": "Gaul"})
    harness.run()
    assert harness.get(f"atlas/cities/{twin['id']}").json["twin"]["country"]["name"] == "Gaul"
    assert harness.put(f"atlas/cities/{paris['id']}", json={**paris, "population": 2}).json["population"] == 2
    assert harness.put(f"atlas/cities/{paris['id']}", json={"country": None}).json["country"] is None


def test_a_reference_to_nothing_or_to_something_else_is_refused(harness: Harness) -> None:
    documents.put("countries~XX", {"name": "a document"})
    others: list[Any] = ["nobody", "XX", {"id": "nobody"}, 7, "", "a/b", {}, []]
    for country in others:
        assert wrong(harness.post("atlas/cities", json={"name": "a", "country": country})) == ["country"]


@pytest.mark.usefixtures("stores")
def test_items_are_found_by_what_they_refer_to_and_by_its_fields(harness: Harness) -> None:
    for code, name in (("FR", "France"), ("IT", "Italy")):
        harness.put(f"atlas/countries/{code}", json={"name": name})
        new(harness, "atlas/cities", name=f"capital of {name}", country=code, population=len(code))
    for query in ("country=FR", "country.id=FR", "country.name=France", "country.name_ne=Italy&population=2"):
        assert [each["name"] for each in harness.get(f"atlas/cities?{query}").json] == ["capital of France"]
    assert harness.get("atlas/cities?country._resource=x").status == 400
    assert [each["country"]["id"] for each in harness.get("atlas/cities?_sort=-country.name").json] == ["IT", "FR"]


def test_dependents_of_an_item_are_deleted_level_by_level(harness: Harness) -> None:
    for code in ("FR", "IT"):
        harness.put(f"atlas/countries/{code}", json={"name": code})
    cities = [new(harness, "atlas/cities", name=str(number), country="FR") for number in range(5)]
    stays = new(harness, "atlas/cities", name="Rome", country="IT", twin=cities[0]["id"])
    sights = [new(harness, "atlas/sights", city=city["id"]) for city in cities[:2]]
    assert harness.delete("atlas/countries/FR").status == 204
    harness.run()
    assert [each["id"] for each in harness.get("atlas/cities").json] == [stays["id"]]
    assert harness.get(f"atlas/sights/{sights[0]['id']}").status == 404
    missing = {"id": cities[0]["id"], "link_missing": True}
    assert harness.get(f"atlas/cities/{stays['id']}").json["twin"] == missing


def test_an_item_that_refers_elsewhere_by_now_stays(harness: Harness) -> None:
    for code in ("FR", "IT"):
        harness.put(f"atlas/countries/{code}", json={"name": code})
    city = new(harness, "atlas/cities", name="Nice", country="IT")
    harness.put(f"atlas/cities/{city['id']}", json={"country": "FR"})
    harness.delete("atlas/countries/IT")
    assert [each["id"] for each in harness.get("atlas/cities").json] == [city["id"]]
    harness.put(f"atlas/cities/{city['id']}", json={"country": None})
    harness.delete("atlas/countries/FR")
    assert len(harness.get("atlas/cities").json) == 1


def test_an_answer_names_a_hundred_errors_at_most(harness: Harness) -> None:
    answer = harness.post("everything", json={"text": "a", "tags": [1] * 1_000})
    assert len(wrong(answer)) == 100


def test_what_one_request_does_not_delete_is_left_to_tasks(harness: Harness) -> None:
    harness.put("atlas/countries/FR", json={"name": "France"})
    for number in range(7):
        city = new(harness, "atlas/cities", name=str(number), country="FR")
        new(harness, "atlas/sights", city=city["id"])
    with replaced(cascade_documents_max=3):
        assert harness.delete("atlas/countries/FR").status == 204
        assert harness.get("atlas/countries/FR").status == 404
        assert harness.get("atlas/cities").json != []
        harness.run()
    assert harness.get("atlas/cities").json == harness.get("atlas/sights").json == []


def test_the_task_of_a_deletion_is_not_due_while_its_request_deletes_the_dependents(harness: Harness) -> None:
    harness.put("atlas/countries/FR", json={"name": "France"})
    city = new(harness, "atlas/cities", name="Paris", country="FR")
    new(harness, "atlas/sights", city=city["id"])
    harness.run()
    harness.delete("atlas/countries/FR")
    tasks = [task for task in harness.tasks if task.task == "dependents"]
    assert len(tasks) == 2
    assert not [task for task in harness.queue.due() if task in tasks]


@pytest.mark.parametrize("tag", ['"another"', None])
def test_a_delete_that_is_refused_deletes_no_dependents(harness: Harness, tag: str | None) -> None:
    app = Function("shelves")
    refused: list[str] = []

    def cascade(_request: Any, item: dict[str, Any]) -> list[str]:
        if tag is None:
            raise NotFound("no")
        return refused

    add_resource(app, Folder, "/folders", cascade=cascade)
    harness.add(app)
    above = new(harness, "shelves/folders")
    below = new(harness, "shelves/folders", above=above["id"])
    headers = {"If-Match": tag} if tag else {}
    assert harness.delete(f"shelves/folders/{above['id']}", headers=headers).status == (412 if tag else 404)
    harness.run()
    assert [each["id"] for each in harness.get("shelves/folders").json] == sorted([above["id"], below["id"]])


def test_a_hook_may_name_a_document_twice_and_the_item_itself(harness: Harness) -> None:
    app = Function("scans")
    add_resource(app, ToDo, cascade=lambda _request, item: ["scan", "scan", f"scans~{item['id']}"])
    harness.add(app)
    documents.put("scan", {"pages": 3})
    item = new(harness, "scans")
    assert harness.delete(f"scans/{item['id']}").status == 204
    assert harness.get("scans").json == []
    assert "scan" not in harness.ids("documents")


def test_dependents_of_an_item_that_exists_again_are_kept(harness: Harness) -> None:
    harness.put("atlas/countries/FR", json={"name": "France"})
    new(harness, "atlas/cities", name="Paris", country="FR")
    with replaced(cascade_documents_max=0):
        assert harness.delete("atlas/countries/FR").status == 204
    harness.put("atlas/countries/FR", json={"name": "Gaul"})
    lutetia = new(harness, "atlas/cities", name="Lutetia", country="FR")
    harness.run()
    assert lutetia["id"] in {each["id"] for each in harness.get("atlas/cities").json}


def test_items_that_go_with_each_other_in_a_ring_all_go(harness: Harness) -> None:
    app = Function("folders")
    add_resource(app, Folder)
    harness.add(app)
    first = new(harness, "folders")
    second = new(harness, "folders", above=first["id"])
    harness.put(f"folders/{first['id']}", json={"above": second["id"]})
    assert harness.delete(f"folders/{first['id']}").status == 204
    assert harness.get("folders").json == []


# --- races and failures ---


class Failing:
    """A store whose call of this name raises once, before or after it has done its work."""

    def __init__(self, store: Any, name: str, *, done: bool = False, calls: int = 0) -> None:
        self._store, self._name, self._done, self._left = store, name, done, calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return self._failing(method) if name == self._name else method

    def _failing(self, method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            self._left -= 1
            if self._left != -1:
                return method(*arguments)
            if self._done:
                method(*arguments)
            raise Unavailable("no answer")

        return call


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize(("name", "calls"), [("write_each", 0), ("write_each", 1), *(("commit", n) for n in range(6))])
def test_a_delete_that_breaks_off_deletes_everything_or_nothing(
    harness: Harness, name: str, calls: int, done: bool
) -> None:
    harness.put("atlas/countries/FR", json={"name": "France"})
    cities = [new(harness, "atlas/cities", name=str(number), country="FR") for number in range(2)]
    for city in cities:
        new(harness, "atlas/sights", city=city["id"])
    whole = harness.ports
    harness.ports = replace(whole, store=Failing(whole.store, name, done=done, calls=calls))
    deleted = harness.delete("atlas/countries/FR").status
    harness.ports = whole
    harness.travel(600)
    outbox.sweep(harness.ports)
    harness.run()
    if harness.get("atlas/countries/FR").status == 200:
        assert deleted == 503
        assert len(harness.get("atlas/cities").json) == len(harness.get("atlas/sights").json) == 2
    else:
        assert harness.get("atlas/cities").json == harness.get("atlas/sights").json == []


def test_two_changes_of_different_fields_both_count_whichever_comes_between(harness: Harness) -> None:
    app = Function("raced")
    between = [{"done": True}]

    def prepare(request: Any, action: str, item: dict[str, Any]) -> dict[str, Any]:
        while action == "update" and between:
            assert harness.patch(f"raced/{item['id']}", json=between.pop()).status == 200
        return item

    add_resource(app, ToDo, prepare=prepare)
    harness.add(app)
    item = new(harness, "raced")
    answer = harness.patch(f"raced/{item['id']}", json={"text": "b"})
    assert answer.json == harness.get(f"raced/{item['id']}").json == {**item, "text": "b", "done": True}


def test_a_precondition_holds_when_the_write_lands(harness: Harness) -> None:
    app = Function("raced")
    between = [{"done": True}]

    def prepare(request: Any, action: str, item: dict[str, Any]) -> dict[str, Any]:
        while action == "update" and between:
            harness.patch(f"raced/{item['id']}", json=between.pop())
        return item

    add_resource(app, ToDo, prepare=prepare)
    harness.add(app)
    created = harness.post("raced", json={})
    at, tag = f"raced/{created.json['id']}", created.headers["ETag"]
    assert harness.patch(at, json={"text": "b"}, headers={"If-Match": tag}).status == 412
    assert harness.get(at).json == {**created.json, "done": True}


def test_a_post_whose_answer_was_lost_is_repeated_under_its_key(harness: Harness) -> None:
    whole, key = harness.ports, {"Idempotency-Key": "k"}
    harness.ports = replace(whole, store=Failing(whole.store, "commit", done=True))
    assert harness.post("todos", json={"text": "a"}, headers=key).status == 503
    harness.ports = whole
    assert harness.post("todos", json={"text": "a"}, headers=key).status == 200
    assert texts(harness.get("todos")) == ["a"]
