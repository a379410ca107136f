"""Handles of a model of a flow: commands that the code has begun, and the waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from signalbox import flow
from tests.simulation.worlds.flow_trees.nodes import Item, Node, Outcome

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
        self.model.pass_on()

    def got(self, child: Node) -> None:
        assert child.outcome is not None
        self.decide(child.outcome)

    def decide(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.ended_in = self.model.entries
        self.model.ended_handles.append(self)
        waits, self.waits = self.waits, []
        self.received += len(waits)
        for wait in waits:  # each has the outcome already, and passes it on unless it was dropped
            wait.end(outcome)

    def cancel_command(self) -> bool:
        """Abandon the command, and return whether it was open."""
        if self.outcome is not None:
            return False
        self.child.drop()
        self.model.pass_on()
        self.decide(Outcome(error=flow.CommandCancelled("The command was cancelled by its handle.")))
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
            self.handle.received += 1
            self.end(self.handle.outcome)

    @property
    def fate(self) -> bool | None:
        return super().fate if self.outcome is not None or self.dropped else self.handle.fate

    def cancel(self) -> None:
        if self in self.handle.waits:
            self.handle.waits.remove(self)
            self.end(Outcome(error=flow.Cancelled()))

    def undo(self) -> None:
        if self in self.handle.waits:
            self.handle.waits.remove(self)
        elif self.outcome is None or not self.outcome.is_cancelled:
            self.handle.received -= 1
