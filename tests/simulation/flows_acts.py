"""What people do with the flows of a simulated world: start them, post events, cancel, delete and start again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from shared.core.rules.calls import Call
from shared.core.rules.problems import FlowEnded, FlowRunning, NoFlow, OtherBody
from shared.flows.operations import posts, removal, starts
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.definitions import Flows
from tests.simulation.flows_kinds import Kind, program
from tests.simulation.flows_program import FUNCTION
from tests.simulation.reach import REACHED, STARTED_AGAIN
from tests.simulation.world import World

EVENTS_MAX = 4
CANCELLED_SHARE = 0.15


@dataclass(slots=True)
class Act:
    """What somebody does until it is answered, or a dozen times."""

    name: str
    work: Callable[[], bool]
    repeats: int = 0


@dataclass(frozen=True, slots=True)
class People:
    """The people of a world. `starting` returns the deployment that starts flows."""

    world: World
    kind: Kind
    starting: Callable[[], Flows]

    def acts_of(self, address: FlowAddress) -> list[Act]:
        """Return what people do with a flow; its start is first."""
        random = self.world.random
        what = program(random, self.kind)
        acts = [Act(f"start {address.id}", lambda: self._start(address, what))]
        for number in range(random.randint(0, EVENTS_MAX)):
            name, id_ = random.choice("xxy"), f"{address.id}-{number}"
            acts.append(Act(f"event {name} {id_}", partial(self._event, address, name, id_)))
        if random.random() < CANCELLED_SHARE:
            acts.append(Act(f"cancel {address.id}", lambda: self.cancel(address)))
        if self.kind is Kind.RESTARTED:
            other = program(random, self.kind)
            acts.append(Act(f"restart {address.id}", lambda: self._restart(address, other)))
        return [acts[0], *random.sample(acts[1:], len(acts) - 1)]

    def _start(self, address: FlowAddress, what: list[Any]) -> bool:
        told = Call(FUNCTION, "told", {})
        try:
            starts.start(self.world.ports, self.starting(), FUNCTION, address, {"program": what}, told)
        except OtherBody:
            self.world.log("another one has this id")
        return True

    def _event(self, address: FlowAddress, name: str, id_: str) -> bool:
        try:
            posts.post_event(self.world.ports, address, name, id_, id_)
        except NoFlow:
            return False
        except FlowEnded:
            return True
        return True

    def cancel(self, address: FlowAddress) -> bool:
        """Cancel a flow; return whether there is one."""
        try:
            posts.cancel(self.world.ports, address)
        except NoFlow:
            return False
        return True

    def _restart(self, address: FlowAddress, what: list[Any]) -> bool:
        try:
            removal.delete(self.world.ports, address)
        except FlowRunning:
            return False
        except NoFlow:
            self.world.log("there is none")
        REACHED[STARTED_AGAIN] += 1
        return self._start(address, what)
