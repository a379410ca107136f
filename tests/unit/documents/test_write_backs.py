"""Write-back: an edit of a copy changes its source in the same commit, or nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core.ports import Conflict, Put
from signalbox.documents.machine import patches
from signalbox.documents.machine.patches import Null
from signalbox.documents.model.stamped_contents import Document, path_of
from signalbox.documents.problems import CannotWriteBack
from signalbox.documents.requests import PatchRequest
from signalbox.documents.service import patches as documents_patches
from signalbox.documents.service import single_documents
from signalbox.testing.replaced_limits import replaced
from signalbox.transforms import service
from signalbox.transforms.requests import PutTransformRequest
from tests.unit.cost_table import row_cost
from tests.unit.documents.documents_front import Front, front, problem

MERGE_PATCH = "application/merge-patch+json"
BACK = "?write_back=true"


@pytest.fixture
def at() -> Iterator[Front]:
    """Return a front with fred, who lives in a street in a town."""
    with front() as found:
        found.world.put("town", name="stuffville", tags=["a"], mayor={"key": "ann"})
        found.world.put("ann", name="Ann")
        found.world.put("street", name="thing st", town={"key": "town"})
        found.world.put("fred", name="Fred", home={"key": "street"}, born={"key": "town"})
        found.world.settle()
        yield found


def write_back(at: Front, key: str, patch: Any, **headers: str) -> Any:
    return at.ask("PATCH", f"/{key}{BACK}", patch, **headers)


def test_an_edit_of_a_copy_changes_its_source_and_the_copy_in_one_commit(at: Front) -> None:
    answer = write_back(at, "fred", {"home": {"name": "some st"}, "age": 7})
    assert answer.status_code == 200
    assert (answer.json["home"]["name"], answer.json["age"]) == ("some st", 7)
    assert at.seen("street")["name"] == "some st"
    assert at.seen("fred") == answer.json
    assert at.client.get("/fred").headers["ETag"] == answer.headers["ETag"]
    one = {at.world.store.read(path_of(key))[0].update_time for key in ("fred", "street")}
    assert len(one) == 1


def test_an_edit_two_levels_deep_reaches_the_copys_own_source(at: Front) -> None:
    shown = write_back(at, "fred", {"home": {"name": "s", "town": {"mayor": {"name": "Ben"}}}}).json
    assert shown["home"] == {
        "key": "street",
        "name": "s",
        "town": {"key": "town", "name": "stuffville", "tags": ["a"], "mayor": {"key": "ann", "name": "Ben"}},
    }
    assert at.seen("ann") == {"key": "ann", "name": "Ben"}
    assert at.seen("street")["town"]["mayor"] == {"key": "ann", "name": "Ben"}
    at.world.settle()
    assert at.seen("fred")["born"]["mayor"]["name"] == "Ben"


def test_several_sources_change_together(at: Front) -> None:
    write_back(at, "fred", {"home": {"name": "s"}, "born": {"tags": ["b"]}})
    assert (at.seen("street")["name"], at.seen("town")["tags"]) == ("s", ["b"])
    assert at.seen("fred")["home"]["town"]["tags"] == ["b"]


def test_other_copies_of_the_source_follow_as_after_a_put(at: Front) -> None:
    at.world.put("gina", born={"key": "town"})
    at.world.settle()
    write_back(at, "fred", {"born": {"name": "somewheretown"}})
    at.world.settle()
    assert at.seen("gina")["born"]["name"] == "somewheretown"
    assert at.seen("street")["town"]["name"] == "somewheretown"


def test_a_document_read_edited_inside_a_copy_and_sent_back_whole_changes_that_source_alone(at: Front) -> None:
    """Also where the copy is in a list, and where deeper copies are cut here and not in the source."""
    at.ask("PUT", "/club", {"members": [{"key": "fred"}, {"key": "ann"}]})
    with replaced(link_levels_max=3):
        at.ask("PUT", "/club", {"members": [{"key": "fred"}, {"key": "ann"}]})
        body = at.seen("club")
        assert body["members"][0]["home"]["town"]["mayor"] == {"key": "ann", "link_too_deep": True}
        body["members"][0]["name"] = "Frederic"
        before = {key: at.client.get(f"/{key}").headers["ETag"] for key in ("ann", "street", "town")}
        assert write_back(at, "club", body).status_code == 200
    assert at.seen("fred")["name"] == "Frederic"
    assert {key: at.client.get(f"/{key}").headers["ETag"] for key in before} == before


def test_a_merge_patch_removes_a_member_of_the_source(at: Front) -> None:
    assert write_back(at, "fred", {"born": {"tags": None}}, Content_Type=MERGE_PATCH).status_code == 200
    assert "tags" not in at.seen("town")
    write_back(at, "fred", {"born": {"tags": None}})
    assert at.seen("town")["tags"] is None


def test_a_link_inside_a_copy_can_be_turned_to_another_document(at: Front) -> None:
    at.world.put("ben", name="Ben")
    assert write_back(at, "fred", {"born": {"mayor": {"key": "ben"}}}).json["born"]["mayor"]["name"] == "Ben"
    assert at.seen("town")["mayor"] == {"key": "ben", "name": "Ben"}


def test_a_patch_that_edits_no_copy_is_a_plain_merge(at: Front) -> None:
    assert write_back(at, "new", {"n": 1, "to": {"key": "ann"}}).status_code == 201
    assert at.seen("new") == {"key": "new", "n": 1, "to": {"key": "ann", "name": "Ann"}}
    assert write_back(at, "fred", {"born": {"name": "stuffville"}}).status_code == 200


def test_without_the_parameter_it_is_refused_and_the_refusal_names_it(at: Front) -> None:
    answer = at.ask("PATCH", "/fred", {"born": {"name": "x"}})
    assert problem(answer) == (409, "edits-a-copy", "born")
    assert "write_back=true" in answer.get_data(as_text=True)
    assert problem(at.ask("PATCH", "/fred?write_back=1", {})) == (400, "bad-query", "write_back")


def refused(at: Front, key: str, patch: Any, slug: str, field: str, **headers: str) -> None:
    """Check that a patch is refused and no document is changed."""
    before = {name: at.seen(name) for name in at.world.ids("documents")}
    assert problem(write_back(at, key, patch, **headers)) == (409, slug, field)
    assert {name: at.seen(name) for name in at.world.ids("documents")} == before


def test_a_stale_copy_is_refused_until_it_is_refreshed(at: Front) -> None:
    at.world.put("town", name="b", mayor={"key": "ann"})
    refused(at, "fred", {"born": {"name": "c"}, "n": 1}, "stale-copy", "born")
    refused(at, "fred", {"home": {"town": {"name": "c"}}}, "stale-copy", "home.town")
    at.world.settle()
    assert write_back(at, "fred", {"born": {"name": "c"}}).status_code == 200


def test_a_copy_that_a_transform_makes_is_refused_at_its_level(at: Front) -> None:
    service.put(at.world.ports, PutTransformRequest.from_request("town", {"name": "#.name"}))
    at.world.settle()
    refused(at, "fred", {"home": {"town": {"name": "x"}}}, "cannot-write-back", "home.town")
    assert write_back(at, "fred", {"home": {"name": "x"}, "born": {"name": "y"}}).status_code == 200
    assert at.seen("town")["name"] == "y"


def test_a_copy_that_a_transform_makes_is_refused_also_where_the_patch_moves_it(at: Front) -> None:
    service.put(at.world.ports, PutTransformRequest.from_request("born", {"name": "#.name"}))
    at.world.settle()
    refused(at, "fred", {"moved": {"key": "town", "name": "x"}}, "cannot-write-back", "moved")
    assert at.seen("town")["name"] == "stuffville"


def test_a_missing_source_is_refused(at: Front) -> None:
    at.world.put("p", to={"key": "nobody"}, odd={"key": 7})
    refused(at, "p", {"to": {"n": 1}}, "cannot-write-back", "to")
    refused(at, "p", {"odd": {"n": 1}}, "cannot-write-back", "odd")
    refused(at, "p", {"new": {"key": "ann", "name": "x"}}, "cannot-write-back", "new")
    single_documents.delete(at.world.ports, "street")
    refused(at, "fred", {"home": {"name": "x"}}, "cannot-write-back", "home")


def test_what_is_cut_from_a_copy_is_refused(at: Front) -> None:
    at.world.put("self", to={"key": "self"})
    refused(at, "self", {"to": {"n": 1}}, "cannot-write-back", "to")
    with replaced(link_levels_max=1):
        at.world.put("p", to={"key": "town"})
        refused(at, "p", {"to": {"mayor": {"name": "x"}}}, "cannot-write-back", "to.mayor")


def test_edits_of_one_source_in_two_copies_agree_or_are_refused(at: Front) -> None:
    at.world.put("p", a={"key": "ann"}, b={"key": "ann"})
    refused(at, "p", {"a": {"name": "x"}, "b": {"name": "y"}}, "cannot-write-back", None)  # type: ignore[arg-type]  # the problem names no field
    assert write_back(at, "p", {"a": {"name": "x"}, "b": {"age": 3}}).status_code == 200
    assert at.seen("ann") == {"key": "ann", "name": "x", "age": 3}
    assert at.seen("p")["a"] == at.seen("p")["b"] == at.seen("ann")


def test_the_key_of_a_copy_cannot_be_removed(at: Front) -> None:
    refused(at, "fred", {"born": {"key": None, "n": 1}}, "cannot-write-back", "born", Content_Type=MERGE_PATCH)
    inside = {"home": {"town": {"key": None}}}
    refused(at, "fred", inside, "cannot-write-back", "home.town", Content_Type=MERGE_PATCH)


def test_if_match_covers_the_document_with_its_copies(at: Front) -> None:
    tag = at.client.get("/fred").headers["ETag"]
    at.world.put("town", name="b")
    at.world.settle()
    assert write_back(at, "fred", {"born": {"name": "c"}}, If_Match=tag).status_code == 412
    tag = at.client.get("/fred").headers["ETag"]
    assert write_back(at, "fred", {"born": {"name": "c"}}, If_Match=tag).status_code == 200


def test_a_source_that_is_written_meanwhile_is_read_again(at: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = at.world.store.commit
    raced: list[int] = []

    def racing(writes: Any) -> Any:
        if not raced:
            raced.append(len(writes))
            [held] = at.world.store.read(path_of("town"))
            commit([Put(held.path, {**(held.data or {}), "name": "raced"})])
        return commit(writes)

    monkeypatch.setattr(at.world.store, "commit", racing)
    with pytest.raises(Conflict):
        commit([Put(path_of("fred"), {}, at.world.store.read(path_of("ann"))[0].guard)])
    assert problem(write_back(at, "fred", {"born": {"name": "c"}, "n": 1})) == (409, "stale-copy", "born")
    assert raced == [2]
    assert "n" not in at.seen("fred")


def test_too_many_sources_are_refused_before_anything_is_written(at: Front) -> None:
    with replaced(transaction_documents_max=2):
        answer = write_back(at, "fred", {"born": {"name": "c"}, "home": {"name": "d"}})
    assert problem(answer) == (413, "too-large", None)
    assert at.seen("town")["name"] == "stuffville"


def test_what_is_sent_back_unchanged_edits_nothing() -> None:
    copy = {"key": "t", "n": 1, "l": [{"key": "u", "link_too_deep": True}], "u": {"key": "u", "m": {"x": 1}}}
    patch = {"t": {**copy, "l": [*copy["l"], 5], "u": {"key": "u", "m": {"x": 2}}}}  # type: ignore[misc]  # the copy is an object
    merged, [edit] = patches.merged_with_edits({"t": copy}, patch, Null.IS_A_VALUE)
    assert merged == {"t": {"key": "t"}}
    assert (edit.key, edit.shown_at, edit.place) == ("t", ("t",), ("t",))
    assert edit.patch == {"l": [{"key": "u"}, 5], "u": {"key": "u", "m": {"x": 2}}}
    with pytest.raises(CannotWriteBack, match="cut"):
        patches.merged_with_edits({"t": copy}, {"t": {"l": [{"key": "u", "n": 1}]}}, Null.IS_A_VALUE)


def test_a_write_back_costs_a_round_trip_a_level_and_a_write_a_document(at: Front) -> None:
    at.world.put("p", to={"key": "ann"})
    at.world.put("q", to={"key": "p"})
    at.world.settle()

    def cost(key: str, patch: Any) -> Cost:
        request = PatchRequest.from_request(key, patch, write_back=True)
        return at.world.cost_of(lambda: documents_patches.patch(at.world.ports, request))

    target, transform = 1, 1
    assert cost("p", {"n": 1}) == Cost(round_trips=3, reads=1 + (1 + target + transform), writes=1)
    assert cost("p", {"to": {"name": "x"}}) == row_cost("documents", "write_back")
    at.world.settle()
    deep = row_cost("documents", "write_back_deep")
    assert cost("q", {"to": {"to": {"name": "y"}}}) == deep


def test_a_write_back_decodes_each_record_that_it_has_read_once(at: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Any] = []
    decode = Document.from_record

    def counted(data: Any) -> Document | None:
        decoded.append(data)
        return decode(data)

    monkeypatch.setattr(Document, "from_record", counted)
    assert write_back(at, "fred", {"born": {"name": "x"}, "home": {"town": {"name": "x"}}}).status_code == 200
    monkeypatch.undo()
    names = [data["name"] for data in decoded if data is not None]
    assert {"Fred", "thing st", "stuffville"} <= {*names}
    assert len({id(data) for data in decoded if data is not None}) == len(names)
