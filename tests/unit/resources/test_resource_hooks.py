"""What a user's code decides about a resource: permission, the content of lists, what is stored, shown and deleted."""

from typing import Annotated, Any

import pytest

from signalbox import Function, Hidden, Problem, ReadOnly, RefersTo, Request, add_resource, documents
from signalbox.testing import Harness, user_token
from signalbox.testing.fixtures import harness as harness


class Note:
    text: str
    author: Annotated[str, ReadOnly] = ""
    team: Annotated[str, Hidden] = "all"
    about: Annotated[str, RefersTo("notes")] | None = None


class TooLong(Problem):
    status = 422
    title = "The text is too long"


def signed(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {user_token(name)}"}


ANN, BOB = signed("ann"), signed("bob")


@pytest.fixture
def notes() -> Function:
    return Function("notes")


# --- each user's own ---


def test_each_user_sees_and_changes_their_own_items_only(harness: Harness, notes: Function) -> None:
    add_resource(notes, Note, each_user=True)
    harness.add(notes, auth="firebase")
    mine = harness.post("notes", json={"text": "a"}, headers=ANN).json
    his = harness.post("notes", json={"text": "b"}, headers=BOB).json
    assert harness.get("notes", headers=ANN).json == [mine]
    assert harness.get("notes?_start=0&_end=5", headers=BOB).headers["X-Total-Count"] == "1"
    assert harness.get("notes?id=" + his["id"], headers=ANN).json == []
    for call in (harness.get, harness.delete):
        assert call(f"notes/{his['id']}", headers=ANN).status == 404
    assert harness.put(f"notes/{his['id']}", json={"text": "c"}, headers=ANN).status == 404
    assert harness.get(f"notes/{his['id']}", headers=BOB).json == his
    assert harness.get("notes").status == 401


def test_a_user_cannot_refer_to_what_another_user_owns(harness: Harness, notes: Function) -> None:
    add_resource(notes, Note, each_user=True)
    harness.add(notes, auth="firebase")
    his = harness.post("notes", json={"text": "b"}, headers=BOB).json
    answer = harness.post("notes", json={"text": "a", "about": his["id"]}, headers=ANN)
    assert (answer.status, answer.json["field"]) == (400, "about")
    missing = harness.post("notes", json={"text": "a", "about": "nobody"}, headers=ANN)
    assert missing.json["detail"].replace("nobody", his["id"]) == answer.json["detail"]
    documents.put("notes~x", {"text": "forged", "about": {"key": f"notes~{his['id']}"}, "_resource": _meta("ann")})
    assert harness.get("notes/x", headers=ANN).json["about"] == {"id": his["id"], "link_missing": True}


def test_no_filter_or_order_reads_what_another_user_owns(harness: Harness, notes: Function) -> None:
    add_resource(notes, Note, each_user=True)
    harness.add(notes, auth="firebase")
    his = harness.post("notes", json={"text": "secret"}, headers=BOB).json
    own = harness.post("notes", json={"text": "open"}, headers=ANN).json
    about_own = harness.post("notes", json={"text": "b", "about": own["id"]}, headers=ANN).json
    documents.put("notes~x", {"text": "forged", "about": {"key": f"notes~{his['id']}"}, "_resource": _meta("ann")})

    def found(query: str) -> list[str]:
        listed = harness.get(f"notes?_start=0&{query}", headers=ANN)
        assert listed.headers["X-Total-Count"] == str(len(listed.json))
        return [each["id"] for each in listed.json]

    for query in ("about.text=secret", "about.text_gte=s", "about.text_ne=open", "_sort=about.text&about=" + his["id"]):
        assert found(query) == []
    assert found("about.text=open") == found("_sort=about.text") == [about_own["id"]]
    assert found("about=" + his["id"]) == ["x"]


def _meta(owner: str) -> dict[str, Any]:
    time = "2026-01-01T00:00:00.000000Z"
    return {"name": "notes", "created": time, "modified": time, "owner": owner}


def test_one_idempotency_key_of_two_users_creates_two_items(harness: Harness, notes: Function) -> None:
    add_resource(notes, Note, each_user=True)
    harness.add(notes, auth="firebase")
    ids = {
        harness.post("notes", json={"text": "a"}, headers={**user, "Idempotency-Key": "k"}).json["id"]
        for user in (ANN, BOB, ANN)
    }
    assert len(ids) == 2


# --- hooks ---


def test_who_may_not_gets_404_for_an_item_and_403_for_the_rest(harness: Harness, notes: Function) -> None:
    asked: list[tuple[str, str | None]] = []

    def authorise(request: Request, action: str, item: dict[str, Any] | None) -> bool:
        asked.append((action, item["team"] if item else None))
        return request.header("X-May") == "yes"

    add_resource(notes, Note, authorise=authorise)
    harness.add(notes)
    may = {"X-May": "yes"}
    item = harness.post("notes", json={"text": "a", "team": "red"}, headers=may).json
    at = f"notes/{item['id']}"
    statuses = [
        harness.get("notes").status,
        harness.post("notes", json={"text": "a"}).status,
        harness.get(at).status,
        harness.put(at, json={"text": "b"}).status,
        harness.delete(at).status,
    ]
    assert statuses == [403, 403, 404, 404, 404]
    assert harness.get(at, headers=may).json == item
    assert set(asked) == {
        ("list", None),
        ("create", "all"),
        ("create", "red"),
        ("read", "red"),
        ("update", "red"),
        ("delete", "red"),
    }


def test_narrow_adds_conditions_to_every_list(harness: Harness, notes: Function) -> None:
    add_resource(notes, Note, narrow=lambda request: [("team", "==", request.header("X-Team") or "all")])
    harness.add(notes)
    for team in ("red", "blue", "red"):
        harness.post("notes", json={"text": team, "team": team})
    red = {"X-Team": "red"}
    assert [each["text"] for each in harness.get("notes", headers=red).json] == ["red", "red"]
    assert harness.get("notes?_start=0&_end=1", headers=red).headers["X-Total-Count"] == "2"
    assert harness.get("notes?text=blue", headers=red).json == []


def test_prepare_sets_what_clients_do_not_and_refuses(harness: Harness, notes: Function) -> None:
    def prepare(request: Request, action: str, item: dict[str, Any]) -> dict[str, Any]:
        if len(item["text"]) > 3:
            raise TooLong("At most 3 letters.", field="text")
        return {**item, "author": f"{action} by {request.header('X-Name')}"}

    add_resource(notes, Note, prepare=prepare)
    harness.add(notes)
    item = harness.post("notes", json={"text": "a", "author": "eve"}, headers={"X-Name": "ann"}).json
    assert item["author"] == "create by ann"
    about = {"text": "b", "about": item["id"]}
    changed = harness.put(f"notes/{item['id']}", json=about, headers={"X-Name": "bob"}).json
    assert (changed["author"], changed["about"]["id"]) == ("update by bob", item["id"])
    assert harness.post("notes", json={"text": "long"}).status == 422


def test_what_prepare_returns_is_checked_like_a_request(harness: Harness, notes: Function) -> None:
    add_resource(notes, Note, prepare=lambda _request, _action, item: {**item, "author": 7})
    harness.add(notes)
    assert harness.post("notes", json={"text": "a"}).json["field"] == "author"


def test_decorate_changes_every_answer_and_nothing_stored(harness: Harness, notes: Function) -> None:
    add_resource(notes, Note, decorate=lambda _request, item: {**item, "loud": item["text"].upper()})
    harness.add(notes)
    answer = harness.post("notes", json={"text": "a"})
    at, tag = f"notes/{answer.json['id']}", answer.headers["ETag"]
    assert answer.json["loud"] == harness.get("notes").json[0]["loud"] == "A"
    assert harness.put(at, json={"text": "b"}).json["loud"] == "B"
    assert harness.get(at, headers={"If-None-Match": tag}).status == 200
    assert "loud" not in documents.get(f"notes~{answer.json['id']}")


def test_cascade_names_documents_that_go_with_an_item(harness: Harness, notes: Function) -> None:
    add_resource(notes, Note, cascade=lambda _request, item: [f"scan-{item['id']}", "never-there"])
    harness.add(notes)
    item = harness.post("notes", json={"text": "a"}).json
    documents.put(f"scan-{item['id']}", {"pages": 3})
    assert harness.delete(f"notes/{item['id']}").status == 204
    assert harness.ids("documents") == []
