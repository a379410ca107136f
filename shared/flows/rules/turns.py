"""A turn: messages told to a flow's code, in memory, to be committed together under the header's guard.

The code is replayed from the log first. What is pending then must be what the header says; otherwise the code has
changed in a way that the log does not bear, and the flow is stuck until it is mended. What is pending after the last
message, and was not before, is what the commit asks for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from shared.core.rules.calls import Call
from shared.core.rules.times import rfc3339
from shared.flows.rules.combinations import Again
from shared.flows.rules.commands import Command, Sleep, Step
from shared.flows.rules.definitions import FlowDefinition
from shared.flows.rules.driver import Driver, replay
from shared.flows.rules.entries import CancelEntry, Entry, EventEntry, ResultEntry
from shared.flows.rules.failures import changed
from shared.flows.rules.headers import FlowHeader, Pending
from shared.flows.rules.messages import Cancel, Event, FlowMessage, Result
from shared.flows.rules.nodes import Waiting
from shared.flows.rules.positions import Position


@dataclass(slots=True)
class FlowTurn:
    """A turn of a flow at the server's time `now`, which is None where nobody has read it (a start).

    `before` is what the flow waited for, `pending` what it waits for now, `told` what it was told, `retried` the steps
    that are asked for again. `leases` are those that it held before, by the paths of their locks; `given_back` are
    grants that came for nobody.
    """

    header: FlowHeader
    driver: Driver
    now: datetime | None
    before: dict[str, Waiting] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)
    told: list[Entry] = field(default_factory=list)
    retried: set[str] = field(default_factory=set)
    leases: dict[str, dict[str, Any]] = field(default_factory=dict)
    given_back: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def begin(cls, definition: FlowDefinition, header: FlowHeader, log: Sequence[Entry], now: datetime | None) -> Self:
        """Replay a flow. Raises `Stuck`. Whoever has a turn closes it."""
        position = Position(header.life, header.known, dict(header.patches))
        driver = Driver(lambda: definition.begin(header.arguments), position)
        turn = cls(header, driver, now)
        try:
            return turn._replayed(log)
        except BaseException:
            turn.close()
            raise

    def close(self) -> None:
        """Forget the code (`Driver.drop`)."""
        self.driver.drop()

    @property
    def start_at(self) -> datetime | None:
        """Return the server's time of the start."""
        return self.header.start_at if self.header.begun else self.now

    @property
    def is_over(self) -> bool:
        """Return whether the turn ends here: the flow begins anew, and what waits is for its next generation."""
        return isinstance(self.again, Again)

    @property
    def again(self) -> Again | None:
        """Return the arguments with which the flow begins anew."""
        ended = self.driver.ended
        return ended.value if ended and isinstance(ended.value, Again) else None

    def _replayed(self, log: Sequence[Entry]) -> Self:
        replay(self.driver, self.start_at, log, began_before=self.header.begun)
        if self.header.begun:
            self._compare()
            self.before = dict(self.driver.pending)
            self.pending = dict(self.header.pending)
        self.leases = dict(self.driver.held)
        self._follow()
        return self

    def _compare(self) -> None:
        """Raise `Stuck` if the code does not wait for what the last commit has asked for."""
        now = {path: each.command.signature for path, each in self.driver.pending.items()}
        asked = {path: each.signature for path, each in self.header.pending.items()}
        for path in sorted(now.keys() | asked.keys()):
            if now.get(path) != asked.get(path):
                waiting = self.driver.pending.get(path)
                place = waiting.place if waiting else self.driver.branches[0].place
                was = f"'{asked[path]}' was asked for" if path in asked else "nothing was asked for"
                now_for = f"'{now[path]}'" if path in now else "nothing"
                raise changed(f"At {path} {was}, and now the code asks for {now_for}.", place)

    def take(self, message: FlowMessage) -> None:
        """Apply a message, or drop it if nobody waits for it. Raises `Stuck`."""
        if self.driver.ended is not None:
            self._drop(message)
            return
        assert self.now is not None, "a turn with messages has read them"
        match message:
            case Result():
                self._take_result(message, self.now)
            case Event():
                self._tell(EventEntry(message.name, message.value, self.now))
            case Cancel() if not self.driver.cancelling:
                self._tell(CancelEntry(message.reason, self.now))

    def _take_result(self, message: Result, now: datetime) -> None:
        """Take the end of what is waited for. A success counts for any attempt, a failure for the one under way."""
        place, failed = message.place, message.outcome.error is not None
        pending = self.pending.get(place.path)
        if place.life != self.header.life or pending is None or (failed and place.attempt != pending.attempt):
            self._drop(message)
            return
        waiting = self.driver.pending[place.path]
        if failed and isinstance(waiting.command, Step) and pending.attempt < waiting.command.attempts_max:
            self.pending[place.path] = replace(pending, attempt=pending.attempt + 1, asked_at=rfc3339(now))
            self.retried.add(place.path)
            return
        self._tell(ResultEntry(place.path, waiting.command.signature, message.outcome, now))

    def _drop(self, message: FlowMessage) -> None:
        """Drop a message. A lease that was granted is given back, unless this is its grant told again."""
        if isinstance(message, Result) and message.lease and not self._holds(message.lease):
            self.given_back.append(message.lease)

    def _holds(self, lease: Mapping[str, Any]) -> bool:
        return any(each["granted"]["id"] == lease["id"] for each in self.driver.held.values())

    def _tell(self, entry: Entry) -> None:
        self.driver.tell(entry)
        self.told.append(entry)
        self._follow()

    def _follow(self) -> None:
        """Keep up with what the code waits for."""
        waits = self.driver.pending
        asked_at = rfc3339(self.now) if self.now else ""
        new = {path: Pending(each.command.signature, 1, asked_at) for path, each in waits.items()}
        self.pending = {path: self.pending.get(path, new[path]) for path in waits}

    # --- what follows from it ---

    @property
    def asked(self) -> list[Waiting]:
        """Return what the commit asks for, steps of another attempt included."""
        waits = self.driver.pending
        return [each for path, each in waits.items() if path not in self.before or path in self.retried]

    @property
    def abandoned(self) -> list[Waiting]:
        """Return what nobody waits for any more, though it has not ended."""
        told = {entry.path for entry in self.told if isinstance(entry, ResultEntry)}
        return [each for path, each in self.before.items() if path not in self.driver.pending and path not in told]

    @property
    def released(self) -> list[dict[str, Any]]:
        """Return what was granted and is held no longer: at the end, everything."""
        kept = {} if self.driver.ended else self.driver.held
        had = self.leases | self.driver.granted
        return [*(_granted(lease) for path, lease in had.items() if path not in kept), *self.given_back]

    @property
    def sent(self) -> list[Call]:
        """Return the tasks that the code has sent."""
        return self.driver.sent

    @property
    def needs_time(self) -> bool:
        """Return whether nobody has read the server's time, and something needs it."""
        later = any(isinstance(each.command, Sleep) or _is_later(each.command) for each in self.asked)
        return self.now is None and (later or self.driver.position.needs_time or self.driver.ended is not None)

    @property
    def changes_anything(self) -> bool:
        """Return whether there is anything to commit besides the messages that it drops."""
        return bool(self.told or self.retried or not self.header.begun or self.header.stuck)


def _granted(lease: dict[str, Any]) -> dict[str, Any]:
    return dict(lease["granted"])


def _is_later(command: Command) -> bool:
    return isinstance(command, Step) and bool(command.call.delay_seconds)
