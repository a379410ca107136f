"""A flow's code is a generator; the log says what it was told, in order; a replay leads it to where it is. All pure.

What a generator yields becomes pending commands, each under a path: the number of the yield in its branch, then its
place in the list, and so on. An entry of the log completes one. Nothing here does anything: a turn compares what is
pending before and after, and asks for the difference in its commit.

    yield command         its result, or its error is raised
    yield [a, b, gen()]   all: the results; the first error is raised when the others are cancelled and have ended
    yield any             (which, result) of the first; the others are abandoned
    yield settled         all: each as a `Settled`
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import GeneratorType
from typing import Any

from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.flows.rules.branches import Branch
from shared.flows.rules.combinations import AnyOf, SettledOf
from shared.flows.rules.commands import Event, Lock, command_of
from shared.flows.rules.entries import CancelEntry, Entry, EventEntry, ResultEntry
from shared.flows.rules.failures import changed, too_large
from shared.flows.rules.groups import Group, Mode
from shared.flows.rules.locks import HeldLock, Renew, renewed
from shared.flows.rules.nodes import Ended, Node, Parent, Waiting, cancelled
from shared.flows.rules.positions import Position
from shared.flows.rules.results import json_text

Code = Callable[[], Generator[Any, Any, Any]]


@dataclass(eq=False)
class Driver:
    """A flow's code and where it is.

    `pending` is what it waits for, by path; `kept` are events that nobody has waited for yet; `held` are leases, by the
    paths of their locks. `ended` is how it ended, or None. `sent` are the tasks it has sent and `granted` the leases it
    was told since the replay.
    """

    code: Code
    position: Position
    pending: dict[str, Waiting] = field(default_factory=dict)
    kept: dict[str, list[Any]] = field(default_factory=dict)
    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent: list[Call] = field(default_factory=list)
    granted: dict[str, dict[str, Any]] = field(default_factory=dict)
    progress: Any = None
    ended: Ended | None = None
    made: list[Any] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    ready: deque[tuple[Any, int, Ended]] = field(default_factory=deque)
    dropped: bool = False
    cancelling: bool = False

    # --- what happens to it ---

    def start(self, at: datetime | None) -> "Driver":
        """Begin the code. `at` is the server's time, or None: the position says whether it was missed.

        Raises `Stuck`, as everything does that lets the code go on.
        """
        self.position.advance(at)
        self.ready.append((Branch(self, "", self.code(), self, 0), 0, Ended()))
        return self._run()

    def tell(self, entry: Entry) -> "Driver":
        """Advance the code by one entry of the log."""
        self.position.advance(entry.at)
        match entry:
            case ResultEntry():
                self._complete_known(entry)
            case EventEntry():
                self._meet(entry)
            case CancelEntry() if not self.cancelling and self.ended is None:
                self.cancelling = True
                self.branches[0].cancel(cancelled(entry.reason))
        return self._run()

    def drop(self) -> None:
        """Forget the code. Python runs the `finally` blocks of a closed generator: what they ask for is ignored."""
        self.dropped = True
        for branch in self.branches:
            branch.close()

    def _run(self) -> "Driver":
        for _ in range(LIMITS.flow_advances_max):
            if not self.ready:
                return self._checked()
            to, slot, outcome = self.ready.popleft()
            to.got(slot, outcome)
        raise too_large(f"The code went on {LIMITS.flow_advances_max:,} times without waiting.", self.branches[0].place)

    def _checked(self) -> "Driver":
        if len(self.pending) > LIMITS.flow_pending_max:
            detail = f"A flow waits for at most {LIMITS.flow_pending_max} at once; use a batch for more."
            raise too_large(detail, self.branches[0].place)
        if sum(map(len, self.kept.values())) > LIMITS.flow_events_kept_max:
            raise too_large(f"More than {LIMITS.flow_events_kept_max:,} events came that the code has not waited for.")
        return self

    def got(self, _: int, outcome: Ended) -> None:
        """Take the end of the flow's own code."""
        self.ended = outcome

    def _complete_known(self, entry: ResultEntry) -> None:
        waiting = self.pending.get(entry.path)
        if waiting is None or waiting.command.signature != entry.signature:
            now = f"the code waits for {waiting.command.signature}" if waiting else "the code waits for nothing"
            place = waiting.place if waiting else self.branches[0].place
            raise changed(f"The log has the end of '{entry.signature}' at {entry.path}, where {now}.", place)
        self.complete(waiting, self._outcome(waiting, entry))

    def _outcome(self, waiting: Waiting, entry: ResultEntry) -> Ended:
        if problem := entry.outcome.problem():
            return Ended(error=problem)
        if isinstance(waiting.command, Renew):
            return renewed(self, waiting.command, str(entry.outcome.result))
        if not isinstance(waiting.command, Lock):
            return Ended(entry.outcome.object or entry.outcome.result)
        self.held[waiting.path] = self.granted[waiting.path] = dict[str, Any](entry.outcome.to_json()["result"])
        return Ended(HeldLock.of(self, waiting.path))

    def _meet(self, entry: EventEntry) -> None:
        first = next((each for each in self.pending.values() if waits_for(each, entry.name)), None)
        if first is None:
            self.kept.setdefault(entry.name, []).append(entry.value)
        else:
            self.complete(first, Ended(entry.value))

    # --- for the nodes of its tree ---

    def place(self, item: Any, path: str, parent: Parent, slot: int, where: str) -> Node:
        """Wait for what a generator yielded `where`. Raises `Stuck` for what is no command."""
        match item:
            case AnyOf():
                return Group(self, parent, slot, Mode.FIRST).begin(item.items, path, where)
            case SettledOf():
                return Group(self, parent, slot, Mode.SETTLED).begin(item.items, path, where)
            case list() | tuple():
                return Group(self, parent, slot, Mode.ALL).begin(item, path, where)
            case GeneratorType():
                branch = Branch(self, path, item, parent, slot)
                self.ready.append((branch, 0, Ended()))
                return branch
        if (command := command_of(item)) is None:
            raise changed(f"A flow yields commands, lists of them and generators, no {type(item).__name__}.", where)
        return self.wait(Waiting(self, path, command, parent, slot, where))

    def wait(self, waiting: Waiting) -> Waiting:
        """Wait for a command; an event that was kept is its result at once."""
        self.pending[waiting.path] = waiting
        event = waiting.command.name if isinstance(waiting.command, Event) else ""
        if event and self.kept.get(event):
            self.complete(waiting, Ended(self.kept[event].pop(0)))
        return waiting

    def complete(self, waiting: Waiting, outcome: Ended) -> None:
        """Hand the outcome of a command on."""
        del self.pending[waiting.path]
        self.ready.append((waiting.parent, waiting.slot, outcome))

    # --- for the code ---

    def send(self, call: Call) -> None:
        """Send a task without waiting for it."""
        if not self.dropped:
            self.sent.append(call)

    def release(self, path: str) -> bool:
        """Release the lease of a lock; return whether it was held."""
        return not self.dropped and self.held.pop(path, None) is not None

    def show(self, progress: Any) -> None:
        """Show people how far the flow is."""
        if not self.dropped:
            json_text(progress, "the progress of a flow", LIMITS.task_bytes_max)
            self.progress = progress


def waits_for(waiting: Waiting, event: str) -> bool:
    """Return whether a command waits for this event."""
    return isinstance(waiting.command, Event) and waiting.command.event == event


def replay(driver: Driver, at: datetime | None, log: Sequence[Entry], *, began_before: bool = True) -> Driver:
    """Start a driver and tell it a log; what it sends then was sent before, if it `began_before`. Raises `Stuck`."""
    driver.start(at)
    for entry in log:
        driver.tell(entry)
    if began_before:
        driver.sent.clear()
        driver.granted.clear()
    return driver
