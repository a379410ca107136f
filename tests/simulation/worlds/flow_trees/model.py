"""A model of what the code of a flow may observe, written from the pages about flows, not from the driver.

`Model` runs a coroutine that awaits what `ModelFlow` returns, in place of the commands of `signalbox.flow`. Entries
arrive one at a time: `end` ends a command, `event` delivers an event, `cancel` cancels the run. The model favours plain
rules over speed and knows nothing of logs, paths, replays or turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from signalbox import Problem, flow
from signalbox.core.problems import LeaseEnded
from tests.simulation.reached_counts import BEGUN_AGAIN, CANCELS_WAITED, REACHED
from tests.simulation.worlds.flow_trees.groups import Branch, Function, Group, Shield
from tests.simulation.worlds.flow_trees.handles import Handle
from tests.simulation.worlds.flow_trees.nodes import Again, Command, Item, Leaf, Node, Open, Outcome, number_received


@dataclass(eq=False)
class Model:
    """A run of a flow. `main` returns the coroutine of one generation.

    `received` returns the outcome of an event's value, and `codes` has the coroutines of all branches.
    """

    main: Callable[[Model, int], Coroutine[Item, Any, Any]]
    is_timed: bool = True
    received: Callable[[Any], Outcome] = number_received
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
    is_refusing: bool = False
    entries: int = 0
    branch: Branch = field(init=False)
    codes: list[Coroutine[Item, Any, Any]] = field(default_factory=list)

    def start(self, *, is_due: bool = False) -> None:
        """Begin the first generation, or one whose first `await` raises a cancel that `is_due`."""
        self.is_cancelled = is_due
        self.begin(is_due=is_due)
        self.settle()

    def begin(self, *, is_due: bool = False) -> None:
        """Begin a generation. `is_due`: its first `await` raises the cancel that the one before has not received."""
        self.branch = Branch(self, self.main(self, self.generation))
        self.branch.is_due = self.branch.is_due_at_once = is_due
        self.branch.begin(None)

    def settle(self) -> None:
        """Run code until all of it waits or the run has ended; events that were passed on come after the code."""
        while self.ended is None:
            self.pass_on()
            if self.ready:
                self.ready.popleft()()
            elif self.branch.outcome is not None:
                self.end_code(self.branch.outcome)
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

    def pass_on(self) -> None:
        """Pass events that have been kept again on to commands that wait for them already, in order of arrival."""
        with self.refusing(False):
            while leaf := next(filter(None, (self.wait_for(name) for name, _ in self.kept)), None):
                self.pending.remove(leaf)
                leaf.receive(self.taken(leaf.command.label)[0])

    def wait_for(self, name: str) -> Leaf | None:
        """Return the longest wait for an event, or None."""
        return next((leaf for leaf in self.pending if leaf.command.key == ("event", name)), None)

    @contextmanager
    def refusing(self, is_refusing: bool) -> Iterator[None]:
        """Begin items while a cancel is due, or not: `is_refusing`."""
        before, self.is_refusing = self.is_refusing, is_refusing
        yield
        self.is_refusing = before

    def node_of(self, item: Any) -> Node:
        return item.node(self) if isinstance(item, Item) else Branch(self, item)

    def keep(self, name: str, value: Any) -> None:
        """Keep an event, in the order of arrival."""
        self.kept.append((name, value))
        self.kept.sort(key=self.arrived.index)

    # --- entries ---

    def end(self, kind: str, label: str, outcome: Outcome) -> None:
        """End a pending command."""
        self.entries += 1
        [leaf] = [leaf for leaf in self.pending if leaf.command.key == (kind, label)]
        self.pending.remove(leaf)
        if outcome.error is None and kind == "renew" and label not in self.locks:
            outcome = Outcome(error=LeaseEnded("released"))
        if outcome.error is None and kind in ("lock", "renew"):
            self.locks.add(label)
            outcome = Outcome(Lock(label, self))
        leaf.end(outcome)
        self.settle()

    def event(self, name: str, value: Any) -> None:
        """Deliver an event."""
        self.entries += 1
        self.arrived.append((name, value))
        self.receive(name, value)
        self.settle()

    def receive(self, name: str, value: Any) -> None:
        """Pass an event on to the longest wait for it, or keep it."""
        leaf = self.wait_for(name)
        if leaf is None:
            self.keep(name, value)
        else:
            self.pending.remove(leaf)
            leaf.receive(value)

    def terminate(self) -> None:
        """End the run as cancelled, without its code."""
        self.entries += 1
        self.pending.clear()
        self.locks.clear()
        self.ended = Outcome(error=flow.Cancelled())

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

    def renew(self) -> Command:
        if self.semaphore not in self.model.locks:
            raise LeaseEnded("released")
        return Command("renew", self.semaphore, self.model)


# --- the functions for the code ---


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
