"""A model of what the code of a flow may observe, written from the pages about flows, not from the driver.

`Model` runs a coroutine that awaits the commands of this module in place of those of `signalbox.flow`. Entries arrive
one at a time: `end` ends a command, `event` delivers an event, `cancel` cancels the run. The model favours plain rules
over speed and knows nothing of logs, paths, replays or turns.

A *node* is something that the code waits for: a command, a group, a shield, the wait for a handle, or a branch (a
coroutine). A node has one outcome. Two requests end a node early:

- `cancel`, after a cancel of the run or the error of a sibling: the node ends by itself, with `Cancelled`, once the
  shields in it have ended.
- `drop`: its outcome reaches no code. It ends at once and silently. Locks and events that it has received are
  released and kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from signalbox import Problem, flow
from tests.simulation.reached_counts import BEGUN_AGAIN, CANCELS_WAITED, REACHED


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
    def has_open_shield(self) -> bool:
        return False


# --- commands ---


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


class Leaf(Node):
    """A command that is pending, or has ended."""

    def __init__(self, model: Model, command: Command) -> None:
        super().__init__(model)
        self.command = command

    def start(self) -> None:
        if self.command.kind == "event" and (kept := self.model.taken(self.command.label)):
            self.outcome = Outcome(kept[0])
        else:
            self.model.pending.append(self)

    def cancel(self) -> None:
        if self.is_open:
            self.model.pending.remove(self)
            self.end(Outcome(error=flow.Cancelled()))

    def undo(self) -> None:
        if self.outcome is None:
            self.model.pending.remove(self)
        elif self.outcome.error is None and self.command.kind == "lock":
            self.model.locks.discard(self.command.label)
        elif self.outcome.error is None and self.command.kind == "event":
            self.model.keep(self.command.label, self.outcome.value)
            self.model.has_kept_again = True
            self.model.check_open(self.command.label)


# --- groups ---


@dataclass(frozen=True, slots=True)
class Group(Item):
    """Several items: `kind` is all, settled, first, first_success, or map with `at_once` items at a time."""

    kind: str
    items: Sequence[Any]
    at_once: int = 1_000

    def node(self, model: Model) -> Node:
        return FirstOf(model, self) if self.kind in ("first", "first_success") else AllOf(model, self)


class GroupNode(Node):
    """The begun items of a group."""

    def __init__(self, model: Model, group: Group) -> None:
        super().__init__(model)
        self.group = group
        self.children: list[Node] = []
        self.is_cancelled = False

    def start(self) -> None:
        """Begin the items in their order, all of them before the outcome of any counts, except in `first`."""
        begun = len(self.children)
        while len(self.children) < len(self.group.items) and self.may_begin():
            item = self.group.items[len(self.children)]
            if self.group.kind == "map":
                item = Function(called(item))
            self.children.append(self.model.node_of(item).begin(self))
        for child in self.children[begun:]:
            if child.outcome:
                self.took(child)
        self.check()

    def may_begin(self) -> bool:
        return True

    def got(self, child: Node) -> None:
        self.took(child)
        self.check()

    def took(self, child: Node) -> None:
        """Note the outcome of a child."""

    def check(self) -> None:
        """End the group if it is decided."""

    def end_without(self, children: Sequence[Node], outcome: Outcome) -> None:
        """End, and drop children whose outcomes are no part of the outcome."""
        self.end(outcome)
        for child in children:
            child.drop()

    def undo(self) -> None:
        for child in self.children:
            child.drop()

    @property
    def has_open_shield(self) -> bool:
        return any(child.has_open_shield for child in self.children if child.is_open)


async def called(function: Callable[[], Awaitable[Any]]) -> Any:
    """Await what a call of a map returns."""
    return await function()


class AllOf(GroupNode):
    """All of the items. The first error cancels the others, except in `settled`."""

    error: BaseException | None = None

    def may_begin(self) -> bool:
        open_now = sum(child.is_open for child in self.children)
        return not (self.error or self.is_cancelled) and open_now < self.group.at_once

    def took(self, child: Node) -> None:
        assert child.outcome is not None
        if child.outcome.error is None or self.group.kind == "settled" or self.error or self.is_cancelled:
            return
        self.error = child.outcome.error
        self.cancel_children()

    def cancel_children(self) -> None:
        for child in list(self.children):
            if child.is_open:
                child.cancel()

    def cancel(self) -> None:
        if self.is_open:
            self.is_cancelled = True
            if self.error is None:  # otherwise the children are cancelled already, and once is enough
                self.cancel_children()
            self.check()

    def check(self) -> None:
        if not self.is_open:
            return None
        if len(self.children) < len(self.group.items) and self.may_begin():
            return self.start()
        if any(child.is_open for child in self.children):
            return None
        if self.error is not None or self.is_cancelled:
            return self.end_without(self.children, Outcome(error=flow.Cancelled() if self.is_cancelled else self.error))
        return self.end(Outcome([self.result(child) for child in self.children]))

    def result(self, child: Node) -> Any:
        assert child.outcome is not None
        if self.group.kind != "settled":
            return child.outcome.value
        return Settled(child.outcome.value, child.outcome.error)


class FirstOf(GroupNode):
    """The first of the items to end, or to succeed. The others are dropped."""

    winner: Node | None = None

    def may_begin(self) -> bool:
        return not any(map(self.wins, self.children))

    def wins(self, child: Node) -> bool:
        return child.outcome is not None and (self.group.kind == "first" or child.outcome.error is None)

    def took(self, child: Node) -> None:
        if self.winner is None and self.wins(child):
            self.winner = child

    def cancel(self) -> None:
        if self.is_open:
            self.is_cancelled = True
            self.check()

    def check(self) -> None:
        if not self.is_open:
            return
        if self.winner is not None:
            at, won = self.children.index(self.winner), self.winner.outcome
            assert won is not None
            losers = [child for child in self.children if child is not self.winner]
            self.end_without(losers, won if won.error else Outcome((at, won.value)))
        elif all(child.outcome for child in self.children):
            errors = {at: child.outcome.error for at, child in enumerate(self.children) if child.outcome}
            self.end(Outcome(error=flow.AllFailed("all", errors)))  # type: ignore[arg-type]
        elif self.is_cancelled and not self.has_open_shield:
            self.end_without(self.children, Outcome(error=flow.Cancelled()))


@dataclass(frozen=True, slots=True)
class Shield(Item):
    """An item that a cancel does not interrupt."""

    item: Any

    def node(self, model: Model) -> Node:
        return ShieldNode(model, self.item)


class ShieldNode(Node):
    """A shield that has been begun."""

    def __init__(self, model: Model, item: Any) -> None:
        super().__init__(model)
        self.child = model.node_of(item)

    def start(self) -> None:
        self.outcome = self.child.begin(self).outcome

    def got(self, child: Node) -> None:
        assert child.outcome is not None
        self.end(child.outcome)
        around = self.around
        while around is not None:  # a cancel may have waited for this shield
            if isinstance(around, FirstOf):
                around.check()
            around = around.around

    def undo(self) -> None:
        self.child.drop()

    @property
    def has_open_shield(self) -> bool:
        return self.is_open


# --- code ---


class Branch(Node):
    """A coroutine. `is_due`: a cancel is raised at the next `await` that is not a shield, or `at_once` at any `await`.

    `is_users`: code of the user, which keeps the locks that it has received; functions of the kit release them.
    """

    def __init__(self, model: Model, code: Coroutine[Item, Any, Any], *, is_users: bool = True) -> None:
        super().__init__(model)
        self.code = code
        self.is_users = is_users
        self.is_due = self.is_due_at_once = self.has_begun = False
        self.waiting: Node | None = None

    def start(self) -> None:
        self.model.ready.append(partial(self.resume, Outcome()))

    def got(self, child: Node) -> None:
        assert child.outcome is not None
        self.model.ready.append(partial(self.resume, child.outcome))

    def cancel(self) -> None:
        if not self.is_open:
            return
        if not self.has_begun:
            self.code.close()
            self.end(Outcome(error=flow.Cancelled()))
            return
        self.is_due = True
        if self.waiting is not None:
            self.waiting.cancel()

    def resume(self, outcome: Outcome) -> None:
        """Run the code until it waits or ends."""
        if not self.is_open:
            return None
        self.has_begun = True
        result: Outcome | None = outcome
        while result is not None:
            if result.is_cancelled:
                self.is_due = False
            try:
                item = self.code.throw(result.error) if result.error else self.code.send(result.value)
            except StopIteration as stop:
                return self.model.ready.append(partial(self.end, Outcome(stop.value)))
            except (Problem, flow.Cancelled) as error:
                return self.model.ready.append(partial(self.end, Outcome(error=error)))
            result = self.await_(item)
        return None

    def await_(self, item: Item) -> Outcome | None:
        """Begin what the code awaits. Return its outcome if it has one at once."""
        is_due = self.is_due and (self.is_due_at_once or not isinstance(item, Shield))
        if is_due and (self.is_due_at_once or not has_shield(item)):
            self.is_due_at_once = False
            close(item)
            return Outcome(error=flow.Cancelled())
        self.waiting = self.model.node_of(item).begin(self)
        if self.waiting.outcome:
            return self.waiting.outcome
        if is_due:
            self.waiting.cancel()
        return None

    def undo(self) -> None:
        if self.waiting is not None and not self.is_users:
            self.waiting.drop()


@dataclass(frozen=True, slots=True)
class Function(Item):
    """A call of a function of the kit that is itself a coroutine. An `await` runs it as a part of the code."""

    code: Coroutine[Any, Any, Any]

    def node(self, model: Model) -> Node:
        return Branch(model, self.code, is_users=False)

    def __await__(self) -> Generator[Item, Any, Any]:
        return self.code.__await__()


def has_shield(item: Any) -> bool:
    """Return whether a group contains a shield."""
    return isinstance(item, Shield) or (isinstance(item, Group) and any(map(has_shield, item.items)))


def close(item: Any) -> None:
    """Close the coroutines of an item that is not begun."""
    match item:
        case Coroutine():
            item.close()
        case Function():
            item.code.close()
        case Group() if item.kind != "map":
            for each in item.items:
                close(each)
        case Shield():
            close(item.item)


# --- handles ---


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


# --- the run ---


@dataclass(eq=False)
class Model:
    """A run of a flow. `main` returns the coroutine of one generation."""

    main: Callable[[Model, int], Coroutine[Item, Any, Any]]
    is_timed: bool = True
    pending: list[Leaf] = field(default_factory=list)
    ready: deque[Callable[[], None]] = field(default_factory=deque)
    kept: list[tuple[str, Any]] = field(default_factory=list)
    locks: set[str] = field(default_factory=set)
    handles: list[Handle] = field(default_factory=list)
    ended_handles: list[Handle] = field(default_factory=list)
    arrived: list[tuple[str, Any]] = field(default_factory=list)
    passed_on: list[tuple[str, Any]] = field(default_factory=list)
    ended: Outcome | None = None
    generation: int = 0
    is_cancelled: bool = False
    has_kept_again: bool = False
    entries: int = 0
    branch: Branch = field(init=False)

    def start(self) -> None:
        """Begin the first generation."""
        self.begin()
        self.settle()

    def begin(self, *, is_due: bool = False) -> None:
        """Begin a generation. `is_due`: its first `await` raises the cancel that the one before has not received."""
        self.branch = Branch(self, self.main(self, self.generation))
        self.branch.is_due = self.branch.is_due_at_once = is_due
        self.branch.begin(None)

    def settle(self) -> None:
        """Run code until all of it waits or the run has ended; events that were passed on come after the code."""
        while self.ended is None:
            while self.pass_on() or self.ready:
                self.ready.popleft()()
            if self.branch.outcome is not None:
                self.end_code(self.branch.outcome)
            elif self.has_kept_again and len({name for name, _ in self.passed_on}) > 1:
                raise Open  # the place of an event that was kept again, among those of other names
            elif self.passed_on:
                self.entries += 1
                self.receive(*self.passed_on.pop(0))
            else:
                return

    def end_code(self, outcome: Outcome) -> None:
        """Abandon what the code has begun, and continue as new if the code has returned that."""
        for handle in self.handles:
            if not handle.received:
                handle.child.drop()
        assert not self.pending, self.pending
        self.locks.clear()
        self.handles.clear()
        self.ended_handles.clear()
        if not isinstance(outcome.value, Again):
            self.ended = outcome
            return
        self.generation += 1
        REACHED[BEGUN_AGAIN] += 1
        self.is_cancelled = self.branch.is_due  # a later generation may be cancelled again
        self.passed_on = sorted(self.kept + self.passed_on, key=self.arrived.index)
        self.kept = []
        self.begin(is_due=self.branch.is_due)

    def taken(self, name: str) -> list[Any]:
        """Return the earliest kept event of a name, which is kept no longer, or nothing."""
        at = next((at for at, (kept, _) in enumerate(self.kept) if kept == name), None)
        return [] if at is None else [self.kept.pop(at)[1]]

    def check_open(self, event: str) -> None:
        """Raise `Open` if the event or the end of another part may decide a group that waits for the event."""
        waiting = [leaf for leaf in self.pending if leaf.command.key == ("event", event)]
        if any(isinstance(leaf.around, GroupNode | ShieldNode) for leaf in waiting):
            raise Open

    def pass_on(self) -> None:
        """Pass events that have been kept again on to commands that wait for them already."""
        for leaf in [leaf for leaf in self.pending if leaf.command.kind == "event"]:
            if leaf in self.pending and (kept := self.taken(leaf.command.label)):
                self.pending.remove(leaf)
                leaf.end(Outcome(kept[0]))

    def node_of(self, item: Any) -> Node:
        return item.node(self) if isinstance(item, Item) else Branch(self, item)

    def keep(self, name: str, value: Any) -> None:
        """Keep an event, in the order of arrival."""
        self.kept.append((name, value))
        self.kept.sort(key=self.arrived.index)

    # --- entries ---

    def end(self, label: str, value: Any = None, error: str = "") -> None:
        """End a pending command."""
        self.entries += 1
        [leaf] = [leaf for leaf in self.pending if leaf.command.label == label and leaf.command.kind != "event"]
        self.pending.remove(leaf)
        if leaf.command.kind == "lock":
            self.locks.add(label)
            value = Lock(label, self)
        leaf.end(Outcome(error=Problem(error)) if error else Outcome(value))
        self.settle()

    def event(self, name: str, value: Any) -> None:
        """Deliver an event."""
        self.entries += 1
        self.arrived.append((name, value))
        self.receive(name, value)
        self.settle()

    def receive(self, name: str, value: Any) -> None:
        """Pass an event on to the longest wait for it, or keep it."""
        leaf = next((leaf for leaf in self.pending if leaf.command.key == ("event", name)), None)
        if leaf is None:
            self.keep(name, value)
        else:
            self.pending.remove(leaf)
            leaf.end(Outcome(value))

    def cancel(self) -> None:
        """Cancel the run. A second cancel has no effect."""
        self.entries += 1
        if not self.is_cancelled:
            self.is_cancelled = True
            self.branch.cancel()
            REACHED[CANCELS_WAITED] += self.branch.is_due
        self.settle()


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that the code has received."""

    semaphore: str
    model: Model

    def release(self) -> None:
        self.model.locks.discard(self.semaphore)


@dataclass(frozen=True, slots=True)
class ModelFlow:
    """The names of `signalbox.flow`, for code that runs in a model."""

    model: Model

    def command(self, kind: str, label: str) -> Any:
        return Command(kind, label, self.model)

    def all(self, *items: Any) -> Any:
        return Group("all", items)

    def settled(self, *items: Any) -> Any:
        return Group("settled", items)

    def first(self, *items: Any) -> Any:
        return Group("first", items)

    def first_success(self, *items: Any) -> Any:
        return Group("first_success", items)

    def shield(self, item: Any) -> Any:
        return Shield(item)

    def begin(self, item: Any) -> Any:
        if isinstance(item, Handle):
            return item
        handle = Handle(self.model, item)
        self.model.handles.append(handle)
        return handle.begin(None)

    def wait_for(self, item: Any, label: str) -> Any:
        return Function(self._wait_for(self.first(item, self.command("sleep", label))))

    async def _wait_for(self, first: Any) -> Any:
        which, result = await first
        if which == 1:
            raise flow.TimedOut("The time is over.")
        return result

    def map(self, items: Sequence[Callable[[], Awaitable[Any]]], at_once: int) -> Any:
        return Function(self._map(Group("map", items, at_once)))

    async def _map(self, group: Group) -> Any:
        return await group

    def as_completed(self, *items: Any) -> AsCompleted:
        return AsCompleted(self, [item if isinstance(item, Handle) else self.begin(item) for item in items])

    def again(self, _: int) -> Any:
        return Again()

    def cancel(self, handle: Any) -> bool:
        cancelled: bool = handle.cancel_command()
        return cancelled

    def done(self, handle: Any) -> bool:
        return handle.outcome is not None

    def now(self) -> int:
        return self.model.entries if self.model.is_timed else 0


class Open(BaseException):
    """The pages leave open what the code observes next, so the comparison ends."""


@dataclass(slots=True)
class AsCompleted:
    """Handles in the order in which they end."""

    commands: ModelFlow
    left: list[Handle]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Handle:
        if not self.left:
            raise StopAsyncIteration
        if not any(handle.outcome for handle in self.left):
            with suppress(Problem):
                await self.commands.first(*self.left)
        ended = [handle for handle in self.commands.model.ended_handles if handle in self.left]
        if len(ended) > 1 and ended[0].ended_in == ended[1].ended_in:
            raise Open
        self.left.remove(ended[0])
        return ended[0]
