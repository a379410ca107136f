"""Many documents in one call: each ends for itself, links among them resolve, and nothing shows what was not stored."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from signalbox.adapters import runtime
from signalbox.core.ports import Outcome, Snapshot, Write
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Field
from signalbox.documents.limits import LIMITS
from signalbox.documents.model.stamped_contents import RESERVED, StoredDocument
from signalbox.documents.requests import BulkPutRequest
from signalbox.documents.service.bulk import put_each, waves
from tests.unit.documents.documents_front import Front, front, problem
from tests.unit.operations_platform import OperationsPlatform

NDJSON = "application/x-ndjson"


@pytest.fixture
def at() -> Iterator[Front]:
    with front() as found:
        yield found


def results(at: Front, body: Any, kind: str = "application/json") -> list[dict[str, Any]]:
    """Load documents; return what became of each, its problem as slug and field."""
    answer = at.ask("POST", "/", body, Content_Type=kind)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return [_short(each) for each in json.loads(answer.data)["results"]]


def _short(result: dict[str, Any]) -> dict[str, Any]:
    if "problem" not in result:
        return result
    said = result["problem"]
    assert said["status"] == result["status"]
    assert said["detail"]
    return result | {"problem": (said["type"].rpartition(":")[2], said.get("field"))}


def lines(*bodies: Any) -> bytes:
    return b"\n".join(body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies)


# --- which go first ---


def test_targets_are_written_in_an_earlier_wave() -> None:
    assert list(waves({"a": ["b"], "b": ["c", "elsewhere"], "c": [], "d": []})) == [["c", "d"], ["b"], ["a"]]


def test_a_self_link_does_not_wait_and_a_cycle_is_one_wave() -> None:
    assert list(waves({"a": ["a"], "b": ["c"], "c": ["b"], "d": ["b"]})) == [["a"], ["b", "c", "d"]]


def test_the_last_wave_takes_the_rest_of_a_long_chain() -> None:
    chain = {str(n): [str(n - 1)] for n in range(LIMITS.bulk_waves_max + 5)}
    parted = list(waves(chain))
    assert [len(wave) for wave in parted] == [1] * (LIMITS.bulk_waves_max - 1) + [6]


# --- over HTTP ---


def test_one_document_with_its_key_is_a_put(at: Front) -> None:
    first, second = at.ask("POST", "/", {"key": "a", "n": 1}), at.ask("POST", "/", {"key": "a", "n": 2})
    assert (first.status_code, first.json, second.status_code) == (201, {"key": "a", "n": 1}, 200)
    assert at.client.get("/a").headers["ETag"] == second.headers["ETag"]
    assert at.ask("POST", "/", {"key": "a"}, If_None_Match="*").status_code == 412


@pytest.mark.parametrize(
    ("body", "slug", "field"),
    [
        ({"key": 1}, "bad-key", "key"),
        ({"key": None}, "key-required", "key"),
        ({"key": ""}, "key-required", "key"),
        ({"key": "a/b"}, "bad-key", "key"),
        ("a", "not-an-object", None),
        ({"key": "a", "_signalbox": 1}, "reserved-field", "_signalbox"),
    ],
)
def test_a_document_without_a_valid_key_or_content_is_refused(
    at: Front, body: Any, slug: str, field: str | None
) -> None:
    """A document has a key and is an object."""
    assert problem(at.ask("POST", "/", body)) == (400, slug, field)
    assert at.world.ids("documents") == []


def test_an_array_and_lines_have_the_same_results_in_request_order(at: Front) -> None:
    at.ask("PUT", "/b", {"old": 1})
    listed = results(at, [{"key": "a", "n": 1}, {"key": "b", "n": 2}])
    assert [(each["key"], each["status"]) for each in listed] == [("a", 201), ("b", 200)]
    assert [each["etag"] for each in listed] == [at.client.get(f"/{key}").headers["ETag"] for key in "ab"]
    lined = results(at, lines({"key": "b", "n": 3}, b"", b" \r", {"key": "c"}) + b"\r\n", NDJSON)
    assert [(each["key"], each["status"]) for each in lined] == [("b", 200), ("c", 201)]
    assert (at.seen("a"), at.seen("b")) == ({"key": "a", "n": 1}, {"key": "b", "n": 3})


def test_an_empty_request_has_no_results(at: Front) -> None:
    assert results(at, []) == results(at, b"", NDJSON) == results(at, b"\n\n", NDJSON) == []


def test_each_refusal_is_its_own_and_keeps_no_other_from_being_stored(at: Front) -> None:
    bodies = [{"key": "a", "n": 1}, {"n": 2}, [3], {"key": "b", "": 1}, {"key": "c", "_signalbox": {}}, {"key": "d"}]
    assert [(each["key"], each["status"], each.get("problem")) for each in results(at, bodies)] == [
        ("a", 201, None),
        (None, 400, ("key-required", "key")),
        (None, 400, ("not-an-object", None)),
        ("b", 400, ("bad-value", "")),
        ("c", 400, ("reserved-field", "_signalbox")),
        ("d", 201, None),
    ]
    assert at.world.ids("documents") == ["a", "d"]


def test_a_line_that_is_not_json_is_refused_by_itself(at: Front) -> None:
    broken = [b"{", b'{"key": "x", "n": NaN}', b'{"key": "y"} {"key": "z"}', b'{"key": "\xff"}']
    ended = results(at, lines({"key": "a"}, *broken, {"key": "b"}), NDJSON)
    assert [(each["key"], each["status"]) for each in ended] == [("a", 201), *[(None, 400)] * 4, ("b", 201)]
    assert {each["problem"] for each in ended[1:-1]} == {("not-json", None)}
    assert at.world.ids("documents") == ["a", "b"]


def test_a_refused_line_is_named_by_its_number(at: Front) -> None:
    answer = at.ask("POST", "/", b'{"key": "a"}\n\n{', Content_Type=NDJSON)
    assert json.loads(answer.data)["results"][1]["problem"]["detail"].startswith("In line 3 alone: ")


def test_of_documents_with_one_key_the_first_is_stored_and_the_others_are_refused(at: Front) -> None:
    ended = results(at, [{"key": "a", "n": 1}, {"key": "b"}, {"key": "a", "n": 2}, {"key": "a", "_signalbox": 1}])
    assert [(each["key"], each["status"]) for each in ended] == [("a", 201), ("b", 201), ("a", 409), ("a", 409)]
    assert ended[2]["problem"] == ("duplicate-key", "key")
    assert at.seen("a") == {"key": "a", "n": 1}


@pytest.mark.parametrize("reverse", [False, True])
def test_links_within_one_call_resolve_in_any_order(at: Front, reverse: bool) -> None:
    """Before any event has run, a copy of a copy too."""
    bodies = [{"key": "a", "b": {"key": "b"}}, {"key": "b", "l": [{"key": "c"}, {"key": "old"}]}, {"key": "c", "n": 1}]
    at.ask("PUT", "/old", {"n": 0})
    results(at, bodies[::-1] if reverse else bodies)
    b = {"key": "b", "l": [{"key": "c", "n": 1}, {"key": "old", "n": 0}]}
    assert (at.seen("a"), at.seen("b")) == ({"key": "a", "b": b}, b)
    at.world.settle()
    assert at.seen("a") == {"key": "a", "b": b}


def test_copies_in_a_cycle_are_refreshed_by_their_events(at: Front) -> None:
    results(at, [{"key": "a", "n": 1, "b": {"key": "b"}}, {"key": "b", "n": 2, "a": {"key": "a"}}])
    at.world.settle()
    cycle = {"key": "a", "link_cycle": True}
    assert at.seen("a") == {"key": "a", "n": 1, "b": {"key": "b", "n": 2, "a": cycle}}


def test_a_link_to_a_document_of_the_call_that_is_refused_shows_what_is_stored(at: Front) -> None:
    at.ask("PUT", "/t", {"n": "old"})
    results(at, [{"key": "p", "t": {"key": "t"}}, {"key": "t", "n": "x" * 1_000_000}])
    assert at.seen("p") == {"key": "p", "t": {"key": "t", "n": "old"}}


def test_a_call_beyond_the_limit_is_refused_whole_with_the_number(at: Front) -> None:
    many = [{"key": str(n)} for n in range(LIMITS.bulk_puts_max + 1)]
    linked = [{"key": str(n), "l": [{"key": f"t{n}-{m}"} for m in range(400)]} for n in range(3)]
    large = b"[" + b" " * (8 * 1024 * 1024) + b"]"
    for body, number in (
        (many, LIMITS.bulk_puts_max),
        (linked, f"{LIMITS.bulk_targets_max:,}"),
        (large, f"{8 * 1024 * 1024:,}"),
    ):
        answer = at.ask("POST", "/", body)
        assert problem(answer) == (413, "too-large", None)
        assert str(number) in json.loads(answer.data)["detail"]
    assert problem(at.ask("POST", "/", lines(*many), Content_Type=NDJSON)) == (413, "too-large", None)
    assert at.world.ids("documents") == []


def test_eight_megabytes_of_documents_are_stored_in_one_call(at: Front) -> None:
    ended = results(at, [{"key": str(n), "t": "x" * 900_000} for n in range(9)])
    assert [each["status"] for each in ended] == [201] * 9


def test_a_condition_on_many_documents_is_refused(at: Front) -> None:
    assert problem(at.ask("POST", "/", [{"key": "a"}], If_None_Match="*")) == (400, "bad-precondition", None)
    assert at.world.ids("documents") == []


# --- others who write meanwhile ---


class Contested:
    """A store in which another client writes before each of the first `times` writes of many."""

    def __init__(self, world: OperationsPlatform, other: Callable[[], object], times: int) -> None:
        self.query, self.count = world.store.query, world.store.count
        self.commit, self.new_id = world.store.commit, world.store.new_id
        self._world, self._other, self._left = world, other, times

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        return self._world.store.read(*paths, fields=fields)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        return self._world.store.read_some(needed, others, bytes_max)

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        if self._left:
            self._left -= 1
            self._other()
        return self._world.store.write_each(writes)


def load(world: OperationsPlatform, other: Callable[[], object], times: int, bodies: list[Any]) -> list[Any]:
    ports = replace(world.ports, store=Contested(world, other, times))
    return [each.outcome for each in put_each(ports, BulkPutRequest.from_request(bodies))]


def test_a_document_that_loses_its_guard_is_read_again_with_its_targets() -> None:
    world = OperationsPlatform()
    world.put("t", n=1)

    def other() -> None:
        world.put("p", n="another's")
        world.put("t", n=2)

    [ending] = load(world, other, 1, [{"key": "p", "t": {"key": "t"}}])
    assert isinstance(ending, StoredDocument)
    assert (ending.created, ending.document) == (False, {"key": "p", "t": {"key": "t", "n": 2}})
    assert len(world.slept_seconds) == 1


def test_a_document_that_always_loses_its_guard_is_unavailable_and_the_others_are_stored() -> None:
    world = OperationsPlatform()
    endings = load(world, lambda: world.put("p", n="another's"), 99, [{"key": "p", "n": 1}, {"key": "q", "n": 1}])
    assert isinstance(endings[0], Unavailable)
    assert isinstance(endings[1], StoredDocument)
    assert world.shown("p") == {"key": "p", "n": "another's"}


def test_only_metadata_is_read_of_a_replaced_document_and_all_of_a_target() -> None:
    world = OperationsPlatform()
    world.put("t", n=1)
    world.put("p", t={"key": "t"}, text="x" * 1_000)
    world.settle()
    read: dict[str, Any] = {}

    class Watched(Contested):
        def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
            found = super().read(*paths, fields=fields)
            read.update((one.path, one.data) for one in found)
            return found

        def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
            found = super().read_some(needed, others, bytes_max)
            read.update((one.path, one.data) for one in found)
            return found

    ports = replace(world.ports, store=Watched(world, lambda: None, 0))
    put_each(ports, BulkPutRequest.from_request([{"key": "p", "t": {"key": "t"}}]))
    assert read["documents/p"].keys() == {RESERVED}
    assert read["documents/p"][RESERVED].keys() == {"version", "author", "digest", "hops", "linked"}
    assert read["documents/t"]["n"] == 1
    assert world.record("documents/p")[RESERVED]["linked"] is False


def test_a_write_whose_outcome_is_unknown_is_503_for_that_document_alone(at: Front) -> None:
    class Forgetful(Contested):
        def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
            return (Unavailable("lost"), *super().write_each(writes)[1:])

    ports = replace(at.world.ports, store=Forgetful(at.world, lambda: None, 0))
    runtime.bind(ports)
    ended = results(at, [{"key": "a"}, {"key": "b"}])
    assert [(each["key"], each["status"]) for each in ended] == [("a", 503), ("b", 201)]
    assert ended[0]["problem"] == ("unavailable", None)
