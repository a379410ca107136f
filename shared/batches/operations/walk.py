"""Walk up a batch's tree: pass on what is full, and end the batch when its root is.

Passing writes the child's place in the node above, blind and always the same, so whoever comes again passes again and
nothing is counted twice. The header is read only *after* that write: whoever finds no seal there leaves the right edge
to the seal's check, which reads the edge after the seal. One of the two sees what the other wrote.

Every write needs its record to be there: `NotFound` from here means the batch is gone.
"""

from collections.abc import Callable, Mapping
from typing import Any

from shared.batches.rules import batches as rules
from shared.batches.rules import tree
from shared.batches.rules.batches import Ending, Header, Life
from shared.batches.rules.tree import Node
from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Change, Condition, Order, Ports, Put, Query, Snapshot
from shared.core.rules.effects import Decision

PASSED = "passed"
LAST_FIRST = Order(("first",), descending=True)
"""Of a collection of counters: only pages' nodes say which unit is their first."""


def pass_counter(ports: Ports, life: Life, page: int, counter: int, failures: int) -> None:
    """Pass a full counter to its page's node, and on up while nodes are full too."""
    node = Node(1, page)
    ports.store.commit([_passing(life, node, counter, failures)])
    [read] = ports.store.read(life.node(node))
    if read.data is None:
        return
    if failures and over(read.data["failures_max"], failures_in(read.data)):
        give_up_on(ports, life)
    if len(read.data[PASSED]) == tree.counters(read.data["units"]):
        climb(ports, life, node, failures_in(read.data))


def climb(ports: Ports, life: Life, node: Node, failures: int) -> None:
    """Pass a full node up, and those above it as long as they are full."""
    above = tree.parent(node)
    ports.store.commit([_passing(life, above, node.index, failures)])
    read, header = ports.store.read(life.node(above), life.header)
    settle(ports, life, above, read, rules.alive(header.data, life))


def settle(ports: Ports, life: Life, node: Node, read: Snapshot, header: Header | None) -> None:
    """Go on from a node above the pages' level, as read together with the header: up, or to the end of the batch."""
    if read.data is None or header is None or header.ended:
        return
    failures = failures_in(read.data)
    if over(header.failures_max, failures):
        give_up_on(ports, life)
    if missing(read.data, node, header.pages):
        return
    if header.pages is not None and node == tree.root(header.pages):
        complete(ports, life, header.size or 0)
    elif not tree.is_top(node):
        climb(ports, life, node, failures)


def check(ports: Ports, life: Life) -> None:
    """Walk the right edge bottom up: what was full only with the seal, nobody has passed on yet."""
    [read] = ports.store.read(life.header)
    header = rules.alive(read.data, life)
    if header is None or not header.pages:
        return
    node = tree.last_of_level_2(header.pages)
    [lowest] = ports.store.read(life.node(node))
    settle(ports, life, node, lowest, header)


def missing(data: Mapping[str, Any], node: Node, pages: int | None) -> list[int]:
    """List the children that a node above the pages' level still waits for."""
    return [child for child in tree.children(node, pages) if str(child) not in data[PASSED]]


def failures_in(data: Mapping[str, Any]) -> int:
    """Add up the failures that have come to a node."""
    return sum(data[PASSED].values())


def over(failures_max: int | None, failures: int) -> bool:
    """Tell whether so many failures are more than a batch tolerates."""
    return failures_max is not None and failures > failures_max


def _passing(life: Life, node: Node, child: int, failures: int) -> Change:
    return Change(life.node(node), {(PASSED, str(child)): failures})


# --- ends ---


def complete(ports: Ports, life: Life, size: int) -> None:
    """Announce that all units are done; too many failures make it a cancelled batch, however they were spread."""
    failures = count(ports, life, "failed")

    def ending(header: Header) -> Ending | None:
        if header.state != "sealed":
            return None
        if over(header.failures_max, failures):
            return Ending("cancelled", size, size, failures, "failures")
        return Ending("completed", size, size, failures)

    end(ports, life, ending)


def give_up_on(ports: Ports, life: Life) -> None:
    """End a batch of which more units have failed than it tolerates; retries that helped count."""
    done, failures, size = count(ports, life), count(ports, life, "failed"), loaded(ports, life)[1]

    def ending(header: Header) -> Ending | None:
        return Ending("cancelled", size, done, failures, "failures") if over(header.failures_max, failures) else None

    end(ports, life, ending)


def end(ports: Ports, life: Life, ending: Callable[[Header], Ending | None]) -> Header | None:
    """End a batch that goes on, if `ending` (of its header) says how, and ask for what its end calls for.

    Gives the header as it is then; None: this life is over. One commit under the header's guard, so there is one end.
    """

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Header | None]:
        header = rules.alive(read[0].data, life)
        how = None if header is None or header.ended else ending(header)
        if header is None or how is None:
            return Decision((), header)
        over_now = rules.ended(header, how, read[0].read_time)
        write = Put(life.header, over_now.record(), read[0].guard)
        return Decision((write,), over_now, rules.announcements(life, over_now, read[0].read_time))

    header, _ = perform(ports, [life.header], decide)
    return header


def count(ports: Ports, life: Life, state: str = "") -> int:
    """Count the units with an outcome, or with one of a kind."""
    where = (Condition(("state",), "==", state),) if state else ()
    return ports.store.count(Query(life.units, where))


def loaded(ports: Ports, life: Life) -> tuple[int, int]:
    """Count the pages and the units that are loaded."""
    for last in ports.store.query(Query(life.counters, order_by=(LAST_FIRST,), limit=1)):
        assert last.data is not None, "a query finds only records that exist"
        return last.data["page"] + 1, last.data["first"] + last.data["units"]
    return 0, 0
