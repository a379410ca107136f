"""What people do with the flows of a simulated world: start them, post events, cancel, delete and start again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import Store, Write
from signalbox.core.problems import OtherBody
from signalbox.flows import sweep
from signalbox.flows.machine.callbacks import Callback
from signalbox.flows.machine.queries import Answer
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.problems import (
    CannotFork,
    CannotQuery,
    FlowEnded,
    FlowRunning,
    NoCallback,
    NoFlow,
    NotArchived,
    TooManyEvents,
)
from signalbox.flows.service import messages, queries, reads, starts, suspensions
from signalbox.mailboxes.model.messages import header_path
from tests.simulation.reached_counts import CALLBACKS_LATE, FORKED, QUERIED, REACHED, STARTED_AGAIN
from tests.simulation.world import Violation, World
from tests.simulation.worlds.flows.interpreted_programs import FUNCTION
from tests.simulation.worlds.flows.kinds import Kind, program

EVENTS_MAX = 4
CANCELLED_SHARE = 0.15
CANCELLED_OFTEN = 0.5
OFTEN_CANCELLED = (Kind.NESTED, Kind.INLINE, Kind.COMPOSED)
TERMINATED_SHARE, RESUMED_SHARE, RESTARTED_SHARE = 0.35, 0.2, 0.35
TERMINATED = "terminated by people"
VISITS_MAX = 3
NEVER = 2**40
"""The expiry of a callback, later than any world."""


@dataclass(slots=True)
class Act:
    """An action that a person repeats until it is answered, at most a dozen times."""

    name: str
    work: Callable[[], bool]
    repeats: int = 0


@dataclass(slots=True)
class Visitor:
    """A person with the address of a callback, who uses it some times.

    The address is that of the run that a visitor finds first. `header` returns the run that an id has now, and
    `has_landed` says whether its mailbox has an event of an id or the receipt.
    """

    world: World
    address: FlowAddress
    event: str
    name: str
    header: Callable[[FlowAddress], FlowHeader | None]
    has_landed: Callable[[FlowAddress, str], bool]
    left: int = VISITS_MAX
    callback: Callback | None = None

    def visit(self) -> bool:
        """Use the address once; return whether that was the last time."""
        now = self.header(self.address)
        if self.callback is None and now is None:
            return False
        if self.callback is None and now is not None:
            parts = FUNCTION, self.address.name, self.address.key, now.incarnation, self.event, NEVER
            self.callback = Callback(*parts, operation=self.name)
        assert self.callback is not None, "the flow has been seen"
        self._use(self.callback, now)
        self.left -= 1
        return self.left <= 0

    def _use(self, callback: Callback, now: FlowHeader | None) -> None:
        is_late = now is None or now.incarnation != callback.incarnation
        REACHED[CALLBACKS_LATE] += is_late
        try:
            messages.post_callback(self.world.ports, callback, self.name)
        except NoCallback:
            return
        except (FlowEnded, TooManyEvents) as refused:
            if self.has_landed(self.address, self.name):
                detail = f"the callback {self.name} of {self.address.base} was accepted, and then {refused.detail}"
                raise Violation(detail) from None
            return
        if is_late:
            raise Violation(f"the callback {self.name} was accepted, and {self.address.base} is another run now")


class OnlyReads:
    """A store, and a queue, for what must not act."""

    def __init__(self, store: Store) -> None:
        self.read, self.read_some = store.read, store.read_some
        self.query, self.count, self.new_id = store.query, store.count, store.new_id

    def commit(self, writes: Sequence[Write]) -> Any:
        raise Violation(f"a query has written {writes}")

    write_each = commit

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        raise Violation(f"a query has enqueued {effects}")


@dataclass(frozen=True, slots=True)
class People:
    """The people of a world. `starting` returns the deployment that starts flows.

    `has_landed` says whether an event was accepted: then no repeat of it may be refused. `sub_flow` returns one that
    runs, if there is one. `timeouts` are the time-outs of starts, by the id of the run. `answers` are those of queries,
    each with its number of entries, by the run and its execution.
    """

    world: World
    kind: Kind
    starting: Callable[[], Flows]
    has_landed: Callable[[FlowAddress, str], bool] = lambda _, __: False
    sub_flow: Callable[[], FlowAddress | None] = lambda: None
    timeouts: dict[str, float] = field(default_factory=dict)
    answers: dict[tuple[str, str], list[tuple[int, list[Any]]]] = field(default_factory=dict)

    def acts_of(self, address: FlowAddress) -> list[Act]:
        """Return the actions of people on a flow; the start is first."""
        random = self.world.random
        what = program(random, self.kind)
        acts = [Act(f"start {address.key}", lambda: self._start(address, what))]
        for number in range(random.randint(0, EVENTS_MAX)):
            name, id_ = random.choice("xxy"), f"{address.key}-{number}"
            acts.append(Act(f"event {name} {id_}", partial(self._event, address, name, id_)))
        if random.random() < (CANCELLED_OFTEN if self.kind in OFTEN_CANCELLED else CANCELLED_SHARE):
            acts.append(Act(f"cancel {address.key}", lambda: self.cancel(address)))
        if self.kind is Kind.RESTARTED:
            other = program(random, self.kind)
            acts.append(Act(f"restart {address.key}", lambda: self._restart(address, other)))
        return [acts[0], *random.sample(acts[1:], len(acts) - 1)]

    def restart_of(self, address: FlowAddress, random: Random) -> Act:
        """Return one more removal and start under the id of a flow, next to others."""
        what = program(random, self.kind)
        return Act(f"restart {address.key} again", lambda: self._restart(address, what))

    def _start(self, address: FlowAddress, what: list[Any]) -> bool:
        told = Call(FUNCTION, "told", {})
        seconds, start = self.timeouts.get(address.key), starts.start
        if seconds is not None:  # the last release has no such argument
            start = partial(start, timeout_seconds=seconds)
        try:
            start(self.world.ports, self.starting(), FUNCTION, address, {"program": what}, told)
        except OtherBody:
            self.world.log("another one has this id")
        return True

    def _event(self, address: FlowAddress, name: str, id_: str) -> bool:
        try:
            messages.post_event(self.world.ports, address, name, id_, id_)
        except NoFlow:
            return False
        except (FlowEnded, TooManyEvents) as refused:
            if self.has_landed(address, id_):
                raise Violation(f"the event {id_} of {address.base} was accepted, and then {refused.detail}") from None
        return True

    def cancel(self, address: FlowAddress) -> bool:
        """Cancel a flow; return whether there is one."""
        try:
            messages.cancel(self.world.ports, address)
        except NoFlow:
            return False
        return True

    def messages_to(self, address: FlowAddress, random: Random) -> list[Act]:
        """Return a few events for a flow, and perhaps a cancel."""
        names = [(random.choice("xxy"), f"{address.key}-{number}") for number in range(random.randint(0, EVENTS_MAX))]
        acts = [Act(f"event {name} {id_}", partial(self._event, address, name, id_)) for name, id_ in names]
        if random.random() < CANCELLED_SHARE:
            acts.append(Act(f"cancel {address.key}", partial(self.cancel, address)))
        return acts

    def more_acts_of(self, address: FlowAddress, random: Random) -> list[Act]:
        """Return further actions of people on a flow: cancel it twice, end it, wake it, or start it again."""
        acts = []
        if random.random() < CANCELLED_SHARE:
            acts += [Act(f"cancel {address.key} {number}", partial(self.cancel, address)) for number in range(2)]
        if random.random() < TERMINATED_SHARE:
            acts.append(self.termination_of(address))
            acts.append(Act("terminate a sub-flow", self._terminate_sub_flow))
        if random.random() < RESUMED_SHARE:
            acts.append(self.resumption_of(address))
        if random.random() < RESTARTED_SHARE:
            acts += [self.restart_of(address, random) for _ in range(random.choice((1, 2, 3)))]
        if random.random() < RESTARTED_SHARE:
            what = program(random, self.kind)
            acts.append(Act(f"end and restart {address.key}", lambda: self._end_and_restart(address, what)))
        return acts

    def termination_of(self, address: FlowAddress) -> Act:
        """Return the termination of a flow."""
        return Act(f"terminate {address.key}", partial(self._terminate, address))

    def suspension_of(self, address: FlowAddress) -> Act:
        """Return the suspension of a flow that runs."""
        return Act(f"suspend {address.key}", partial(self._suspend, address))

    def _suspend(self, address: FlowAddress) -> bool:
        try:
            suspensions.suspend(self.world.ports, address, "by people")
        except NoFlow:
            return False
        except FlowEnded:
            pass
        return True

    def resumption_of(self, address: FlowAddress) -> Act:
        """Return the resumption of a flow."""
        return Act(f"resume {address.key}", partial(self._resume, address))

    def fork_of(self, address: FlowAddress, id_: str, share: float) -> Act:
        """Return a fork of a flow after a share of its log, at the time of the act."""
        return Act(f"fork {address.key} as {id_}", partial(self._fork, address, id_, share))

    def _fork(self, address: FlowAddress, id_: str, share: float) -> bool:
        try:
            entries = reads.get(self.world.ports, address).log.length
            wanted = starts.Fork(id_, round(share * entries), labels={"fork": id_})
            REACHED[FORKED] += starts.fork(self.world.ports, self.starting(), address, wanted).created
        except NoFlow:
            return False
        except (CannotFork, OtherBody) as refused:
            self.world.log(refused.detail)
            return True
        [read] = self.world.store.read(header_path(FlowAddress(address.name, id_).base))
        if read.data is None:
            raise Violation(f"the fork {id_} was answered, and there is none")
        return True

    def query_of(self, address: FlowAddress) -> Act:
        """Return a query of a flow."""
        return Act(f"query {address.key}", partial(self._query, address))

    def _query(self, address: FlowAddress) -> bool:
        """Query what the code has seen, which only grows, and what acts, which is refused. Neither writes."""
        only_reads = OnlyReads(self.world.ports.store)
        ports = replace(self.world.ports, store=only_reads, queue=only_reads)
        try:
            before, answer = reads.get(ports, address), queries.query(ports, self.starting(), address, "seen", {})
            if before.execution_id == reads.get(ports, address).execution_id:
                self._compare(address, before.execution_id, answer)
        except NoFlow:
            return False
        except CannotQuery as refused:
            self.world.log(refused.detail)
            return True
        with suppress(NoFlow, CannotQuery):
            queries.query(ports, self.starting(), address, "acts", {})
            raise Violation(f"a query of {address.base} has acted")
        return True

    def _compare(self, address: FlowAddress, execution_id: str, answer: Answer) -> None:
        """Check that an answer from more entries continues one from fewer."""
        REACHED[QUERIED] += answer.entries > 0
        known = self.answers.setdefault((address.base, execution_id), [])
        known.append((answer.entries, answer.result))
        ordered = [seen for _, seen in sorted(known, key=lambda each: (each[0], len(each[1])))]
        if any(later[: len(earlier)] != earlier for earlier, later in pairwise(ordered)):
            raise Violation(f"{address.base} has answered {ordered}")

    def removal_of(self, address: FlowAddress) -> Act:
        """Return the removal of a flow that has ended, whose id is free then."""
        return Act(f"remove {address.key}", partial(self._remove, address))

    def _remove(self, address: FlowAddress) -> bool:
        try:
            sweep.delete(self.world.ports, address)
        except (FlowRunning, NotArchived, NoFlow):
            return False
        return True

    def _end_and_restart(self, address: FlowAddress, what: list[Any]) -> bool:
        return self._terminate(address) and self._restart(address, what)

    def _terminate(self, address: FlowAddress) -> bool:
        try:
            sweep.terminate(self.world.ports, address, TERMINATED)
        except NoFlow:
            return False
        return True

    def _terminate_sub_flow(self) -> bool:
        address = self.sub_flow()
        return address is not None and self._terminate(address)

    def _resume(self, address: FlowAddress) -> bool:
        try:
            suspensions.resume(self.world.ports, address)
        except NoFlow:
            return False
        return True

    def _restart(self, address: FlowAddress, what: list[Any]) -> bool:
        try:
            sweep.delete(self.world.ports, address)
        except (FlowRunning, NotArchived):
            return False
        except NoFlow:
            self.world.log("there is none")
        REACHED[STARTED_AGAIN] += 1
        return self._start(address, what)
