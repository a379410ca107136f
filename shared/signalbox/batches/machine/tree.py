"""What follows from a node of the counter tree, after a child was propagated to it or when a walk reaches it.

A node is full when all of its children were propagated to it: before the seal all that a node of its level can have,
from the seal on all that exist.

    node         children  header        then
    -----------  --------  ------------  ---------
    page         missing   open, sealed  wait
    page         full      open, sealed  propagate
    below root   missing   open, sealed  wait
    below root   full      open, sealed  propagate
    root         missing   sealed        wait
    root         full      sealed        complete
    highest      missing   open          wait
    highest      full      open          wait

A full node of the highest level waits for the seal, because the root is known from the seal on. Before this step, the
failures below the node are compared with `failures_max`: too many end the batch, however many children are missing.
"""

from enum import Enum

from signalbox.batches.model import tree
from signalbox.batches.model.batches import Header
from signalbox.batches.model.tree import Node, NodeRecord, PageNode


class NextStep(Enum):
    """The step that follows from a node."""

    WAIT = "children are missing, or the root is not known before the seal"
    PROPAGATE = "the node is full: propagate it to its parent"
    COMPLETE = "the root is full: all units have an outcome"


def step_of_page(node: PageNode) -> NextStep:
    """Return what follows from a page's node. No header is needed, since a page never grows."""
    return NextStep.WAIT if node.missing_counters() else NextStep.PROPAGATE


def step_of_node(node: Node, record: NodeRecord, header: Header) -> NextStep:
    """Return what follows from a node above the pages' level."""
    if record.missing(node, header.pages):
        return NextStep.WAIT
    if header.pages is not None and node == tree.root(header.pages):
        return NextStep.COMPLETE
    return NextStep.WAIT if tree.is_top(node) else NextStep.PROPAGATE
