"""The log of a run, applied to a model of flows that is not the driver (`flow_trees`): both must observe the same.

The entries of a log name commands by their paths, which the model does not have. So the program also runs over the
driver, entry by entry: both interpreters give each command the place of its operation in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import Context
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from signalbox.core.problems import Problem
from signalbox.flows.machine.driver import DUE_PATCH, Driver, Position
from signalbox.flows.machine.tree import CLOSES_MAX, innermost, is_open
from signalbox.flows.model.headers import CANCELLED, FlowHeader
from signalbox.flows.model.messages import Blank, Cancel, Event, Message, Result
from signalbox.mailboxes.model.outcomes import CallOutcome
from tests.simulation.reached_counts import LEFT_OPEN, MODELLED, REACHED
from tests.simulation.world import Violation
from tests.simulation.worlds.flow_trees.model import Model, ModelFlow
from tests.simulation.worlds.flow_trees.nodes import Open, Outcome
from tests.simulation.worlds.flows.interpreted_programs import FLOW, Code

UNKNOWN = "'patched'"
"""An operation whose outcome depends on the deployments that ran it, which the model does not have."""

Key = tuple[str, str]
"""The kind of a command and its label."""


@dataclass
class Placed(Code):
    """Code that knows the place of each operation in its program."""

    places: dict[int, int] = field(default_factory=dict)
    program: list[Any] = field(default_factory=list)

    async def _work(self, program: list[Any], total: int) -> Any:
        self.program = list(program)  # keeps the lists, by whose ids they are known
        self.places = {id(part): at for at, part in enumerate(lists_in(self.program))}
        return await super()._work(program, total)

    def _place(self, of: Any) -> str:
        return str(self.places[id(of)])


@dataclass
class Labelled(Placed):
    """Code over the library. It keeps the key of each command."""

    keys: dict[int, Key] = field(default_factory=dict)
    commands: list[Any] = field(default_factory=list)

    def key(self, command: Any) -> Key:
        """Return the key of a command. Only the undo of a cancelled run is a call without an operation."""
        return self.keys.get(id(command), (command.kind, "undo"))

    def _labelled(self, command: Any, kind: str, label: str) -> Any:
        self.commands.append(command)
        self.keys[id(command)] = kind, label
        return command

    def _command(self, operation: list[Any]) -> Any:
        kind, *parts = operation
        command = super()._command(operation)
        return self._labelled(command, kind, str(parts[0]) if kind == "event" else self._place(operation))

    def _lock(self, of: Any) -> Any:
        return self._labelled(super()._lock(of), "lock", self._place(of))

    def _renew(self, lease: Any, of: Any) -> Any:
        return self._labelled(super()._renew(lease, of), "renew", self._place(of))

    def _sleep(self, of: Any, seconds: float) -> Any:
        return self._labelled(super()._sleep(of, seconds), "sleep", self._place(of))


@dataclass
class Modelled(Placed):
    """Code over a model."""

    functions: Any = None

    @property
    def kit(self) -> Any:
        return self.functions

    def _named(self, kind: str, label: str) -> Any:
        return self.functions.command(kind, label)

    def _command(self, operation: list[Any]) -> Any:
        kind, *parts = operation
        return self._named(kind, str(parts[0]) if kind == "event" else self._place(operation))

    def _lock(self, of: Any) -> Any:
        return self._named("lock", self._place(of))

    def _renew(self, lease: Any, of: Any) -> Any:  # noqa: ARG002  as its base has it
        return lease.renew()

    def _sleep(self, of: Any, seconds: float) -> Any:  # noqa: ARG002  as its base has it
        return self._named("sleep", self._place(of))

    def _undo(self) -> Any:
        return self._named("step", "undo")

    def _cancel(self, handle: Any) -> None:
        self.functions.cancel(handle)

    def _is_done(self, handle: Any) -> bool:
        return bool(self.functions.done(handle))

    async def _refused(self, operation: list[Any]) -> Any:
        return await self._run(operation)


class Functions(ModelFlow):
    """The functions of a model, and those of `signalbox.flow` that no code waits for."""

    def send(self, _: Any) -> None: ...

    def label(self, _: str, __: str | None) -> None: ...

    def answer(self, _: str, __: Callable[..., Any]) -> None: ...

    def uuid(self) -> str:
        return ""

    def continue_as_new(self, **_: Any) -> str:
        return "continues as new"


def lists_in(value: Any) -> Iterator[list[Any]]:
    """Yield the lists in a program."""
    if isinstance(value, list):
        yield value
        for part in value:
            yield from lists_in(part)


class Comparison:
    """A run of the library and a run of the model, on one log."""

    def __init__(self, code: Code, header: FlowHeader, log: Sequence[Message]) -> None:
        self.header = header
        self.labelled = Labelled(code.revision, fixed=True, early=code.early, runs=code.runs, mixes_contexts=True)
        position = Position(header.execution_id, 1 + header.log.length, dict(header.patches))
        definition = self.labelled.flows.definitions[FLOW]
        self.driver = Driver(lambda: definition.begin(header.arguments), position)
        self.modelled = Modelled(code.revision, fixed=True, early=code.early, mixes_contexts=True)
        self.model = Model(self.begin_in_model, received=Outcome)
        self.modelled.functions = Functions(self.model)
        self.context = Context()
        self.is_due = DUE_PATCH in header.patches and any(isinstance(entry, Cancel) for entry in log[:1])
        self.log = log

    def begin_in_model(self, _: Model, __: int) -> Any:
        return self.modelled.flows.definitions[FLOW].begin(self.header.arguments)

    def run(self) -> None:
        """Apply the log to both, and compare them after each entry. Raises `Violation` and `Open`."""
        self.driver.start(self.header.start_at, self.log)
        self.context.run(self.model.start, is_due=self.is_due)
        self.compare("the start")
        for entry in self.log:
            apply = self.in_model(entry)
            self.driver.apply(entry)
            self.context.run(apply)
            self.compare(str(entry))
        end = self.header.end
        ended = self.model.ended
        is_cancelled = ended is not None and ended.is_cancelled
        if end and (is_cancelled != (end.state == CANCELLED) or (not is_cancelled and is_other(ended, end.outcome))):
            raise Violation(f"{self.header.address.base} ended with {end.outcome}, and a model with {self.model.ended}")

    def in_model(self, entry: Message) -> Callable[[], None]:
        """Return what applies an entry to the model."""
        match entry:
            case Event():
                return lambda: self.model.event(entry.name, entry.value)
            case Cancel():
                return self.model.cancel
            case Result():
                kind, label = self.labelled.key(self.driver.pending[entry.wait.path].command)
                outcome = Outcome(deepcopy(entry.outcome.result), entry.outcome.problem())
                return lambda: self.model.end(kind, label, outcome)
            case Blank():
                return lambda: None
        raise AssertionError(entry)

    def compare(self, after: str) -> None:
        """Raise `Violation` if the model does not observe what the library does."""
        driver, model = self.driver, self.model
        for what, theirs, ours in (
            ("ended with", shown_outcome(driver.ended), shown_outcome(model.ended)),
            *(() if driver.ended else self.waiting()),
        ):
            if theirs != ours:
                base = self.header.address.base
                raise Violation(f"{base} {what} {theirs} after {after}, and a model {ours}: {self.modelled.program}")

    def waiting(self) -> Iterator[tuple[str, Any, Any]]:
        driver, model = self.driver, self.model
        pending = sorted(self.labelled.key(each.command) for each in driver.pending.values())
        yield "waits for", pending, sorted(leaf.command.key for leaf in model.pending)
        kept: dict[str, list[Any]] = {}
        for name, value in model.kept:
            kept.setdefault(name, []).append(value)
        yield "keeps", {name: values for name, values in driver.kept.items() if values}, kept
        yield "holds so many locks:", len(driver.held), len(model.locks)

    def close(self) -> None:
        """Close the code of both."""
        self.driver.drop()
        for code in self.model.codes:
            self.context.run(close, code)


def close(code: Any) -> None:
    """Close a coroutine from the inside; its clean-up may wait."""
    for _ in range(CLOSES_MAX):
        if not is_open(code):
            return
        with suppress(BaseException):
            innermost(code).close()


def is_other(ended: Outcome | None, stored: CallOutcome) -> bool:
    return shown_outcome(ended) != shown_outcome(stored)


def shown_outcome(outcome: CallOutcome | Outcome | None) -> str:
    """Return how a run has ended, equal for the library and the model."""
    if outcome is None:
        return "nothing"
    error = outcome.exception() if isinstance(outcome, CallOutcome) else outcome.error
    if isinstance(error, Problem):
        return f"{type(error).__name__}: {error.detail}"
    return type(error).__name__ if error else f"{outcome.value}"


def check_by_model(code: Code, header: FlowHeader, log: Sequence[Message]) -> None:
    """Raise `Violation` if a model does not observe what the library does on the log of a run."""
    if UNKNOWN in str(header.arguments):
        return
    compared = Comparison(code, header, log)
    try:
        compared.run()
        REACHED[MODELLED] += 1
    except Open:
        REACHED[LEFT_OPEN] += 1
    finally:
        compared.close()
