"""A group of a flow: several commands and generators that are waited for as one."""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from shared.core.rules.problems import Problem
from shared.flows.rules.combinations import Settled
from shared.flows.rules.locks import HeldLock
from shared.flows.rules.nodes import Ended, Node, Parent, cancelled

if TYPE_CHECKING:
    from shared.flows.rules.driver import Driver


class Mode(Enum):
    """What a group waits for."""

    ALL = auto()
    FIRST = auto()
    SETTLED = auto()
    """All, each with its result or its error."""


class Group:
    """Several at once: all of them, the first of them or all with their errors."""

    def __init__(self, driver: "Driver", parent: Parent, slot: int, mode: Mode) -> None:
        self.driver, self.parent, self.slot = driver, parent, slot
        self._mode = mode
        self._children: list[Node] = []
        self._done: list[bool] = []
        self._results: list[Any] = []
        self._left = 0
        self._failing: Ended | None = None

    def begin(self, items: Sequence[Any], path: str, where: str) -> "Group":
        """Wait for each item, under the group's path and its place."""
        self._left = len(items)
        self._done, self._results = [False] * len(items), [None] * len(items)
        if not items:
            self._end(Ended([]))
        for number, each in enumerate(items):
            self._children.append(self.driver.place(each, f"{path}.{number}", self, number, where))
            if self._mode is Mode.FIRST and self.driver.ready:  # an event that was kept: the next one must stay kept
                break
        return self

    def got(self, slot: int, outcome: Ended) -> None:
        """Take the outcome of one."""
        if self._left == 0 or self._done[slot]:
            return
        self._done[slot] = True
        if self._mode is Mode.FIRST:
            self._decide(Ended((slot, outcome.value)) if outcome.error is None else outcome)
            return
        self._results[slot] = outcome.value if self._mode is not Mode.SETTLED else _settled(outcome)
        self._left -= 1
        if outcome.error is not None and not (self._mode is Mode.SETTLED and isinstance(outcome.error, Problem)):
            self._fail(outcome)
        if self._left == 0:
            self._end(self._failing or Ended(self._results))

    def _decide(self, outcome: Ended) -> None:
        self._left = 0
        for child in self._open():
            child.abandon()
        self._end(outcome)

    def _fail(self, outcome: Ended) -> None:
        if self._failing is None:
            self._failing = outcome
            for child in self._open():
                child.cancel(cancelled("another one of the group failed"))

    def _end(self, outcome: Ended) -> None:
        if outcome.error is not None:
            for each in self._results:
                _give_back(each)
        self.driver.ready.append((self.parent, self.slot, outcome))

    def _open(self) -> Iterator[Node]:
        return iter([child for child, done in zip(self._children, self._done, strict=False) if not done])

    def cancel(self, outcome: Ended) -> bool:
        """Cancel all that has not ended, whatever failed before: its code hears of the cancel."""
        if self._left == 0:
            return False
        if self._mode is Mode.FIRST:
            self._decide(outcome)
            return True
        self._failing = outcome
        for child in self._open():
            child.cancel(outcome)
        return True

    def abandon(self) -> None:
        self._left = 0
        for child in self._open():
            child.abandon()
        for each in self._results:
            _give_back(each)


def _settled(outcome: Ended) -> Settled:
    return Settled(outcome.value, outcome.error if isinstance(outcome.error, Exception) else None)


def _give_back(result: Any) -> None:
    """Release a lock that the code will never see."""
    held = result.result if isinstance(result, Settled) else result
    if isinstance(held, HeldLock):
        held.release()
