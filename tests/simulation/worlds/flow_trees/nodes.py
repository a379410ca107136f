"""What a model of a flow waits for: nodes, each with one outcome, and commands, which entries end.

A *node* is something that the code waits for: a command, a group, a shield, the wait for a handle, or a branch (a
coroutine). Two requests end a node early:

- `cancel`, after a cancel of the run or the error of a sibling: the node ends by itself, with `Cancelled`, once the
  shields in it have ended.
- `drop`: its outcome reaches no code. It ends at once and silently. Locks that it has received are released, and
  events are kept.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from signalbox import flow
from signalbox.core.problems import BadArgument

if TYPE_CHECKING:
    from tests.simulation.worlds.flow_trees.model import Model


class Open(BaseException):
    """The pages leave open what the code observes next, so the comparison ends."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a node, or its error."""

    value: Any = None
    error: BaseException | None = None

    @property
    def is_cancelled(self) -> bool:
        return isinstance(self.error, flow.Cancelled)


@dataclass(frozen=True, slots=True)
class Settled:
    """An item of the result of `settled`."""

    result: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """The value that the code returns to continue as new."""


class Item:
    """What the code may await, before it is begun."""

    def node(self, model: Model) -> Node:
        raise NotImplementedError

    def __await__(self) -> Generator[Item, Any, Any]:
        return (yield self)


class Node:
    """Something that the code waits for. `around` is the node that receives the outcome."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.around: Node | None = None
        self.outcome: Outcome | None = None
        self.dropped = False

    def begin(self, around: Node | None) -> Self:
        """Begin, and return this node. If it ends at once, it has an outcome, and `around` does not receive it."""
        self.start()
        self.around = around
        return self

    def start(self) -> None: ...

    def end(self, outcome: Outcome) -> None:
        if self.outcome is None and not self.dropped:
            self.outcome = outcome
            if self.around is not None:
                self.around.got(self)

    def got(self, child: Node) -> None:
        """Receive the outcome of a child."""

    def cancel(self) -> None:
        """End as soon as no shield in this node is open."""

    def drop(self) -> None:
        """End at once, since no code receives the outcome; or undo what the outcome would have given to the code."""
        if not self.dropped:
            self.dropped = True
            self.undo()

    def undo(self) -> None: ...

    @property
    def is_open(self) -> bool:
        return self.outcome is None and not self.dropped

    @property
    def fate(self) -> bool | None:
        """Whether the node succeeds, once no cancel can change that any more: its outcome may be on its way."""
        return None if self.outcome is None else self.outcome.error is None

    @property
    def has_open_shield(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Command(Item):
    """A command that an entry ends. `label` distinguishes it from all others of the program, except for events."""

    kind: str
    label: str
    model: Model

    def node(self, model: Model) -> Node:
        return Leaf(model, self)

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.label

    async def __aenter__(self) -> Any:
        return await self

    async def __aexit__(self, *_: object) -> None:
        self.model.locks.discard(self.label)


def number_received(value: Any) -> Outcome:
    """Return the outcome of an event's value, which is a number unless its sender has sent a wrong one."""
    return Outcome(value) if isinstance(value, int) else Outcome(error=BadArgument("wrong"))


class Leaf(Node):
    """A command that is pending, or has ended."""

    def __init__(self, model: Model, command: Command) -> None:
        super().__init__(model)
        self.command = command
        self.received: Any = None

    def start(self) -> None:
        if self.command.kind == "event":
            self.model.pass_on()  # an event that was given back goes to the commands that wait already
        if self.command.kind == "event" and (kept := self.model.taken(self.command.label)):
            self.received, self.outcome = kept[0], self.model.received(kept[0])
        else:
            self.model.pending.append(self)

    def receive(self, value: Any) -> None:
        """End with the value of an event."""
        self.received = value
        self.end(self.model.received(value))

    def cancel(self) -> None:
        if self.is_open:
            self.model.pending.remove(self)
            self.end(Outcome(error=flow.Cancelled()))

    def undo(self) -> None:
        if self.outcome is None:
            self.model.pending.remove(self)
        elif self.outcome.error is None and self.command.kind == "lock":
            self.model.locks.discard(self.command.label)
        elif self.received is not None:
            self.model.keep(self.command.label, self.received)
