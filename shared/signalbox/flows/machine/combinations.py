"""Commands that the code awaits together: all of them, the first, the first that succeeds, or each with its outcome.

A `Group` decides their common outcome, and abandons the commands that no longer matter to it.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Generic

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import Problem
from signalbox.flows.machine.commands import AnyOf, HeldLock, T, branches_in
from signalbox.flows.machine.tree import Branch, Node, Parent, Tree, cancelled
from signalbox.flows.problems import AllFailed
from signalbox.mailboxes.model.outcomes import CallOutcome

ALL_FAILED = " commands succeeded."
"""The end of the first sentence of an `AllFailed`, before the details of its errors."""


@dataclass(frozen=True, slots=True)
class Settled(Generic[T]):
    """The outcome of one of several commands: its result or its error."""

    result: T | None = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        """Whether the command has succeeded."""
        return self.error is None


class First(tuple[int | str, Any]):
    """The result of a `first`: the name or the position of the command, and its result. The code unpacks it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            raise TypeError("The result of flow.first() has two values: write `which, result = await flow.first(…)`.")
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def first_of(
    items: Sequence[Any], named: Mapping[str, Any], kind: type[AnyOf[Any]] = AnyOf, name: str = "flow.first()"
) -> AnyOf[Any]:
    """Return the command that waits for the first of several commands, which have positions or names.

    Raises `TypeError` if some have positions and others have names, and for a coroutine.
    """
    if bool(items) == bool(named):
        raise TypeError(f"{name} needs at least one command: all of them by position, or all by name.")
    known = (*items, *named.values())
    check_commands(known, name)
    return kind(known, tuple(named) or tuple(range(len(known))))


def check_commands(items: Iterable[Any], name: str) -> None:
    """Raise `TypeError` if there are coroutines among the items; `name` is the function that the message names."""
    branches = [branch for item in items for branch in branches_in(item)]
    for branch in branches:
        branch.close()  # Python would warn in addition that it was never awaited
    if branches:
        raise TypeError(f"{name} takes commands, not coroutines: a coroutine could be abandoned half done.")


# --- groups ---


class Mode(Enum):
    """The outcomes that a group waits for."""

    ALL = auto()
    FIRST = auto()
    SUCCESS = auto()
    """The outcome of the first command that succeeds."""
    SETTLED = auto()
    """All outcomes, whether they are results or errors."""


class Group:
    """Several nodes for which a branch waits together."""

    def __init__(self, tree: Tree, parent: Parent, slot: int, mode: Mode, keys: Sequence[int | str] = ()) -> None:
        self.tree, self.parent, self.slot = tree, parent, slot
        self._mode, self._keys = mode, keys
        self._children: list[Node] = []
        self._done: list[bool] = []
        self._results: list[Any] = []
        self._left = 0
        self._error: CallOutcome | None = None
        self._failed: int | None = None
        self._cancel: CallOutcome | None = None
        self.adds = False
        self._items: deque[tuple[int, Any]] = deque()
        self._path = ""

    def begin(self, items: Sequence[Any], path: str) -> "Group":
        """Add each item to the tree, under the group's path and the item's number."""
        self._left = len(items)
        self._done, self._results = [False] * len(items), [None] * len(items)
        if not items:
            self._end(CallOutcome([]))
        self._items, self._path = deque(enumerate(items)), path
        self._place()
        return self

    @property
    def location(self) -> str:
        """The place in the code that waits for the group."""
        return self.parent.location

    def _place(self) -> None:
        """Add the items that have not been added, until one of them decides the group."""
        while self._items:
            if self._takes_one and self.tree.reclaimed:
                self.tree.keep_reclaimed()  # an earlier item may receive the event, and end
                if self._left == 0 or not self._items:
                    return
            number, item = self._items.popleft()
            before = len(self.tree.ready)
            self.adds = True
            self._children.append(self.tree.place(item, f"{self._path}.{number}", self, number))
            if not self._takes_one and len(self.tree.ready) > before and self._delivers():
                self.tree.deliver(before)  # up to this group, so that the outcomes of its items keep their order
            self.adds = False
            if self._takes_one and self.stops(before):
                return

    def _delivers(self) -> bool:
        """Return whether an item that ends as it begins passes through the groups in this one before the next begins.

        If the code that waits has a cancel that is due, it reaches them first.
        """
        return not self._is_refused

    @property
    def _is_refused(self) -> bool:
        """Whether a cancel is due in the code that waits: the group receives it when all of its items have begun."""
        if isinstance(self.parent, Group):
            return not self.parent._takes_one and self.parent._is_refused
        return isinstance(self.parent, Branch) and self.parent.cancel_due is not None

    @property
    def _takes_one(self) -> bool:
        return self._mode in (Mode.FIRST, Mode.SUCCESS)

    def stops(self, before: int) -> bool:
        """Return whether the item that was added last decides a `first`: its later items must not take another event.

        `before` is the number of outcomes that were on their way before the item was added.
        """
        if len(self.tree.ready) > before:
            self.tree.deliver(before)
            return self._left == 0
        return self._children[-1].decided

    def got(self, slot: int, outcome: CallOutcome) -> None:
        if self._left == 0 or self._done[slot]:
            return
        self._done[slot] = True
        if self._mode is Mode.FIRST:
            self._decide_by(slot, outcome)
            return
        if self._mode is Mode.SUCCESS:
            self.take_success(slot, outcome)
            return
        self._results[slot] = _settled(outcome) if self._mode is Mode.SETTLED else outcome.value
        self._left -= 1
        if outcome.failed and not (self._mode is Mode.SETTLED and isinstance(outcome.exception(), Problem)):
            self._fail(slot, outcome)
        if self._left == 0:
            self._end(self._error or CallOutcome(self._results))

    def take_success(self, slot: int, outcome: CallOutcome) -> None:
        """Decide the group with a success. After a failure, add the items that are left, and wait for the others."""
        error = outcome.exception()
        if not isinstance(error, Problem):
            self._decide_by(slot, outcome)
            return
        self._results[slot] = error
        self._left -= 1
        if self._left:
            self.parent.repeat_cancel(self)
        else:  # the code receives all of the errors, so nothing is abandoned
            self.tree.ready.append((self.parent, self.slot, CallOutcome(raised=self._all_failed())))
        if self._left:
            self._place()

    def _all_failed(self) -> AllFailed:
        errors = {key: each for key, each in zip(self._keys, self._results, strict=True) if each}
        shown = "; ".join(f"{key}: {each.detail}" for key, each in errors.items())
        return AllFailed(f"None of {len(self._keys)}{ALL_FAILED} {shown}", errors)

    @property
    def decided(self) -> bool:
        if self._takes_one:
            return self._left == 0 or any(child.decided for child in self._open())
        return self._left == 0 or all(child.decided for child in self._children)

    @property
    def shielded(self) -> bool:
        return any(child.shielded for child in self._children)

    def _decide_by(self, slot: int, outcome: CallOutcome) -> None:
        """Decide the group with the outcome of one of its nodes."""
        if outcome.failed:
            self._failed = slot
        self._decide(outcome if outcome.failed else CallOutcome(First((self._keys[slot], outcome.value))))

    def _decide(self, outcome: CallOutcome) -> None:
        self._left = 0
        for child in self._open():
            child.abandon()
        self._end(outcome)

    def _fail(self, slot: int, outcome: CallOutcome) -> None:
        if self._error is None:
            self._error, self._failed = outcome, slot
            self._cancel_open(cancelled("another command of the group failed"))

    def _cancel_open(self, outcome: CallOutcome) -> None:
        self._cancel = outcome
        for child in self._open():
            child.cancel(outcome)

    def repeat_cancel(self, node: Node) -> None:
        if self._cancel is None:
            self.parent.repeat_cancel(self)
        elif not node.decided:
            node.cancel(self._cancel)

    def _end(self, outcome: CallOutcome) -> None:
        """Report an outcome. If it is an error, abandon the nodes, except the one whose error the code receives."""
        if outcome.failed:
            self._abandon_all_but(self._failed)
        self.tree.ready.append((self.parent, self.slot, outcome))

    def _open(self) -> Iterator[Node]:
        return iter([child for child, done in zip(self._children, self._done, strict=False) if not done])

    def cancel(self, outcome: CallOutcome) -> bool:
        """Cancel all nodes that have not ended.

        If the group has already failed, it reports the cancel and not the error. A `first` with a shielded command is
        not cancelled until the shielded command has ended.
        """
        if self._left == 0 or (self._takes_one and self.shielded):
            return False
        if self.decided:
            return False  # its outcome is on its way to the code
        if self._takes_one:
            self._decide(outcome)
            return True
        self._error, self._failed = outcome, None
        self._cancel_open(outcome)
        return True

    def abandon(self) -> None:
        self._abandon_all_but(None)

    def _abandon_all_but(self, kept: int | None) -> None:
        self._left = 0
        for slot, child in enumerate(self._children):
            if slot != kept:
                child.abandon()
            elif isinstance(child, Branch):
                child.abandon_before_error()
        self._release_locks()

    def _release_locks(self) -> None:
        """Release the locks that the group has taken, also those that coroutines have returned.

        The code still holds a lock that the group has only renewed, and can await again a handle that has taken one.
        """
        for lock in locks_in(self._results):
            if lock.is_below(self._path) and not any(handle.has(lock) for handle in self.tree.handles):
                lock.release()


def release_results(tree: Tree, results: list[Any], held: Collection[str]) -> None:
    """Release the locks in results that no code receives, except those of handles, and those `held` before."""
    for lock in locks_in(results):
        is_outer = any(lock.is_below(path) for path in held)
        if not is_outer and not any(handle.has(lock) for handle in tree.handles):
            lock.release()


def locks_in(results: list[Any]) -> Iterator[HeldLock]:
    """Iterate over the locks in results, including the locks in the results of nested groups."""
    waiting: list[Any] = [results]
    seen = set()
    while waiting:
        value = waiting.pop()
        match value:
            case HeldLock():
                yield value
            case Settled():
                waiting.append(value.result)
            case list() | tuple() | dict() if id(value) not in seen:
                seen.add(id(value))
                waiting.extend(value.values() if isinstance(value, dict) else value)


def _settled(outcome: CallOutcome) -> Settled[Any]:
    error = outcome.exception()
    return Settled(outcome.value, error if isinstance(error, Exception) else None)
