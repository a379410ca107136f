"""What callers and the code of one run may observe of messages: a model of the pages, which uses nothing of the kit.

Written from "Updates" and "Start a run with an event" of docs/flow-waits.md, and from docs/flow-operations.md. Where a
page leaves a choice open, the model raises `Open`, or the page is completed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Op = tuple[Any, ...]
Script = tuple[Op, ...]
Id = tuple[str, str]
"""A message's kind and the id that its sender chose: an event and an update may have the same id."""

SAME, REPLACE_ENDED, REPLACE, REFUSE = "same", "replace_ended", "replace", "refuse"
RUNNING, SUSPENDED, STUCK = "running", "suspended", "stuck"
COMPLETED, FAILED, CANCELLED = "completed", "failed", "cancelled"
WAITS, NOT_ANSWERED, GONE, NO_FLOW = "waits", "not-answered", "no-update", "no-flow"
TOO_MANY = "too-many-updates"
UPDATES_MAX = 3
TOO_MANY_EVENTS = "too-many-events"
EVENTS_MAX = 1
"""The most events that a turn keeps for code that does not wait for them."""


class Open(Exception):
    """The pages leave a choice here."""


@dataclass(frozen=True, slots=True)
class Message:
    kind: str
    name: str
    value: Any
    id: str

    @property
    def key(self) -> Id:
        return self.kind, self.id


CANCEL = Message("cancel", "", None, "")
STEP = Message("step", "", None, "")
"""The result of a step that ends while its run is suspended."""


@dataclass
class Execution:
    """The code of a run: where it is in its script, and what it has received."""

    script: Script
    kept: list[Message] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    at: int = 0
    waits: bool = False

    @property
    def op(self) -> Op:
        return self.script[self.at] if self.at < len(self.script) else ("end",)

    def awaited(self) -> list[tuple[str, str]]:
        """Return the kinds and names of messages that the code waits for."""
        match self.op:
            case ("update" | "event" as kind, name, *_):
                return [(kind, name)]
            case ("first", update, event):
                return [("update", update), ("event", event)]
        return []


@dataclass
class Run:
    """A run under an id, until another one replaces it."""

    script: Script
    state: str = RUNNING
    execution: Execution = field(init=False)
    inbox: list[Message] = field(default_factory=list)
    arrived: list[Message] = field(default_factory=list)
    received: list[Message] = field(default_factory=list)
    """By the generation, in the order of its log."""
    counted: set[Id] = field(default_factory=set)
    """The messages that any generation has received."""
    replies: dict[Id, str] = field(default_factory=dict)
    has_begun: bool = False

    def __post_init__(self) -> None:
        self.execution = Execution(self.script)

    @property
    def has_ended(self) -> bool:
        return self.state in (COMPLETED, FAILED, CANCELLED)

    @property
    def is_quiet(self) -> bool:
        return self.has_begun and not self.inbox

    def unanswered(self) -> list[Message]:
        return [each for each in self.arrived if each.kind == "update" and each.key not in self.replies]

    def put(self, message: Message) -> None:
        """Keep a message until it is delivered. A cancel comes before what the code has not received yet."""
        self.arrived.append(message)
        self.inbox.insert(0 if message.kind == "cancel" else len(self.inbox), message)

    # --- the code ---

    def begin(self, mended: bool) -> None:
        """Run the code up to where it first waits. A start does not make a run stuck: the first delivery does."""
        while self.state == RUNNING and self.execution.op != ("again",) and self._move(mended):
            pass
        self.has_begun = self.state != STUCK and self.execution.op != ("again",)
        self.state = RUNNING if self.state == STUCK else self.state

    def settle(self, mended: bool) -> None:
        """Apply what has arrived, until the run waits for its callers."""
        if self.state == SUSPENDED and self.has_begun and self.execution.op == ("step",) and STEP not in self.inbox:
            self.inbox.append(STEP)
        if self.state != RUNNING and not (self.state == STUCK and mended):
            return
        rested, received = dict(self.replies), len(self.received)
        while self.state == RUNNING or (self.state == STUCK and mended):
            self.state, self.has_begun = RUNNING, True
            self._advance(mended)
            if self.state != RUNNING:
                break
            if self.inbox:
                self._apply(self.inbox.pop(0))
            elif self.execution.op == ("step",):
                self.execution.at += 1
            else:
                break
        self.unsure = {key for key in self.replies if key not in rested} if self.state == STUCK else set()
        self.gives_back = False
        self.stuck_by_message = self.state == STUCK and len(self.received) != received

    def has_enough(self) -> bool:
        """Return whether the run has received as many updates without an answer as it may have."""
        return sum(each.key in self.counted for each in self.unanswered()) >= UPDATES_MAX

    def has_room(self, event: Message) -> bool:
        """Return whether the code waits for an event, or the run keeps fewer than it may."""
        kept = sum(each.kind == "event" for each in self.execution.kept)
        return (event.kind, event.name) in self.execution.awaited() or kept < EVENTS_MAX

    unsure: set[Id] = field(default_factory=set)
    """Updates whose answers are sent once a stuck run continues, or have been sent before it was stuck."""
    stuck_by_message: bool = False
    """Whether the run may be stuck because of a message, before which a cancel comes."""
    is_last_turn_open: bool = False
    """Whether the run was ended while it was stuck: its progress is that of an earlier turn."""
    gives_back: bool = False
    """Whether a retry gives messages back, and has not yet: it does so before it reads the mailbox."""

    def _apply(self, message: Message) -> None:
        if message.kind == "cancel":
            self.state = CANCELLED
            return
        if message == STEP:
            self.execution.at += 1
            return
        if message.kind == "update" and message.key not in self.counted and self.has_enough():
            self.replies[message.key] = TOO_MANY
            return
        if message.kind == "event" and message.key not in self.counted and not self.has_room(message):
            self.replies[message.key] = TOO_MANY_EVENTS
            return
        self.counted.add(message.key)
        self.received.append(message)
        self.execution.kept.append(message)

    def _advance(self, mended: bool) -> None:
        while self.state == RUNNING and self._move(mended):
            pass

    def _move(self, mended: bool) -> bool:
        """Do the next operation; return False if it waits."""
        code = self.execution
        match code.op:
            case ("update", name, *types):
                return self._receive([("update", name, *types)])
            case ("event", name):
                return self._receive([("event", name)])
            case ("first", update, event):
                return self._receive([("update", update), ("event", event)])
            case ("answer",):
                self._reply("answered")
            case ("refuse",):
                self._reply("refused")
            case ("step",):
                return False
            case ("again",):
                self._continue_as_new()
                return True
            case ("fail",):
                self.state = FAILED
            case ("break",) if not mended:
                self.state = FAILED
            case ("stick",) if not mended:
                self.state = STUCK
            case ("end",):
                self.state = COMPLETED
        code.at += self.state == RUNNING
        return True

    def _receive(self, waits: Sequence[tuple[str, ...]]) -> bool:
        code = self.execution
        for kind, name, *types in waits:
            for message in [each for each in code.kept if (each.kind, each.name) == (kind, name)]:
                code.kept.remove(message)
                if types and not isinstance(message.value, int):
                    self.replies.setdefault(message.key, "bad-argument")
                    continue
                if kind == "update":
                    code.held.append(message)
                code.trace.append(f"{kind} {name} {message.value}")
                code.at += 1
                return True
        return False

    def _reply(self, how: str) -> None:
        code = self.execution
        if code.held:
            message = code.held.pop(0)
            self.replies.setdefault(message.key, f"{how} {message.value} at {len(code.trace)}")

    def _continue_as_new(self) -> None:
        """An update without an answer is received by the next generation, and so is what the code did not wait for."""
        code = self.execution
        passed = {*map(id, code.kept), *map(id, code.held)}
        kept = [each for each in self.arrived if id(each) in passed]
        self.received = []
        self.execution = Execution(code.script[code.at + 1 :])
        cancels = sum(each.kind == "cancel" for each in self.inbox)
        self.inbox[cancels:cancels] = kept

    # --- what callers see ---

    def reply(self, key: Id) -> str:
        return self.replies.get(key) or (NOT_ANSWERED if self.has_ended else WAITS)

    def retry(self) -> None:
        """Run the code of the last generation from its beginning. It receives what had arrived before the end."""
        self.state, self.gives_back = RUNNING, bool(self.received)
        self.inbox, self.received = [*self.received, *self.inbox], []
        self.execution = Execution(self.execution.script)


class Refused(Exception):
    """A request is refused: its only argument is the slug of the problem."""


@dataclass
class Address:
    """All that callers see under one id: its runs, one after another."""

    run: Run | None = None
    sent: dict[Id, Message] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """The ids of updates to runs that have been removed."""
    is_mended: bool = False

    def send(self, message: Message, script: Script | None, if_exists: str) -> bool:
        """Return whether the message has started a run. Raises `Refused`."""
        if message.key in self.sent:
            if self.sent[message.key] != message:
                raise Refused("other-body")
            if self.run and self.run.replies.get(message.key) == TOO_MANY_EVENTS:
                raise Refused(TOO_MANY_EVENTS)
            return False
        starts = self._starts(script, if_exists)
        if starts:
            self.remove()
            assert script is not None
            self.run = Run(script)
            self.run.begin(self.is_mended)
        run = self._present()
        if message.kind == "update":
            if run.state == STUCK and len(run.unanswered()) + len(run.unsure) >= UPDATES_MAX:
                raise Open  # what its last turn has received and answered is not known
            if run.has_enough():
                raise Refused(TOO_MANY)
        run.put(message)
        self.sent[message.key] = message
        return starts

    def _starts(self, script: Script | None, if_exists: str) -> bool:
        if script is None:
            if self._present().has_ended:
                raise Refused("flow-ended")
            return False
        if self.run is None:
            return True
        if if_exists == REFUSE:
            raise Refused("run-exists")
        if if_exists == SAME and self.run.has_ended:
            raise Refused("flow-ended")
        return if_exists == REPLACE or (if_exists == REPLACE_ENDED and self.run.has_ended)

    def _present(self) -> Run:
        if self.run is None:
            raise Refused(NO_FLOW)
        return self.run

    def remove(self) -> None:
        """Remove the run with its updates and their answers: their ids are free for the next run."""
        self.run = None
        self.gone |= {id_ for kind, id_ in self.sent if kind == "update"}
        self.sent.clear()

    def act(self, kind: str) -> None:
        """Do what an operator asks for. Raises `Refused`, and `Open`."""
        run = self._present()
        if run.gives_back and kind in ("cancel", "terminate", "suspend"):
            raise Open
        match kind:
            case "cancel" if not run.has_ended:
                if run.stuck_by_message:
                    raise Open
                run.put(CANCEL)
            case "terminate" if not run.has_ended:
                if run.unsure:
                    raise Open
                run.is_last_turn_open = run.state == STUCK
                run.state = CANCELLED
            case "suspend":
                if run.has_ended:
                    raise Refused("flow-ended")
                if run.state == STUCK:
                    raise Open
                run.state = SUSPENDED
            case "resume" if run.state == SUSPENDED:
                run.state = RUNNING
            case "delete":
                if not run.has_ended and run.state != STUCK:
                    raise Refused("flow-running")
                self.remove()

    def mend(self) -> None:
        """Deploy code that is mended, and let the run continue with it."""
        self.is_mended = True
        if self.run and self.run.state == FAILED:
            self.run.retry()

    def settle(self) -> None:
        if self.run:
            self.run.settle(self.is_mended)

    def replies(self) -> Iterator[tuple[str, str]]:
        """Yield the id of each update and what its sender sees."""
        for kind, id_ in self.sent if self.run else ():
            if self.run and kind == "update":
                yield id_, self.run.reply((kind, id_))
        for id_ in self.gone:
            if ("update", id_) not in self.sent:
                yield id_, GONE if self.run else NO_FLOW
