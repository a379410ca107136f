"""Handles of a model of a flow: commands that the code has begun, and the waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from signalbox import flow
from tests.simulation.worlds.flow_trees.groups import FirstOf
from tests.simulation.worlds.flow_trees.nodes import Item, Node, Open, Outcome

if TYPE_CHECKING:
    from tests.simulation.worlds.flow_trees.model import Model


class Handle(Node, Item):
    """A command that the code has begun. Its command ends by itself, by `cancel_command`, or with the code."""

    def __init__(self, model: Model, item: Any) -> None:
        super().__init__(model)
        self.child = model.node_of(item)
        self.waits: list[HandleWait] = []
        self.received = 0
        self.ended_in = 0

    def node(self, model: Model) -> Node:
        return HandleWait(model, self)

    def start(self) -> None:
        if self.child.begin(self).outcome:
            self.got(self.child)

    def got(self, child: Node) -> None:
        assert child.outcome is not None
        self.decide(child.outcome)

    def decide(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.ended_in = self.model.entries
        self.model.ended_handles.append(self)
        waits, self.waits = self.waits, []
        races = [node for wait in waits for node in wait.races()]
        if len({*races}) < len(races):
            raise Open
        for wait in waits:
            wait.decide(outcome)

    def cancel_command(self) -> bool:
        """Abandon the command, and return whether it was open."""
        if self.outcome is not None:
            return False
        self.child.drop()
        self.model.pass_on()
        self.decide(Outcome(error=flow.CommandCancelled("cancelled")))
        return True


class HandleWait(Node):
    """The wait of a branch or a group for a handle. The code may receive the outcome of a wait that is not dropped."""

    def __init__(self, model: Model, handle: Handle) -> None:
        super().__init__(model)
        self.handle = handle

    def start(self) -> None:
        if self.handle.outcome is None:
            self.handle.waits.append(self)
        else:
            self.decide(self.handle.outcome)

    def races(self) -> Iterator[Node]:
        """Yield the groups around that end with the first of their items."""
        around = self.around
        while around is not None:
            if isinstance(around, FirstOf):
                yield around
            around = around.around

    def decide(self, outcome: Outcome) -> None:
        self.handle.received += 1
        self.end(outcome)

    def cancel(self) -> None:
        if self.is_open:
            self.leave()
            self.end(Outcome(error=flow.Cancelled()))

    def leave(self) -> None:
        if self in self.handle.waits:
            self.handle.waits.remove(self)

    def undo(self) -> None:
        if self.outcome is None:
            self.leave()
        elif not self.outcome.is_cancelled:
            self.handle.received -= 1
