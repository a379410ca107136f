"""Once a minute: walk batches that stand still, end those whose deadline has come, remove those that are long over.

A header says when it should be looked at next (`due_at`); when nothing is due, that costs one query. A walk goes down
from the root through what is missing only, and passes on whatever is full: a counter whose last unit's process died, a
node likewise.

Removing takes the counters first. A unit that comes late then finds none and is over; were its result gone first, it
would be created again. The header goes last, so the id is free only when nothing of the old life is left.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.batches.operations import walk
from shared.batches.rules import batches as rules
from shared.batches.rules import tree
from shared.batches.rules.batches import Ending, Header, Life, Unit
from shared.batches.rules.tree import Node
from shared.core.operations.ports import Conflict, Delete, Order, Ports, Put, Query, Snapshot
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable

DUE_FIRST = (Order(("due_at",)),)


def sweep(ports: Ports) -> int:
    """Look at the batches that are due; give their number. One that cannot be helped now is left to the next sweep."""
    found = ports.store.query(Query(rules.COLLECTION, order_by=DUE_FIRST, limit=LIMITS.batches_swept_max))
    due = [one for one in found if one.data is not None and one.data["due_at"] <= one.read_time]
    for snapshot in due:
        try:
            look(ports, snapshot)
        except (Conflict, Problem, Unavailable) as error:
            ports.log.info("a batch is left to the next sweep", batch=snapshot.id, reason=str(error))
    return len(due)


def look(ports: Ports, snapshot: Snapshot) -> None:
    """Do what a due batch calls for."""
    header = rules.decode(snapshot.data)
    assert header is not None, "a query finds only records that exist"
    life, now = Life(snapshot.id, header.incarnation), snapshot.read_time
    if header.ended and header.parent and _is_there(ports, header.parent):
        ports.store.commit([Put(life.header, rules.kept(header, now).record(), snapshot.guard)])
    elif header.ended:
        remove(ports, life, header, snapshot)
    elif header.deadline_at <= now:
        time_out(ports, life, header)
    else:
        ports.store.commit([Put(life.header, rules.looked_at(header, now).record(), snapshot.guard)])
        walk_down(ports, life, header)


def _is_there(ports: Ports, parent: Mapping[str, Any]) -> bool:
    """Tell whether a sub-batch's parent is there: its unit, delivered once more, would begin a removed one anew."""
    life = Unit.of(parent).life
    return rules.alive(ports.store.read(life.header)[0].data, life) is not None


# --- walking down ---


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter that has not been passed on, with its place."""

    page: Node
    number: int
    first: int
    page_units: int
    counted: int
    failures: int

    @property
    def full(self) -> bool:
        return self.counted == tree.counter_units(self.number, self.page_units)


def walk_down(ports: Ports, life: Life, header: Header) -> None:
    """Pass on whatever is full and was not passed on."""
    for counter in unpassed(ports, life, header, header.pages or 0):
        if counter.full:
            walk.pass_counter(ports, life, counter.page.index, counter.number, counter.failures)


def unpassed(ports: Ports, life: Life, header: Header, pages: int) -> list[Counter]:
    """Find counters that were not passed on, from the root down; on the way, pass on the nodes that are full."""
    nodes = [tree.root(pages)] if pages else []
    while nodes and nodes[0].level > 1:
        read = ports.store.read(*map(life.node, nodes))
        below = [
            Node(node.level - 1, child) for node, one in _there(nodes, read) for child in _missing(one, node, pages)
        ]
        for node, one in _there(nodes, read):
            if not _missing(one, node, pages):
                walk.settle(ports, life, node, one, header)
        nodes = below[: LIMITS.walk_nodes_max]
    return _counters(ports, life, nodes)


def _there(nodes: Sequence[Node], read: Sequence[Snapshot]) -> list[tuple[Node, Snapshot]]:
    return [(node, one) for node, one in zip(nodes, read, strict=True) if one.data is not None]


def _missing(read: Snapshot, node: Node, pages: int) -> list[int]:
    return [] if read.data is None else walk.missing(read.data, node, pages)


def _counters(ports: Ports, life: Life, nodes: Sequence[Node]) -> list[Counter]:
    """Give the counters that these pages' nodes wait for; a node that waits for none is passed on."""
    places: list[tuple[Node, int, Snapshot]] = []
    for node, read in _there(nodes, ports.store.read(*map(life.node, nodes)) if nodes else ()):
        assert read.data is not None, "only those that are there"
        waiting = [n for n in range(tree.counters(read.data["units"])) if str(n) not in read.data[walk.PASSED]]
        places += [(node, number, read) for number in waiting]
        if not waiting:
            walk.climb(ports, life, node, walk.failures_in(read.data))
    found = ports.store.read(*(life.counter(node.index, number) for node, number, _ in places)) if places else ()
    return [
        Counter(node, number, page.data["first"], page.data["units"], one.data["units"], one.data["failures"])
        for (node, number, page), one in zip(places, found, strict=True)
        if page.data is not None and one.data is not None
    ]


# --- the deadline ---


def time_out(ports: Ports, life: Life, header: Header) -> None:
    """End a batch at its deadline, naming units that are missing; unless a walk finds that none is."""
    pages, size = walk.loaded(ports, life)
    if header.state == "sealed":
        walk_down(ports, life, header)
    missing = tuple(_undone(ports, life, unpassed(ports, life, header, pages)))
    done, failures = walk.count(ports, life), walk.count(ports, life, "failed")
    walk.end(ports, life, lambda _: Ending("cancelled", size, done, failures, "deadline", missing))


def _undone(ports: Ports, life: Life, counters: Iterable[Counter]) -> list[int]:
    indexes = [one.first + at for one in counters for at in tree.offsets(one.number, one.page_units) if not one.full]
    indexes = sorted(indexes)[: LIMITS.missing_named_max]
    read = ports.store.read(*map(life.unit, indexes)) if indexes else ()
    return [index for index, one in zip(indexes, read, strict=True) if one.data is None]


# --- removing ---


def remove(ports: Ports, life: Life, header: Header, snapshot: Snapshot) -> None:
    """Remove an ended batch, as far as one sweep goes: counters, units, pages, header, in this order.

    Only what bears this life's incarnation, and the header only as it was left here: a sweep that stood still for long
    may find the id in use again.
    """
    write = Put(life.header, rules.removing(header, snapshot.read_time).record(), snapshot.guard)
    [written] = ports.store.commit([write]).results
    for collection in (life.counters, life.units, life.pages):
        if not _emptied(ports, life, collection):
            return
    ports.store.commit([Delete(life.header, written.update_time)])


def _emptied(ports: Ports, life: Life, collection: str) -> bool:
    for _ in range(LIMITS.clean_commits_max):
        found = ports.store.query(Query(collection, limit=LIMITS.clean_records_max))
        ours = [Delete(one.path) for one in found if one.id.startswith(life.incarnation)]
        if not ours:
            return True
        ports.store.commit(ours)
    return False
