"""Whatever JSON is sent comes back equal, or is refused with a problem that says why: over HTTP, for every way in."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signalbox.core.json_values import canonical
from signalbox.documents.machine import patches
from signalbox.documents.machine.patches import Null
from signalbox.documents.model.stamped_contents import RESERVED
from tests.unit.documents.documents_front import Front, front, problem

REFUSALS = {
    "bad-key",
    "key-mismatch",
    "key-required",
    "bad-value",
    "too-deep",
    "too-large",
    "reserved-field",
    "not-json",
}


def _nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 3 else {"d": value}
    return {"d": value}


odd_names = st.sampled_from(["key", RESERVED, "", "[]", "[][]", "a.b", "__x__", "`", "/", "link_missing", "n" * 1_501])
names = st.text(max_size=8) | odd_names
texts = st.text(max_size=20) | st.sampled_from(["x" * 700, "\x00", "__x__"])
numbers = st.integers(-(2**64), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | texts
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=25
)
objects = st.dictionaries(names, anything, max_size=5)
deep = st.integers(1, 30).map(_nested)


def linkless(value: Any) -> bool:
    """Return whether nothing in a value is a link, so that it must come back as it is."""
    if isinstance(value, dict):
        return "key" not in value and all(map(linkless, value.values()))
    return all(map(linkless, value)) if isinstance(value, list) else True


def own(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without its key and without the copies of its links."""
    return {name: _bare(value) for name, value in document.items() if name != "key"}


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {"key": value["key"]} if "key" in value else {name: _bare(item) for name, item in value.items()}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def holds(answer: Any, sent: dict[str, Any], at: Front) -> bool:
    """Check that what was sent is there now as it was, or that it was refused; tell which."""
    if answer.status_code >= 400:
        assert answer.status_code in (400, 413)
        assert problem(answer)[1] in REFUSALS
        assert at.world.ids("documents") == []
        return False
    document = at.seen("a")
    assert document["key"] == "a"
    assert canonical(own(document)) == canonical(own(sent))
    assert canonical(document) == canonical(answer.json)
    assert RESERVED not in document
    return True


EXAMPLES = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@EXAMPLES
@given(objects | deep)
def test_any_object_that_is_put_comes_back_equal_or_is_refused_with_a_reason(sent: dict[str, Any]) -> None:
    """Lists in lists, empty ones, long texts, numbers that equal each other but are not the same."""
    with front() as at:
        if holds(at.ask("PUT", "/a", sent), sent, at) and linkless(sent):
            assert canonical(at.seen("a")) == canonical({"key": "a", **sent})


@EXAMPLES
@given(objects)
def test_any_object_in_a_bulk_put_has_the_outcome_of_a_put(sent: dict[str, Any]) -> None:
    with front() as single:
        put = single.ask("PUT", "/a", sent)
    with front() as at:
        [ended] = json.loads(at.ask("POST", "/", [sent | {"key": "a"}]).data)["results"]
        if sent.get("key", "a") != "a":
            return
        assert ended["status"] == put.status_code
        if put.status_code == 201:
            assert canonical(at.seen("a")) == canonical(put.json)
        else:
            assert canonical(ended["problem"]) == canonical(json.loads(put.data))


@EXAMPLES
@given(objects.filter(linkless), objects.filter(linkless), st.sampled_from(Null))
def test_any_merge_has_the_result_of_the_rfc_or_is_refused_with_a_reason(
    held: dict[str, Any], patch: dict[str, Any], null: Null
) -> None:
    kind = "application/json" if null is Null.IS_A_VALUE else "application/merge-patch+json"
    with front() as at:
        if at.ask("PUT", "/a", held).status_code != 201:
            return
        answer = at.ask("PATCH", "/a", patch, Content_Type=kind)
        if answer.status_code == 200:
            assert canonical(at.seen("a")) == canonical({"key": "a", **patches.merged_json(held, patch, null)})
        else:
            assert problem(answer)[1] in REFUSALS
            assert canonical(at.seen("a")) == canonical({"key": "a", **held})


# --- the kit's own fields ---

OWN = {"version": 1, "linked": False, "link_keys": ["t"], "author": "put"}


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("PUT", "/a", "application/json"),
        ("PATCH", "/a", "application/json"),
        ("PATCH", "/a", "application/merge-patch+json"),
        ("POST", "/", "application/json"),
    ],
)
@pytest.mark.parametrize("value", [OWN, None, {}, []])
def test_metadata_cannot_be_set_by_callers(method: str, path: str, kind: str, value: Any) -> None:
    with front() as at:
        before = at.ask("PUT", "/a", {"n": 1}).headers["ETag"]
        answer = at.ask(method, path, {"key": "a", RESERVED: value}, Content_Type=kind)
        assert problem(answer) == (400, "reserved-field", RESERVED)
        [ended] = json.loads(at.ask("POST", "/", [{"key": "a", RESERVED: value}]).data)["results"]
        assert (ended["status"], ended["problem"]["field"]) == (400, RESERVED)
        assert at.client.get("/a").headers["ETag"] == before


def test_metadata_is_never_shown() -> None:
    """Metadata is not shown in a document, a copy, a copy of a copy or a list, nor by naming its fields."""
    with front() as at:
        at.ask("PUT", "/t", {"n": 1})
        at.ask("PUT", "/p", {"t": {"key": "t"}})
        at.world.settle()
        answers = [
            at.ask("PUT", "/q", {"p": {"key": "p"}}),
            at.ask("PATCH", "/q", {"m": 1}),
            at.ask("POST", "/", [{"key": "r", "q": {"key": "q"}}]),
            at.ask("GET", "/r"),
            at.ask("GET", "/?where=n==1"),
        ]
        assert [RESERVED in answer.get_data(as_text=True) for answer in answers] == [False] * len(answers)
        refused = at.ask("GET", f"/?where={RESERVED}.linked==true"), at.ask("GET", f"/?order_by={RESERVED}.version")
        assert [problem(answer)[1] for answer in refused] == ["bad-query"] * 2


@pytest.mark.parametrize("name", [RESERVED, f"{RESERVED}.version"])
def test_the_reserved_name_is_ordinary_in_nested_objects(name: str) -> None:
    with front() as at:
        assert at.ask("PUT", "/a", {"in": {name: OWN}}).status_code == 201
        assert at.ask("PATCH", "/a", {"in": {"m": 1}}).json == {"key": "a", "in": {name: OWN, "m": 1}}


# --- limits, with their numbers ---


@pytest.mark.parametrize(
    ("path", "body", "status", "number"),
    [
        ("/a", {"t": "x" * 1_000_000}, 413, "1,000,000 bytes"),
        ("/a", _nested(20), 400, "20 deep"),
        ("/a", {"l": [{"key": "t"}] * 501}, 413, "500 links"),
        ("/" + "k" * 1_001, {}, 400, "1,000 bytes"),
        ("/a", {"n" * 1_501: 1}, 400, "1500 bytes"),
        ("/a", {"n": 2**63}, 400, "64 bits"),
        ("/a", {"t": "x" * (1024 * 1024)}, 413, "1,048,576 bytes"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_what_passes_a_limit_is_refused_with_the_limits_number(
    method: str, path: str, body: Any, status: int, number: str
) -> None:
    with front() as at:
        answer = at.ask(method, path, body)
        assert problem(answer)[0] == status
        assert number in answer.get_data(as_text=True)
        assert at.world.ids("documents") == []
