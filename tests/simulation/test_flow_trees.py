"""The code of a flow observes what the pages say: small programs, each compared with the model after each entry."""

from collections.abc import Callable, Sequence
from itertools import product

import pytest

from signalbox import flow
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


def problem(item: Tree) -> Tree:
    """Return a statement that awaits an item, and handles its error."""
    return tree("try", program(*awaits(item)), program(), label="problem")


def swallowing(item: Tree) -> Tree:
    """Return a statement that awaits an item, and catches its cancel."""
    return tree("try", program(*awaits(item)), program(), label="swallowed")


def shield(item: Tree) -> Tree:
    return tree("shield", item)


def program(*statements: Tree) -> Tree:
    return tree("block", *statements)


def branch(label: str, *items: Tree) -> Tree:
    return tree("code", program(*awaits(*items)), label=label)


def cleaning_up(label: str, item: Tree) -> Tree:
    """Return a branch that awaits an item, and an event at its end."""
    return tree(
        "code", program(tree("try", program(*awaits(item)), program(*awaits(event("a"))), label="finally")), label=label
    )


AGAIN = tree("again", label="2")
HANDLE = tree("handle", step("never"), label="h")
LOCK_IN_A_GROUP = tree("begin", tree("all", tree("lock", label="l"), step("s")), label="h")
THREE_EVENTS = [Entry("event", "a", number) for number in (1, 2, 3)]
DECIDED = tree("first", tree("settled", event("a"), step("t")), event("a"))
"""A group that is decided as it begins, if two events are kept. The first of them is kept again."""

GIVES_BACK = tree(
    "all", tree("settled", event("a"), tree("lock", label="l")), shield(event("a")), tree("all", event("b"))
)
"""A group that fails if a wrong event b is kept. An event a is then given back, and goes to its shield: it ends."""

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
    "a time-out begins after a first success with a failed handle": (
        program(
            tree("begin", step("s"), label="h"),
            *awaits(step("t")),
            *awaits(
                tree("wait_for", tree("first_success", tree("handle", step("x"), label="h"), step("u")), label="v")
            ),
        ),
        [fails("s"), ends("t"), ends("v", "sleep")],
        False,
    ),
    "a time-out begins beside a first success whose first item, a kept event, is wrong": (
        program(*awaits(step("s"), tree("wait_for", tree("first_success", event("a"), event("b")), label="t"))),
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
    "a wrong event that was kept ends a first in a first": (
        program(*awaits(step("s"), tree("first", tree("first", shield(event("a")))))),
        [Entry("event", "a", "five"), ends("s")],
        False,
    ),
    "a map that fails with a wrong event gives back the event before": (
        program(problem(tree("map", event("a"), event("a"), label="1")), *awaits(step("s"))),
        [Entry("event", "a", 1), Entry("event", "a", "five")],
        False,
    ),
    "a map that fails with a time-out gives back the event before": (
        program(
            problem(tree("map", event("a"), tree("wait_for", event("b"), label="t"), label="1")), *awaits(step("s"))
        ),
        [Entry("event", "a", 1), ends("t", "sleep")],
        False,
    ),
    "a lock of a map that failed is released": (
        program(
            problem(tree("map", tree("lock", label="l"), step("s"), label="2")),
            *awaits(event("a")),
        ),
        [ends("l", "lock"), fails("s")],
        False,
    ),
    "an event of a map that failed is received by the next wait": (
        program(problem(tree("map", event("a"), step("s"), label="2")), *awaits(event("a"))),
        [Entry("event", "a", 1), fails("s")],
        False,
    ),
    "an event of a wait in a group that failed is received by the next wait": (
        program(
            problem(tree("all", tree("wait_for", event("a"), label="t"), step("s"))),
            *awaits(event("a")),
        ),
        [Entry("event", "a", 1), fails("s")],
        False,
    ),
    "a lock of a wait in a map in a group that failed is released": (
        program(
            problem(tree("all", tree("map", tree("lock", label="l"), label="1"), step("s"))),
            *awaits(event("a")),
        ),
        [ends("l", "lock"), fails("s")],
        False,
    ),
    "a handle of a kept event is done at once": (
        program(
            *awaits(step("s")),
            tree("begin", tree("all", event("a")), label="h"),
            tree("done", label="h"),
            tree("cancel", label="h"),
        ),
        [Entry("event", "a", 1), ends("s")],
        False,
    ),
    "a map that is cancelled waits for a shield and begins no further call": (
        program(*awaits(tree("map", shield(step("s")), shield(step("t")), label="1"))),
        [CANCEL, ends("s")],
        False,
    ),
    "a map whose call catches its cancel begins no further call": (
        program(
            *awaits(tree("map", tree("code", tree("block", swallowing(step("s"))), label="c"), step("t"), label="1"))
        ),
        [CANCEL],
        False,
    ),
    "a group in a map that failed gives back its event": (
        program(problem(tree("map", tree("all", event("a"), step("t")), step("s"), label="2")), *awaits(event("a"))),
        [Entry("event", "a", 1), fails("s")],
        False,
    ),
    "a lock that a failed group has renewed is still held": (
        program(
            tree(
                "locked",
                program(
                    problem(tree("all", tree("renew", step("x"), label="l"), step("s"))),
                    *awaits(event("a")),
                ),
                label="l",
            )
        ),
        [ends("l", "lock"), ends("l", "renew"), fails("s"), Entry("event", "a", 1)],
        False,
    ),
    "a run whose deadline is over cleans up": (
        program(tree("try", program(*awaits(step("s"))), program(*awaits(step("t"))), label="finally")),
        [Entry("deadline"), ends("t")],
        True,
    ),
    "a deadline has no effect on a run that has been cancelled": (
        program(tree("try", program(*awaits(step("s"))), program(*awaits(step("t"))), label="finally")),
        [CANCEL, Entry("deadline"), ends("t")],
        True,
    ),
    "a run that is terminated runs no clean-up": (
        program(
            tree(
                "locked",
                program(tree("try", program(*awaits(step("s"))), program(*awaits(step("t"))), label="finally")),
                label="l",
            )
        ),
        [ends("l", "lock"), Entry("terminate")],
        True,
    ),
    "inline steps of a group end one after another in their turn": (
        program(problem(tree("all", tree("run", label="r1"), tree("run", label="r3"))), *awaits(step("s"))),
        [ends("s")],
        True,
    ),
    "a shield that fails decides the group that a cancel waited for": (
        program(*awaits(tree("wait_for", tree("all", event("a"), shield(step("s"))), label="t"))),
        [CANCEL, fails("s")],
        False,
    ),
    "the error of a group counts in the order of the awaits of a handle": (
        program(
            tree("begin", step("s"), label="h"),
            *awaits(tree("all", tree("first_success", HANDLE), HANDLE)),
        ),
        [fails("s")],
        False,
    ),
    "a branch receives the outcome of a handle that makes its group fail": (
        program(
            tree("begin", step("s"), label="h"),
            *awaits(tree("all", tree("code", program(*awaits(HANDLE)), label="c"), HANDLE)),
        ),
        [fails("s")],
        False,
    ),
    "a handle decides a first success that a cancel has waited for": (
        program(tree("begin", step("s"), label="h"), *awaits(tree("first_success", shield(HANDLE), HANDLE))),
        [CANCEL, fails("s")],
        False,
    ),
    "wrong events that were kept count in the order of the items": (
        program(
            *awaits(step("s")),
            tree("begin", tree("all", tree("all", event("a")), event("a")), label="h"),
            *awaits(step("t")),
        ),
        [Entry("event", "a", "one"), Entry("event", "a", "two"), ends("s")],
        False,
    ),
    "a cancel that is due comes before the outcomes of a group that begins": (
        program(*awaits(shield(step("s")), tree("all", step("t"), shield(event("a"))))),
        [Entry("event", "a", "one"), CANCEL, ends("s")],
        False,
    ),
    "events that are kept again are passed on in the order of their arrival": (
        program(
            tree("begin", tree("all", event("b"), tree("all", step("s"), event("a"))), label="h"),
            *awaits(tree("first", event("b"), event("a"))),
        ),
        [Entry("event", "a", 1), Entry("event", "b", 2), fails("s")],
        False,
    ),
    "an event of a failed group goes to a wait that its error does not cancel": (
        program(*awaits(tree("all", tree("all", step("s"), event("a")), event("a"), shield(event("a"))))),
        [Entry("event", "a", 1), fails("s")],
        False,
    ),
    "a kept event lets another branch run first": (
        program(*awaits(step("s"), tree("all", branch("b", event("a"), event("b")), branch("c", event("b"))))),
        [Entry("event", "a", 1), ends("s"), Entry("event", "b", 2)],
        False,
    ),
    "a kept event of a group does not let more code run first": (
        program(
            *awaits(
                step("s"),
                tree("all", branch("b", tree("all", event("a")), event("b")), branch("c", event("a"), event("b"))),
            ),
        ),
        [Entry("event", "a", 1), Entry("event", "a", 2), ends("s"), Entry("event", "b", 3)],
        False,
    ),
    "branches are cancelled in their order, however deep their waits are": (
        program(*awaits(tree("all", step("s"), cleaning_up("b", tree("all", step("t"))), cleaning_up("c", step("u"))))),
        [fails("s"), Entry("event", "a", 1)],
        False,
    ),
    "an event of a time-out goes to a handle before the error of the time-out": (
        program(
            *awaits(
                tree(
                    "all",
                    tree("wait_for", tree("settled", step("s"), event("a")), label="t"),
                    tree("code", program(tree("as_completed", event("a"), label="1")), label="c"),
                )
            )
        ),
        [Entry("event", "a", 1), ends("t", "sleep")],
        False,
    ),
    "the next call of a map begins before an error of the same time": (
        program(
            *awaits(
                tree(
                    "all",
                    tree("map", branch("b"), shield(step("s")), label="1"),
                    tree("code", program(tree("raise", label="p")), label="c"),
                )
            )
        ),
        [],
        False,
    ),
    "the next call of a map begins as soon as one has ended": (
        program(*awaits(tree("map", branch("b"), tree("map", event("a"), label="2"), event("a"), label="2"))),
        [Entry("event", "a", 1), Entry("event", "a", 2)],
        False,
    ),
    "an event of a group that is decided as it begins goes to the next line": (
        program(*awaits(step("s")), tree("begin", DECIDED, label="h"), *awaits(event("a"))),
        [*THREE_EVENTS, ends("s")],
        False,
    ),
    "an event of a group that is decided as it begins goes to the next item": (
        program(*awaits(step("s"), tree("all", DECIDED, event("a")))),
        [*THREE_EVENTS, ends("s")],
        False,
    ),
    "an event of a group that fails as it begins goes to the next item": (
        program(*awaits(step("s"), tree("settled", tree("all", event("a"), event("b")), event("b")))),
        [Entry("event", "a", "five"), Entry("event", "b", 1), Entry("event", "b", 2), ends("s")],
        False,
    ),
    "a cancel that is due comes before the error of a kept event in an inner group": (
        program(*awaits(shield(step("s")), tree("settled", shield(step("t")), tree("all", step("u"), event("a"))))),
        [Entry("event", "a", "five"), CANCEL, ends("s")],
        False,
    ),
    "the error of a kept event counts in a group whose items have all ended as they began, while a cancel is due": (
        program(*awaits(shield(step("s")), tree("all", event("a"), tree("all", shield(event("a")))))),
        [Entry("event", "a", "five"), Entry("event", "a", 1), CANCEL, ends("s")],
        False,
    ),
    "a lock that a map has received before a call fails without a wait is released": (
        program(
            problem(
                tree(
                    "map",
                    tree("lock", label="l"),
                    tree("code", program(tree("raise", label="p")), label="b"),
                    label="1",
                )
            ),
            *awaits(event("a")),
        ),
        [ends("l", "lock")],
        False,
    ),
    "an event that a handle gives back as it begins goes to the handle's own shield": (
        program(*awaits(step("s")), tree("as_completed", GIVES_BACK, event("a"), label="2")),
        [Entry("event", "a", 1), Entry("event", "b", "wrong"), ends("s")],
        False,
    ),
    "a first that an event given back decides as it begins begins nothing more": (
        program(*awaits(step("s")), problem(tree("first", GIVES_BACK, step("t"), event("a"))), *awaits(event("a"))),
        [Entry("event", "a", 1), Entry("event", "b", "wrong"), ends("s")],
        False,
    ),
    "a first success abandons the rest after an event given back has ended an item as it began": (
        program(
            *awaits(step("s")),
            *awaits(tree("first_success", tree("all", GIVES_BACK, step("u")), step("t"), step("v"))),
            *awaits(event("c")),
        ),
        [Entry("event", "a", 1), Entry("event", "b", "wrong"), ends("s"), ends("t")],
        False,
    ),
}


HOLDERS = {
    "settled": tree("settled", event("a"), tree("lock", label="l")),
    "all": tree("all", tree("lock", label="l"), event("a")),
    "first": tree("first", tree("all", event("a"), step("u")), event("c")),
}
"""Items that have received a kept event, and have not ended."""

WAITS = {
    "event": shield(event("a")),
    "step": shield(step("s")),
    "sleep": shield(tree("sleep", label="s")),
    "two events": tree("settled", shield(event("a")), shield(event("a"))),
}
AROUND: dict[str, Callable[[Tree], Tree]] = {
    "all": lambda group: problem(tree("all", group, event("a"))),
    "all with another error": lambda group: problem(tree("all", group, event("b"), event("a"))),
    "settled": lambda group: problem(tree("settled", group, event("a"))),
    "first": lambda group: problem(tree("first", group, step("t"))),
    "first with an event": lambda group: problem(tree("first", group, step("t"), event("a"))),
    "first_success": lambda group: problem(tree("first_success", group, step("t"), step("v"))),
    "first_success of an all": lambda group: problem(
        tree("first_success", tree("all", group, step("u2")), step("t"), step("v"))
    ),
    "settled of a first": lambda group: problem(tree("settled", tree("first", group, step("t")))),
    "wait_for": lambda group: problem(tree("wait_for", group, label="t")),
    "begin": lambda group: tree(
        "try",
        program(tree("begin", tree("all", group, step("t")), label="h"), tree("done", label="h"), *awaits(event("a"))),
        program(),
        label="problem",
    ),
    "as_completed": lambda group: tree(
        "try", program(tree("as_completed", group, event("a"), label="2")), program(), label="problem"
    ),
}
BEFORE: dict[str, tuple[Tree, list[Entry]]] = {
    "no cancel": (problem(step("x")), [ends("x")]),
    "a caught cancel": (swallowing(step("x")), [CANCEL]),
    "a cancel that is due": (problem(shield(step("x"))), [CANCEL, ends("x")]),
}


@pytest.mark.parametrize("around", AROUND)
def test_an_event_that_a_group_gives_back_as_it_begins_goes_to_a_shield_in_it_first(around: str) -> None:
    kept = [Entry("event", "a", 1), Entry("event", "b", "wrong"), Entry("event", "b", "wrong too")]
    for (before, entries), holder, wait, failing in product(
        BEFORE.values(), HOLDERS.values(), WAITS.values(), (event("b"), tree("all", event("b")))
    ):
        for items in ((holder, wait, failing), (failing, holder, wait)):
            code = program(before, AROUND[around](tree("all", *items)), *awaits(event("a")))
            assert Case(code, [*kept, *entries, ends("t"), ends("s")]).difference() is None


@pytest.mark.parametrize("what", HELD)
def test_the_library_agrees_with_the_model(what: str) -> None:
    tree, entries, in_turns = HELD[what]
    assert Case(tree, entries, in_turns=in_turns).difference() is None


def test_a_difference_is_shrunk_to_a_small_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has parts that do not matter: a statement before, one after, and an entry."""
    monkeypatch.setattr(flow.Handle, "done", False)
    begun = (*awaits(step("s")), tree("begin", event("a"), label="h"), tree("done", label="h"))
    large = program(*awaits(step("z")), *begun, *awaits(step("y")))
    found = Case(large, [ends("z"), Entry("event", "a", 1), ends("s"), ends("y")]).difference()
    assert found is not None
    small = shrunk(found)
    assert in_python(small.case.program).splitlines() == [
        "async def program():",
        "    await s.call()",
        '    h = flow.begin(flow.event("a"))',
        "    h.done",
    ]
    assert [str(entry) for entry in small.entries] == ["the event a arrives with 1", "s ends with 1"]
