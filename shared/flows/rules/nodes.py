"""The tree of what a flow waits for: branches (generators), groups (all, any, settled), commands.

Each hands its outcome to its parent under its slot. A cancel goes down the tree and raises `Cancelled` where code
waits; what is abandoned, by an `any` that has its first, is simply not waited for any more.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from shared.flows.rules.commands import Command
from shared.flows.rules.failures import Cancelled

if TYPE_CHECKING:
    from shared.flows.rules.driver import Driver


@dataclass(frozen=True, slots=True)
class Ended:
    """How something ended: with a value, or with an error that is raised where it is waited for."""

    value: Any = None
    error: BaseException | None = None


def cancelled(reason: str = "") -> Ended:
    """Return the outcome of what was cancelled."""
    return Ended(error=Cancelled(reason))


class Parent(Protocol):
    """What outcomes are handed to."""

    def got(self, slot: int, outcome: Ended) -> None: ...


class Node(Protocol):
    """What a flow waits for."""

    def cancel(self, outcome: Ended) -> bool:
        """Cancel it; return whether it could be: its outcome is not on its way already."""
        ...

    def abandon(self) -> None: ...


@dataclass(eq=False, slots=True)
class Waiting:
    """A command that is waited for, under its path."""

    driver: "Driver"
    path: str
    command: Command
    parent: Parent
    slot: int
    place: str = ""

    def cancel(self, outcome: Ended) -> bool:
        if self.driver.pending.get(self.path) is not self:
            return False
        self.driver.complete(self, outcome)
        return True

    def abandon(self) -> None:
        self.driver.pending.pop(self.path, None)
