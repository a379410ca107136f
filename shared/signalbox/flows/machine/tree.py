"""The tree of waits: branches, which are coroutines, the state that they share, and pending commands.

Each node reports its outcome to its parent, under its slot there. A cancel goes down the tree and raises `Cancelled`
where code waits. An abandoned node, for instance of an `any` that has its first outcome, is no longer waited for: the
code never receives its outcome, so the locks in the outcome are released, and the events in it are kept.
"""

import inspect
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import Context
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType
from typing import Any, Protocol, TypeVar

from signalbox.core.flow_hooks import Awaited
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadArgument, Problem
from signalbox.core.user_code import copy_of, kit_context
from signalbox.flows.machine.commands import (
    CONTINUE_AS_NEW,
    Command,
    ContinueAsNew,
    HeldLock,
    branches_in,
    has_shield,
)
from signalbox.flows.machine.running_flow import RunningFlow, enter
from signalbox.flows.machine.stuck import Cancelled, awaited_by, failed, frame_of, is_misuse, location_of, misused
from signalbox.flows.problems import CommandCancelled
from signalbox.mailboxes.model.outcomes import CallOutcome

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

CLOSES_MAX = 1_000
"""The number of waits in a clean-up that `Branch.close` skips. Code with more waits catches every exception in a loop.
"""

UNENDING: list[Any] = []
"""Coroutines that cannot be closed. They are kept here, since Python's collector would run their code once more."""


class Parent(Protocol):
    """A node that has others below it."""

    def got(self, slot: int, outcome: CallOutcome) -> None:
        """Receive the outcome of the node in a slot."""
        ...

    def repeat_cancel(self, node: "Node") -> None:
        """Repeat a cancel that has not reached a node, since a shield in the node has ended."""
        ...

    @property
    def location(self) -> str:
        """The place in the code that waits for the nodes below it."""
        ...


class Node(Protocol):
    """A node of the tree."""

    def cancel(self, outcome: CallOutcome) -> bool:
        """Cancel the node; return False if its own outcome is already on its way to its parent."""
        ...

    @property
    def decided(self) -> bool:
        """Whether the outcome of the node is decided, although its parent may not have received it yet."""
        ...

    @property
    def shielded(self) -> bool:
        """Whether a cancel waits for a part of the node."""
        ...

    def abandon(self) -> None:
        """Stop the commands of the node, whose outcome the code never receives.

        If the node has ended, the locks in its outcome are released, and the events in it are kept.
        """
        ...


class Tree(RunningFlow, Protocol):
    """The driver, as the nodes see it.

    `ready` has the outcomes that are on their way to their parents, and `reclaimed` the events to keep again.
    """

    pending: dict[str, "PendingCommand"]
    continuing: bool
    ready: deque[tuple[Any, int, CallOutcome]]
    reclaimed: list[tuple[int, str, Any]]
    branches: list["Branch"]
    dropped: bool
    runs: "Branch | None"
    handles: list["Handle[Any]"]
    completed: int

    @property
    def begun(self) -> bool:
        """Whether an earlier turn has run the code."""
        ...

    def place(self, item: Any, path: str, parent: Parent, slot: int) -> Node:
        """Add an awaited item to the tree. Raises `Stuck` if it cannot be waited for."""
        ...

    def complete(self, pending: "PendingCommand", outcome: CallOutcome) -> None:
        """Send the outcome of a command to its parent."""
        ...

    def deliver(self, first: int) -> None:
        """Deliver the outcomes of `ready` from a position on, up to code, or a group that is still adding an item."""
        ...

    def pass_groups(self, first: int) -> None:
        """Deliver these outcomes before the code runs that is ready, however deep its groups are.

        So code runs in the order in which its waits end.
        """
        ...

    def reclaim(self, pending: "PendingCommand") -> None:
        """Release the lock, or keep the event, that a command has received for code that never receives it."""
        ...

    def keep_reclaimed(self) -> None:
        """Keep the reclaimed events, unless a command waits for them."""
        ...


def cancelled(reason: str = "") -> CallOutcome:
    """Return the outcome of a cancelled command."""
    return CallOutcome(raised=Cancelled(reason))


@dataclass(eq=False, slots=True)
class PendingCommand:
    """A command that the code waits for, under its path.

    `event` has the number and the value of the event that it has received.
    """

    tree: Tree
    path: str
    command: Command[Any]
    parent: Parent
    slot: int
    event: tuple[int, Any] | None = None

    @property
    def location(self) -> str:
        """The place of its `await`, as long as it is pending."""
        return self.parent.location

    def cancel(self, outcome: CallOutcome) -> bool:
        if self.tree.pending.get(self.path) is not self:
            return False
        self.tree.complete(self, outcome)
        return True

    @property
    def decided(self) -> bool:
        return self.tree.pending.get(self.path) is not self

    @property
    def shielded(self) -> bool:
        return False

    def abandon(self) -> None:
        if self.tree.pending.pop(self.path, None) is None:
            self.tree.reclaim(self)


class Branch:
    """A coroutine. It is resumed with the outcome of the command that it awaits.

    It runs in its own `context`, a copy of the context of the branch that began it.
    """

    def __init__(self, tree: Tree, path: str, code: Any, parent: Parent, slot: int) -> None:
        self.tree, self.path, self.parent, self.slot = tree, path, parent, slot
        self._code = code
        self._waits = 0
        self._waits_for: Node | None = None
        self.cancel_due: CallOutcome | None = None
        self._failed: Node | None = None
        self._received: list[Node] | None = [] if getattr(code, "cr_code", None) in KIT_CODE else None
        self._is_passed_on = False
        self.cancelled = False
        self._has_ended = False
        self.context: Context = copy_of(tree.runs.context) if tree.runs else kit_context()
        self.context.run(enter, tree)
        tree.branches.append(self)

    @property
    def location(self) -> str:
        """The place in the code where it waits."""
        return location_of(self._code)

    @property
    def _has_begun(self) -> bool:
        return inspect.getcoroutinestate(self._code) != inspect.CORO_CREATED

    def got(self, _: int, outcome: CallOutcome) -> None:
        """Resume the code with the outcome of the item that it awaits. Raises `Stuck`."""
        if self._has_ended:
            return  # it was cancelled before it began
        if not self._waits and self._has_begun:
            detail = f"The code waits twice for one call of {self._code.__name__}(). Call it once for each"
            raise misused(detail, self.parent.location)
        if self.cancel_due and not self._waits and not self._is_passed_on:
            outcome, self.cancel_due = self.cancel_due, None
        self._failed, self._waits_for = self._waits_for if outcome.failed else None, None
        try:
            item = self._resume(outcome)
        except StopIteration as stop:
            self._check_created()
            self.tree.continuing |= bool(self.path) and isinstance(stop.value, ContinueAsNew)
            self._end(CallOutcome(stop.value))
        except (Problem, Cancelled) as error:
            if is_misuse(error) and (self.tree.begun or not isinstance(error, BadArgument)):
                raise failed(error) from error
            self._end(CallOutcome(raised=error))
        else:
            self._wait_for(item)

    def _end(self, outcome: CallOutcome) -> None:
        self._has_ended = True
        self.tree.ready.append((self.parent, self.slot, outcome))

    def _resume(self, outcome: CallOutcome) -> Any:
        self.tree.created.clear()
        self.tree.runs = self
        error = outcome.exception()
        if error is None:
            item = self.context.run(self._code.send, outcome.value)
        else:
            item = self.context.run(self._code.throw, error)
        self._check_created()
        return item

    def _check_created(self) -> None:
        """Raise `Stuck` for a command that the code has created since its last wait and keeps no reference to."""
        for reference, name in self.tree.created:
            if reference() is None:
                done, advice = ("returned", "Return") if name.startswith(CONTINUE_AS_NEW) else ("sent", "Await")
                forgotten = f"The code created a command and neither awaited nor {done} it: {name}"
                raise misused(f"{forgotten}. {advice} it, or remove it", self.location)

    def _wait_for(self, item: Any) -> None:
        """Wait for an item. If a cancel is due, raise the cancel instead, and do not begin the item.

        If the item has shielded parts, the cancel waits for them, since the code may be a clean-up.
        """
        path, due = self.next_path(), self.cancel_due
        if due and (self._is_passed_on or not has_shield(item)):
            self.cancel_due, self._is_passed_on = None, False
            discard(item)
            self.tree.ready.append((self, 0, due))
            return
        before = len(self.tree.ready)
        self._waits_for = self.tree.place(item, path, self, 0)
        if self._received is not None and is_kits(self._code):
            self._received.append(self._waits_for)
        if due and self._waits_for.cancel(due):
            self.cancel_due = None
        self.tree.pass_groups(before)

    def next_path(self) -> str:
        """Return the path of the item that the code awaits or begins next."""
        path = f"{self.path}.{self._waits}" if self.path else str(self._waits)
        self._waits += 1
        return path

    def cancel(self, outcome: CallOutcome) -> bool:
        """Raise `Cancelled` where the code waits, or at its next wait.

        The error is raised only once, so that the code can wait during its clean-up.
        """
        if not self.cancelled:
            self.cancelled = True
            if self.path and not self._has_begun:
                self.end_unbegun(outcome)
            elif self._waits_for is None or not self._waits_for.cancel(outcome):
                self.cancel_due = outcome
        return True

    def end_unbegun(self, outcome: CallOutcome) -> None:
        """End code in a group that has not begun, at once, as a cancel ends a command of the group.

        The cancel may decide the group, whose events are then kept before other code begins.
        """
        self._code.close()
        self._end(outcome)

    def pass_on(self, outcome: CallOutcome) -> None:
        """Raise a cancel that the last execution has not received at the first `await`, even if it is shielded."""
        self.cancelled = self._is_passed_on = True
        self.cancel_due = outcome

    def repeat_cancel(self, node: Node) -> None:
        if self._waits_for is None:
            return  # not all of the item has begun: the cancel follows then
        if self.cancel_due and not node.decided and node.cancel(self.cancel_due):
            self.cancel_due = None

    @property
    def decided(self) -> bool:
        return False  # its code may receive a cancel

    @property
    def shielded(self) -> bool:
        raise AssertionError("a `first` has no branches below it")

    def abandon(self) -> None:
        """Abandon what a function of the kit has received. Code of the user has received its outcomes."""
        assert self._has_ended, "a `first` has no branches below it"
        self._abandon_all_but(None)

    def abandon_before_error(self) -> None:
        """Abandon what a function of the kit has received before the error that the code receives."""
        self._abandon_all_but(self._failed)

    def _abandon_all_but(self, kept: Node | None) -> None:
        """Abandon what a function of the kit has received: it has failed, perhaps with the error of the node `kept`."""
        for node in self._received or ():
            if node is not kept:
                node.abandon()

    def close(self) -> None:
        """Close the code. If the code waits in its clean-up, close it again there.

        The clean-up runs as the flow's code does, so the calls in it are commands, or are refused. Raises `Stuck` for
        code that never ends.
        """
        self.tree.runs = self
        for _ in range(CLOSES_MAX):
            if not is_open(self._code):
                return
            code = innermost(self._code)
            with suppress(BaseException):  # an error of a clean-up has no effect
                discard(self.context.run(code.throw, Dropped() if awaits_foreign(code) else GeneratorExit()))
        UNENDING.append(self._code)
        detail = "The code catches every exception and then waits again, so that it never ends. Catch `Exception`"
        raise misused(detail, self.location)


KIT_CODE: set[CodeType] = set()
"""The code of the coroutines of the kit, which await what the code of a flow gives them."""


def of_kit(function: F) -> F:
    """Mark a coroutine function as the kit's."""
    KIT_CODE.add(function.__code__)
    return function


def is_kits(code: Any) -> bool:
    """Return whether a coroutine of the kit waits itself, not through code of the user."""
    while isinstance(code, CoroutineType):
        if code.cr_code not in KIT_CODE:
            return False
        code = code.cr_await
    return True


def discard(item: Any) -> None:
    """Close the coroutines that closed code waits for. Otherwise Python warns that they were never awaited."""
    for code in branches_in(item):
        code.close()


def is_open(code: Any) -> bool:
    """Return whether a coroutine, or the generator of an `__await__`, has not ended."""
    return frame_of(code) is not None


class Dropped(BaseException):
    """Raised instead of `GeneratorExit` in code that awaits an asynchronous generator.

    At a `GeneratorExit`, Python closes the code that awaits the generator, and leaves the generator to the collector.
    """


def close_generator(generator: AsyncGeneratorType[Any, Any]) -> bool:
    """Close an asynchronous generator at once, and return whether its clean-up waits."""
    closing, error, waits = generator.aclose(), None, False
    for _ in range(CLOSES_MAX):
        try:
            discard(closing.send(None) if error is None else closing.throw(error))
        except BaseException:  # noqa: BLE001  its end, or an error of the clean-up, which has no effect
            break
        error, waits = Dropped(), True
    return waits


def awaits_foreign(code: Any) -> bool:
    """Return whether code awaits a step of an asynchronous generator, and not a coroutine or an `__await__`."""
    return not isinstance(awaited_by(code), CoroutineType | GeneratorType | None)


def innermost(code: Any) -> Any:
    """Return the innermost coroutine that waits.

    It is `code`, or a coroutine that `code` awaits, directly or indirectly. If the inner coroutine waits in its
    clean-up, closing the outer coroutine would end the outer one at once, and leave the inner one to the collector.
    """
    while is_open(inner := awaited_by(code)):
        code = inner
    return code


class Shielded:
    """A node that a cancel does not reach. The branch that waits for the node is cancelled at its next wait, unless
    that wait is shielded.
    """

    def __init__(self, tree: Tree, parent: Parent, slot: int) -> None:
        self.tree, self.parent, self.slot = tree, parent, slot
        self._inner: Node
        self._ended = False

    def begin(self, item: Any, path: str) -> "Shielded":
        """Add the item to the tree, under the node's own path."""
        self._inner = self.tree.place(item, path, self, 0)
        return self

    @property
    def location(self) -> str:
        return self.parent.location

    def got(self, _: int, outcome: CallOutcome) -> None:
        """Pass the outcome on. It may decide a group around, which a cancel that has waited then leaves as it is."""
        self._ended = True
        before = len(self.tree.ready)
        self.tree.ready.append((self.parent, self.slot, outcome))
        if not isinstance(self.parent, Branch):
            self.tree.deliver(before)
        self.parent.repeat_cancel(self)

    def repeat_cancel(self, _: Node) -> None:
        """Do nothing: no cancel reaches the item."""

    def cancel(self, _: CallOutcome) -> bool:
        return False

    @property
    def decided(self) -> bool:
        return self._ended or self._inner.decided

    @property
    def shielded(self) -> bool:
        return not self._ended

    def abandon(self) -> None:
        self._ended = True
        self._inner.abandon()


class Handle(Awaited[T]):
    """A command that the code has begun with `flow.begin` and can await later, any number of times.

    If the branch that awaits the command is cancelled or abandoned, the command continues. The command ends by itself,
    by `cancel`, or with the code of the run.
    """

    __slots__ = (
        "__weakref__",
        "_node",
        "_outcome",
        "_receivers",
        "_waits",
        "item",
        "location",
        "number",
        "path",
        "tree",
    )

    def __init__(self, tree: Tree, item: Any, path: str) -> None:
        self.tree, self.item, self.path = tree, item, path
        self.number, self.location = 0, ""
        self._node: Node | None = None
        self._outcome: CallOutcome | None = None
        self._waits: list[HandleWait] = []
        self._receivers: list[HandleWait] = []

    @property
    def done(self) -> bool:
        """Whether the command has ended, so that `await` returns at once. It is the same in every replay."""
        return self._outcome is not None

    def cancel(self) -> bool:
        """Abandon the command, as `flow.first` does. Return True if the command had not ended yet.

        An `await` of the handle then raises `CommandCancelled`, a `Problem`.
        """
        if self._node is None or self.decided or self.tree.dropped:
            return False
        self._node.abandon()
        self.tree.keep_reclaimed()
        before = len(self.tree.ready)
        self.got(0, CallOutcome(raised=CommandCancelled("The command was cancelled by its handle.")))
        self.tree.deliver(before)
        return True

    # --- as a node ---

    def begin(self, location: str) -> None:
        """Add the item to the tree, under the handle's path."""
        before = len(self.tree.ready)
        self.location = location
        self._node = self.tree.place(self.item, self.path, self, 0)
        self.tree.deliver(before)
        self.tree.keep_reclaimed()

    def got(self, _: int, outcome: CallOutcome) -> None:
        """Receive the outcome of the command, and pass it on to the nodes that await it."""
        if self._outcome is not None:
            return
        self.tree.completed += 1
        self._outcome, self.number = outcome, self.tree.completed
        waits, self._waits = self._waits, []
        self._receivers += waits
        for wait in waits:
            if wait in self._receivers:  # otherwise the outcome has decided a group around, which forgets the wait
                self._pass_on(wait, outcome)

    def _pass_on(self, wait: "HandleWait", outcome: CallOutcome) -> None:
        """Pass the outcome through all groups around one wait before the next wait receives it."""
        before = len(self.tree.ready)
        wait.end(outcome)
        self.tree.deliver(before)

    def repeat_cancel(self, _: Node) -> None:
        """Do nothing: no cancel reaches the command."""

    @property
    def decided(self) -> bool:
        """Whether the outcome is decided, although the code may not have received it yet."""
        return self._outcome is not None or (self._node is not None and self._node.decided)

    def abandon(self) -> None:
        """Abandon a command whose outcome the code has not received, since the code of the run has ended."""
        if self._node is not None and not self._receivers:
            self._node.abandon()

    def add(self, wait: "HandleWait") -> None:
        """Let a node wait for the outcome."""
        if self._outcome is None:
            self._waits.append(wait)
        else:
            self._receivers.append(wait)
            wait.end(self._outcome)

    def remove(self, wait: "HandleWait") -> bool:
        """Stop the wait of a node, and return whether it waited."""
        if wait not in self._waits:
            return False
        self._waits.remove(wait)
        return True

    def forget(self, wait: "HandleWait") -> None:
        """Forget a node whose outcome the code never receives."""
        self.remove(wait)
        if wait in self._receivers:
            self._receivers.remove(wait)

    def has(self, lock: HeldLock) -> bool:
        """Return whether a lock was taken by the command. The code may still receive such a lock."""
        return lock.is_below(self.path)


def earliest(handles: Iterable[Handle[T]]) -> Handle[T]:
    """Return the handle that has ended before the others. At least one of the handles must have ended."""
    return min((handle for handle in handles if handle.done), key=lambda handle: handle.number)


class HandleWait:
    """A node that waits for a handle. A cancel ends the wait, and not the command."""

    def __init__(self, handle: Handle[Any], parent: Parent, slot: int) -> None:
        self._handle, self._parent, self._slot = handle, parent, slot

    def begin(self) -> "HandleWait":
        """Wait for the handle, or pass its outcome on at once."""
        self._handle.add(self)
        return self

    def end(self, outcome: CallOutcome) -> None:
        """Send an outcome to the parent."""
        self._handle.tree.ready.append((self._parent, self._slot, outcome))

    def cancel(self, outcome: CallOutcome) -> bool:
        if self._handle.decided or not self._handle.remove(self):
            return False
        self.end(outcome)
        return True

    @property
    def decided(self) -> bool:
        return self._handle.decided

    @property
    def shielded(self) -> bool:
        return False

    def abandon(self) -> None:
        self._handle.forget(self)
