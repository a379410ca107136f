"""Differences between the library and the model that are known, each with the programs that may show it.

Such programs are not compared. When the library is mended, its entry goes: a test holds that each still differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.simulation.worlds.flow_trees.programs import Tree

RECEIVING = ("event", "lock", "locked", "code", "handle")


def trees_in(tree: Tree) -> Iterator[Tree]:
    """Yield a tree and all trees in it."""
    yield tree
    for part in tree.parts:
        yield from trees_in(part)


def has(tree: Tree, *kinds: str) -> bool:
    return any(each.kind in kinds for each in trees_in(tree))


def loses_results_of_a_map(program: Tree) -> bool:
    """`flow.map` that fails keeps the locks, and loses the events, that its other calls have received."""
    return any(has(each, *RECEIVING) for each in trees_in(program) if each.kind == "map")


def is_not_done_at_once(program: Tree) -> bool:
    """`done` of a handle that a kept event has ended is false, although its `cancel()` returns False."""
    begun = {each.label: each for each in trees_in(program) if each.kind == "begin"}
    asked = [begun[each.label] for each in trees_in(program) if each.kind == "done" and each.label in begun]
    return any(has(each, "event", "handle") for each in asked)


KNOWN: tuple[Callable[[Tree], bool], ...] = (
    loses_results_of_a_map,
    is_not_done_at_once,
)
