"""The code of a flow observes what the pages say: small programs, each compared with the model after each entry."""

from collections.abc import Sequence

import pytest

from tests.simulation.worlds.flow_trees import known
from tests.simulation.worlds.flow_trees.compared import Case, shrunk
from tests.simulation.worlds.flow_trees.programs import Tree, in_python
from tests.simulation.worlds.flow_trees.runs import Entry

CANCEL = Entry("cancel")


def ends(label: str, kind: str = "step") -> Entry:
    return Entry(kind, label, 1 if kind == "step" else 0)


def fails(label: str) -> Entry:
    return Entry("step", label, failed=True)


def tree(kind: str, *parts: Tree, label: str = "") -> Tree:
    return Tree(kind, label, parts)


def step(label: str) -> Tree:
    return tree("step", label=label)


def event(name: str) -> Tree:
    return tree("event", label=name)


def awaits(*items: Tree) -> tuple[Tree, ...]:
    return tuple(tree("await", item) for item in items)


def shield(item: Tree) -> Tree:
    return tree("shield", item)


def program(*statements: Tree) -> Tree:
    return tree("block", *statements)


AGAIN = tree("again", label="2")
LOCK_IN_A_GROUP = tree("begin", tree("all", tree("lock", label="l"), step("s")), label="h")

HELD: dict[str, tuple[Tree, Sequence[Entry], bool]] = {
    "a clean-up behind a shield runs to its end": (
        program(tree("try", program(*awaits(shield(step("s")))), program(*awaits(shield(step("t")))), label="finally")),
        [CANCEL, ends("s"), ends("t")],
        False,
    ),
    "a cancel that is due begins the next generation": (
        program(*awaits(shield(step("s"))), AGAIN),
        [ends("s"), CANCEL, ends("sg1")],
        True,
    ),
    "a cancel does not wait for a shield that has ended": (
        program(*awaits(tree("first", tree("all", shield(step("s")), event("a")), step("t")))),
        [ends("s"), CANCEL],
        False,
    ),
    "a cancel waits for a shield in a first and is raised then": (
        program(*awaits(tree("wait_for", tree("all", shield(step("s")), event("a")), label="t"))),
        [CANCEL, ends("s")],
        False,
    ),
    "a failed shield in a first success passes the cancel on": (
        program(*awaits(tree("first_success", shield(step("s")), step("t")))),
        [CANCEL, fails("s")],
        False,
    ),
    "an error of a sibling does not wait for a shield that has ended": (
        program(
            *awaits(tree("all", step("u"), tree("wait_for", tree("all", shield(step("s")), step("v")), label="t")))
        ),
        [ends("s"), fails("u")],
        False,
    ),
    "a lock of a begun group that failed is released": (
        program(LOCK_IN_A_GROUP, *awaits(event("a"))),
        [ends("l", "lock"), fails("s")],
        False,
    ),
    "a lock of a cancelled handle is released": (
        program(LOCK_IN_A_GROUP, *awaits(step("t")), tree("cancel", label="h"), *awaits(event("a"))),
        [ends("l", "lock"), ends("t")],
        False,
    ),
    "an event of an abandoned group is received by the next wait": (
        program(*awaits(tree("first", tree("all", event("a"), event("b")), step("s")), event("a"))),
        [Entry("event", "a", 1), ends("s")],
        False,
    ),
    "a time-out begins beside a first success whose first item, a handle, has failed": (
        program(
            tree("begin", step("s"), label="h"),
            *awaits(step("t")),
            *awaits(
                tree("wait_for", tree("first_success", tree("handle", step("x"), label="h"), step("u")), label="v")
            ),
        ),
        [fails("s"), ends("t")],
        False,
    ),
    "a time-out begins beside a first success whose first item, a kept event, is wrong": (
        program(
            *awaits(step("s"), tree("wait_for", tree("first_success", event("a"), event("b")), label="t")),
        ),
        [Entry("event", "a", "five"), ends("s")],
        False,
    ),
    "the error of a wrong event is received once, also in a group": (
        program(
            tree(
                "try",
                program(*awaits(tree("all", event("a"), event("b")))),
                program(*awaits(event("a"))),
                label="problem",
            ),
        ),
        [Entry("event", "b", 1), Entry("event", "a", "five"), Entry("event", "a", 6)],
        False,
    ),
    "an event that a wait with a time-out has received is received by the next wait, if its group fails": (
        program(
            tree(
                "try",
                program(*awaits(tree("all", tree("wait_for", event("a"), label="t"), step("s")))),
                program(),
                label="problem",
            ),
            *awaits(event("a")),
        ),
        [Entry("event", "a", 1), fails("s")],
        False,
    ),
}

DIFFERENT: dict[str, tuple[Tree, Sequence[Entry]]] = {
    known.loses_results_of_a_map.__name__: (
        program(
            tree(
                "try",
                program(*awaits(tree("map", tree("lock", label="l"), step("s"), label="2"))),
                program(),
                label="problem",
            ),
            *awaits(event("a")),
        ),
        [ends("l", "lock"), fails("s")],
    ),
    known.is_not_done_at_once.__name__: (
        program(*awaits(step("s")), tree("begin", event("a"), label="h"), tree("done", label="h")),
        [Entry("event", "a", 1), ends("s")],
    ),
}


@pytest.mark.parametrize("what", HELD)
def test_the_library_agrees_with_the_model(what: str) -> None:
    tree, entries, in_turns = HELD[what]
    assert Case(tree, entries, in_turns=in_turns).difference() is None


def test_each_known_difference_is_still_one() -> None:
    """Otherwise its entry in `known.py` is out of date: delete it, and move its program to `HELD`."""
    assert DIFFERENT.keys() == {is_known.__name__ for is_known in known.KNOWN}
    for is_known in known.KNOWN:
        tree, entries = DIFFERENT[is_known.__name__]
        assert is_known(tree)
        assert Case(tree, entries).difference() is not None, is_known.__name__


def test_a_difference_is_shrunk_to_a_small_program() -> None:
    """The program has parts that do not matter: a statement before, one after, and an entry."""
    tree, entries = DIFFERENT[known.is_not_done_at_once.__name__]
    large = program(*awaits(step("z")), *tree.parts, *awaits(step("y")))
    found = Case(large, [ends("z"), *entries, ends("y")]).difference()
    assert found is not None
    small = shrunk(found)
    assert in_python(small.case.program).splitlines() == [
        "async def program():",
        "    await s.call()",
        '    h = flow.begin(flow.event("a"))',
        "    h.done",
    ]
    assert [str(entry) for entry in small.entries] == ["the event a arrives with 1", "s ends with 1"]
