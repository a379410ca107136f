"""Conditions on entity tags (RFC 9110, section 13): what holds, what is answered, and that they hold at the commit."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from signalbox.core.ports import Committed, Ports, Snapshot, Write
from signalbox.core.records.queries import Field
from signalbox.documents.problems import PreconditionFailed
from signalbox.documents.requests import PatchRequest, Precondition, PutRequest, Tags
from signalbox.documents.service import single_documents
from signalbox.documents.service.patches import patch
from tests.unit.documents.documents_front import Front, front, problem
from tests.unit.operations_platform import OperationsPlatform

OTHER = '"20200101T000000000000"'


@pytest.fixture
def at() -> Iterator[Front]:
    with front() as found:
        yield found


@pytest.fixture
def tag(at: Front) -> str:
    """Put a document; return its tag."""
    return at.ask("PUT", "/a", {"n": 1}).headers["ETag"]


def listed(tag: str, form: str) -> str:
    return form.replace("TAG", tag).replace("OTHER", OTHER)


HOLD = [
    ("If_Match", "TAG"),
    ("If_Match", "OTHER, TAG"),
    ("If_Match", " OTHER ,TAG "),
    ("If_Match", "*"),
    ("If_None_Match", "OTHER"),
    ("If_None_Match", "W/OTHER, OTHER"),
]
FAIL = [
    ("If_Match", "OTHER"),
    ("If_Match", "W/TAG"),
    ("If_Match", "OTHER, W/TAG"),
    ("If_None_Match", "TAG"),
    ("If_None_Match", "W/TAG"),
    ("If_None_Match", "OTHER, W/TAG"),
    ("If_None_Match", "*"),
]
WRITES = [("PUT", {"n": 2}, 200), ("PATCH", {"n": 2}, 200), ("DELETE", None, 204)]


@pytest.mark.parametrize(("method", "body", "status"), WRITES)
@pytest.mark.parametrize(("header", "form"), HOLD)
def test_a_write_whose_precondition_holds_succeeds(
    at: Front, tag: str, method: str, body: Any, status: int, header: str, form: str
) -> None:
    assert at.ask(method, "/a", body, **{header: listed(tag, form)}).status_code == status
    assert at.seen("a") == ({"key": "a", "n": 2} if body else None)


@pytest.mark.parametrize(("method", "body", "status"), WRITES)
@pytest.mark.parametrize(("header", "form"), FAIL)
def test_a_write_whose_precondition_fails_is_412_and_changes_nothing(
    at: Front, tag: str, method: str, body: Any, status: int, header: str, form: str
) -> None:
    answer = at.ask(method, "/a", body, **{header: listed(tag, form)})
    assert problem(answer) == (412, "precondition-failed", None)
    assert tag in answer.json["detail"]  # type: ignore[index]  # a problem is an object
    assert at.client.get("/a").headers["ETag"] == tag


@pytest.mark.parametrize(("header", "form"), HOLD)
def test_a_read_whose_precondition_holds_returns_the_document(at: Front, tag: str, header: str, form: str) -> None:
    answer = at.ask("GET", "/a", **{header: listed(tag, form)})
    assert (answer.status_code, answer.json, answer.headers["ETag"]) == (200, {"key": "a", "n": 1}, tag)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("form", ["TAG", "W/TAG", "OTHER, TAG", "*"])
def test_a_reader_who_has_the_document_gets_304_without_it(at: Front, tag: str, method: str, form: str) -> None:
    answer = at.ask(method, "/a", If_None_Match=listed(tag, form))
    assert (answer.status_code, answer.data, answer.headers["ETag"]) == (304, b"", tag)


def test_a_read_whose_if_match_fails_is_412(at: Front, tag: str) -> None:
    assert problem(at.ask("GET", "/a", If_Match=OTHER)) == (412, "precondition-failed", None)
    assert problem(at.ask("GET", "/a", If_Match=f"W/{tag}")) == (412, "precondition-failed", None)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_without_a_document_none_match_creates_and_match_is_412(at: Front, method: str) -> None:
    for form in ("*", OTHER):
        assert problem(at.ask(method, "/a", {"n": 1}, If_Match=form)) == (412, "precondition-failed", None)
    assert at.world.ids("documents") == []
    assert at.ask(method, "/a", {"n": 1}, If_None_Match="*").status_code == 201
    assert at.ask(method, "/a", {"n": 2}, If_None_Match="*").status_code == 412


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("header", ["If_Match", "If_None_Match"])
def test_without_a_document_read_and_delete_are_404_under_any_precondition(at: Front, method: str, header: str) -> None:
    assert problem(at.ask(method, "/a", **{header: "*"})) == (404, "not-found", "key")


def test_if_match_is_checked_first_and_both_must_hold(at: Front, tag: str) -> None:
    assert at.ask("GET", "/a", If_Match=tag, If_None_Match=tag).status_code == 304
    assert at.ask("GET", "/a", If_Match=OTHER, If_None_Match=tag).status_code == 412
    assert at.ask("PUT", "/a", {}, If_Match=tag, If_None_Match=tag).status_code == 412
    assert at.ask("PUT", "/a", {}, If_Match=tag, If_None_Match=OTHER).status_code == 200


@pytest.mark.parametrize(
    ("form", "status"), [("", 400), (" ", 400), (",", 400), ("OTHER, *", 412), ('""', 412), ('"*"', 412)]
)
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_a_header_without_a_matching_tag_permits_nothing(
    at: Front, tag: str, method: str, form: str, status: int
) -> None:
    assert at.ask(method, "/a", {"n": 2}, If_Match=listed(tag, form)).status_code == status
    assert at.client.get("/a").headers["ETag"] == tag


def test_a_refreshed_copy_changes_the_tag(at: Front) -> None:
    at.ask("PUT", "/t", {"n": 1})
    tag = at.ask("PUT", "/p", {"t": {"key": "t"}}).headers["ETag"]
    at.ask("PUT", "/t", {"n": 2})
    at.world.settle()
    assert at.ask("PUT", "/p", {}, If_Match=tag).status_code == 412
    assert at.seen("p") == {"key": "p", "t": {"key": "t", "n": 2}}


class Overtaken:
    """A store in which another client writes between the first read and the commit that follows."""

    def __init__(self, world: OperationsPlatform, other: Callable[[], object]) -> None:
        self.query, self.count = world.store.query, world.store.count
        self.write_each, self.new_id = world.store.write_each, world.store.new_id
        self._world = world
        self._others = [other]

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        return self._world.store.read(*paths, fields=fields)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        return self._world.store.read_some(needed, others, bytes_max)

    def commit(self, writes: Sequence[Write]) -> Committed:
        if self._others:
            self._others.pop()()
        return self._world.store.commit(writes)


def seen_tag(world: OperationsPlatform, key: str) -> Precondition:
    return Precondition(if_match=Tags(strong=frozenset({single_documents.get(world.ports, key).etag})))


WRITE: dict[str, Callable[[Ports, Precondition], object]] = {
    "put": lambda ports, condition: single_documents.put(ports, PutRequest.from_request("a", {"n": 2}, condition)),
    "patch": lambda ports, condition: patch(ports, PatchRequest.from_request("a", {"n": 2}, precondition=condition)),
    "delete": lambda ports, condition: single_documents.delete(ports, "a", condition),
}


@pytest.mark.parametrize("write", WRITE)
def test_a_precondition_that_held_only_at_the_read_fails(write: str) -> None:
    world = OperationsPlatform()
    world.put("a", n=1)
    condition = seen_tag(world, "a")
    ports = replace(world.ports, store=Overtaken(world, lambda: world.put("a", n="another's")))
    with pytest.raises(PreconditionFailed):
        WRITE[write](ports, condition)
    assert world.shown("a") == {"key": "a", "n": "another's"}


@pytest.mark.parametrize("write", ["put", "patch"])
def test_one_of_two_racing_conditional_creates_is_refused(write: str) -> None:
    world = OperationsPlatform()
    ports = replace(world.ports, store=Overtaken(world, lambda: world.put("a", n="another's")))
    with pytest.raises(PreconditionFailed):
        WRITE[write](ports, Precondition(if_none_match=Tags(every=True)))
    assert world.shown("a") == {"key": "a", "n": "another's"}


def test_a_merge_that_lost_its_guard_keeps_the_other_write() -> None:
    world = OperationsPlatform()
    world.put("a", n=1)
    ports = replace(world.ports, store=Overtaken(world, lambda: world.put("a", n=1, m="another's")))
    assert patch(ports, PatchRequest.from_request("a", {"n": 2})).document == {"key": "a", "n": 2, "m": "another's"}
