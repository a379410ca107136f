"""bOTL, revision 1: each row of the language's table, its limits, and that no data can become a selector."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbox.core.json_values import canonical
from signalbox.transforms import machine
from signalbox.transforms.problems import TransformFailed

OUTPUT_BYTES_MAX = 1_000_000


def apply(transform: Any, source: Any) -> Any:
    return machine.apply(transform, source, OUTPUT_BYTES_MAX)


S: dict[str, Any] = {
    "first": {"second": {"third": 3, "x": {"third": "three", "last": 99}}},
    "name": "Fred",
    "n": None,
    "arr": [1, 2, [3]],
    "dup": [1, True, 1.0, 2, 2],
}


@pytest.mark.parametrize(
    ("transform", "made"),
    [
        # literals and escapes
        (5, 5),
        (1.5, 1.5),
        (True, True),
        (None, None),
        ("plain", "plain"),
        ("lit=#.name", "#.name"),
        ("lit={{.name}}", "{{.name}}"),
        ("lit=lit=x", "lit=x"),
        # simple selectors
        ("#.first .second .third", 3),
        ("#.nope", None),
        ("#.name .nope", None),
        ("#", S),
        ("#?name", None),
        ("#name", None),
        ("#.arr @0", 1),
        ("#.arr @-1", [3]),
        ("#.arr @2 @0", 3),
        ("#.arr @3", None),
        ("#.arr @x", None),
        ("#.arr @", None),
        ("#.name @0", "F"),
        ("#.name @-1", "d"),
        ("#.name @4", None),
        ("#.first @0", None),
        ("{{.name @0}}.", "F."),
        ("#!nope", None),
        # in lists
        (["a", "#.first .second >third", "b"], ["a", 3, "three", "b"]),
        (["#.nope"], []),
        (["#.n"], [None]),
        (["#.arr"], [[1, 2, [3]]]),
        (["#.arr @:"], [1, 2, [3]]),
        (["#.arr @1:"], [2, [3]]),
        (["#.arr @:1"], [1]),
        (["#.arr @::2"], [1, [3]]),
        (["#.arr @::-1"], [[3], 2, 1]),
        (["#.arr @::0"], []),
        (["#.name @0"], ["F"]),
        (["#.name @0:2"], ["F", "r"]),
        (["#.name @::-1"], ["d", "e", "r", "F"]),
        (["#.name @:0"], []),
        (["#.n @:"], []),
        ([["#.arr @:1"], []], [[1], []]),
        # in objects
        ({"k": "#.nope"}, {"k": None}),
        ({"k": "#.arr @:"}, {"k": 1}),
        ({"#.name": "{{.name}}", "{{.name}}": 1}, {"#.name": "Fred", "{{.name}}": 1}),
        ({}, {}),
        # deduplication
        (["#.dup @:"], [1, 2]),
        # complex references
        ([{"ref": ".arr @:", "id": "e", "transform": "#!e"}], [1, 2, [3]]),
        ([{"ref": ".arr @:"}], [1, 2, [3]]),
        ([{"ref": ".arr @:", "transform": "#.name"}], ["Fred", "Fred", "Fred"]),
        ([{"ref": ".arr @:2", "id": "e", "transform": {"is": "#!e"}}], [{"is": 1}, {"is": 2}]),
        (
            [{"ref": ".arr @:2", "id": "a", "transform": {"ref": ".dup @3", "id": "b", "transform": ["#!a", "#!b"]}}],
            [[1, 2], [2, 2]],
        ),
        ({"ref": ".first .second"}, S["first"]["second"]),
        ({"ref": ".nope", "transform": 1}, None),
        ({"ref": 5}, None),
        # interpolation
        ("{{.name}}!", "Fred!"),
        ("{{ .name }}!", "Fred!"),
        ("{{.name}} {{.name}}", "Fred Fred"),
        ("-{{.nope}}-", "--"),
        ("{{.n}}", "None"),
        ("{{.dup @1}}{{.dup @3}}", "True2"),
        ("{{.arr}}", "[1, 2, [3]]"),
        ("{{.arr @:}}", "1"),
        ("{{.first .second .x}}", "{'last': 99, 'third': 'three'}"),
        ("{{.name", "{{.name"),
    ],
)
def test_output_of_each_construct(transform: Any, made: Any) -> None:
    assert canonical(apply(transform, S)) == canonical(made)


def test_true_is_printed_as_python_does() -> None:
    assert apply("{{.t}}", {"t": True}) == "True"


def test_substituted_text_is_never_scanned_again() -> None:
    source = {"secret": "s3cret", "a": "{{.secret}}", "b": "#.secret", "open": "{{", "close": ".secret}}"}
    assert apply("{{.a}} {{.b}} {{.open}}{{.close}}", source) == "{{.secret}} #.secret {{.secret}}"
    assert apply(["#.a", "#.b"], source) == ["{{.secret}}", "#.secret"]


def test_the_order_of_a_sources_fields_does_not_matter() -> None:
    turned = {name: S[name] for name in reversed(S)} | {
        "first": {"second": {"x": S["first"]["second"]["x"], "third": 3}}
    }
    for transform in (["#>third"], "{{.first}}", "{{}}", "#.first >third"):
        assert canonical(apply(transform, S)) == canonical(apply(transform, turned))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats(allow_nan=False) | st.text("a{}.# ", max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
STEPS = st.sampled_from([".a", ".b", ">a", ">c", "!v", "@0", "@-1", "@:", "@::2", "@x", "", "?", "."])
TEXTS = st.lists(STEPS, max_size=3).map(" ".join)
STRINGS = st.text("a{}.#=lit ", max_size=8) | TEXTS.map("#{}".format) | TEXTS.map("{{{{{}}}}}".format)
TRANSFORMS = st.recursive(
    st.none() | st.integers(-3, 3) | STRINGS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "id", "transform"]), inner, max_size=3)
        | st.builds(lambda ref, one: {"ref": ref, "id": "v", "transform": one}, TEXTS, inner)
    ),
    max_leaves=8,
)


@given(TRANSFORMS, JSON)
def test_any_transform_of_any_value_is_deterministic_and_changes_neither(transform: Any, source: Any) -> None:
    before = copy.deepcopy((transform, source))
    made = canonical(apply(transform, source))
    assert canonical(apply(transform, source)) == made
    assert canonical((transform, source)) == canonical(before)


@given(TRANSFORMS, JSON)
def test_only_what_may_produce_an_object_ever_does(transform: Any, source: Any) -> None:
    if not machine.may_produce_an_object(transform):
        assert not isinstance(apply(transform, source), dict)


@given(st.text("ab{}.#!@>: ", max_size=12))
def test_any_selected_text_is_output_unchanged(text: str) -> None:
    source = {"a": text, "b": "never"}
    assert apply("{{.a}}", source) == text
    assert apply({"x": ["#.a"]}, source) == {"x": [text]}


@pytest.mark.parametrize(
    "transform",
    [
        ["#.l @:"] * 600,
        [{"ref": ".l @:", "id": "a", "transform": {"ref": ".l @:", "transform": {"ref": ".l @:", "transform": 1}}}],
        [["#>nope"] * 100] * 10,
        ["{{.big}}"] * 2,
        ["#.big"] * 2,
        [{"ref": ".l @:", "transform": "a{{" + "x" * 99_000 + "}}"}],
        [{"ref": ".l @:", "transform": "{{" + " " * 99_000 + "!v}}"}],
        [{"ref": ".l @:", "transform": "#@" + "1" * 99_000}],
        [{"ref": ".l @:", "transform": "#" + " .k" * 33_000}],
        [{"ref": ".l @:", "transform": {"ref": "." + "k" * 99_000}}],
    ],
)
def test_a_run_is_bounded_in_steps_and_bytes(transform: Any) -> None:
    source = {"l": list(range(100)), "big": "x" * (OUTPUT_BYTES_MAX // 2 + 1)}
    with pytest.raises(TransformFailed):
        apply(transform, source)


@pytest.mark.parametrize("kind", machine.STEPS)
def test_a_long_step_is_read_once_and_not_for_each_value(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def take(_: Any, name: str, __: Any) -> Iterator[Any]:
        names.append(name)
        return iter(())

    monkeypatch.setattr(machine, "STEPS", {**machine.STEPS, kind: take})
    first = ">a" if kind == "@" else "@:"
    assert apply([f"#{first} {kind}{'k' * 99_000}"], [{"a": [at]} for at in range(9)]) == []
    assert (len(names), len(set(map(id, names)))) == (9, 1)


class Unread(str):
    """A text whose characters may not be read."""

    __slots__ = ()

    def split(self, *_: Any) -> list[str]:
        raise AssertionError("the index is parsed")


@pytest.mark.parametrize("text", [":" * 99_000, "1" * 99_000])
def test_an_index_that_no_list_has_is_not_parsed(text: str) -> None:
    assert list(machine.STEPS["@"]([1], Unread(text), {})) == []


def test_a_selector_without_steps_is_counted() -> None:
    with pytest.raises(TransformFailed, match="steps"):
        apply(["{{}}" * 24_000] * 3, "")
