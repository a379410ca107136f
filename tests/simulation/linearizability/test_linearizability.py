"""Acquire, signal and renew, called by several at once, look as if they had been called one after the other.

Histories of the real operations in simulated worlds, each call with the moment it began and the moment it was
answered, are searched for an order that a plain counter would have answered the same (Wing and Gong, 1993). A call
whose answer is not known may have taken effect at any later time, or never.

In some worlds a signal that loses a race leaves its release for an admit run. The lease has ended then, and its permit
is free at any later time: until then an acquire may be refused.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest import mock

import pytest

from signalbox.core.effects import Effect
from signalbox.core.ports import Guard, Must, Ports, Put
from signalbox.core.problems import Unavailable
from signalbox.semaphores import storage, tasks
from signalbox.semaphores.machine import leases as machine
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import RenewRequest, SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.linearizability.search import linearizable
from tests.simulation.world import Violation, World

SEEDS = 400
NAME = "s"
UNANSWERED = 10**9
LEAVING_SHARE = 0.4


@dataclass(slots=True)
class Called:
    """One call: its operation, its wait, when by the world's count of steps, and the answer (None: not known)."""

    verb: str
    wait: str
    began: int
    answered: int = UNANSWERED
    answer: bool | None = None


State = tuple[frozenset[str], frozenset[str]]
"""The waits that hold a permit, and those that ever did."""


def answers(state: State, call: Called, permits: int) -> tuple[State, bool]:
    """Return the state and the answer of a semaphore that serves one caller at a time; a wait acquires once."""
    held, known = state
    if call.verb == "acquire":
        if call.wait in known:
            return state, call.wait in held
        if len(held) >= permits:
            return state, False
        return (held | {call.wait}, known | {call.wait}), True
    if call.verb == "signal":
        return (held - {call.wait}, known), call.wait in held
    return state, call.wait in held


def explained(history: Sequence[Called], permits: int, *, leaving: bool = False) -> bool:
    """Return whether such a semaphore explains a history. With `leaving`, the permit of a signal is free later."""

    def steps(state: State, call: Called) -> Iterator[tuple[State, bool]]:
        after, answer = answers(state, call, permits)
        if call.answer in (None, answer):
            yield after, True
        elif leaving and call.verb == "acquire" and call.wait not in state[1]:
            yield state, True

    unused: State = (frozenset(), frozenset())
    return linearizable(history, unused, steps, lambda call: call.answer is None)


@dataclass(slots=True)
class Callers:
    """A few callers of one semaphore that also signal and renew each other's leases."""

    seed: int
    permits: int = 1
    world: World = field(init=False)
    history: list[Called] = field(default_factory=list)
    leases: dict[str, str] = field(default_factory=dict)
    moment: int = 0
    leaving: bool = False

    def run(self) -> list[Called]:
        self.world = World(self.seed, FaultRates(left=3))
        random = self.world.random
        self.permits = random.choice((1, 2))
        settings.put(self.world.reliable_ports(), NAME, SemaphoreSettings(self.permits, 3600))
        self.world.task_handlers["semaphore_admit"] = _admit
        self.leaving = Random(f"leaving {self.seed}").random() < LEAVING_SHARE
        with replaced(guarded_attempts_max=1 if self.leaving else 50):
            self.world.run([self._caller(index) for index in range(random.randint(2, 4))])
        return self.history

    def _caller(self, index: int) -> Callable[[], None]:
        return lambda: self.world.start(f"caller {index}", lambda: self._calls(index))

    def _calls(self, index: int) -> None:
        random = self.world.random
        for turn in range(random.randint(1, 4)):
            if not self.leases or random.random() < 0.5:
                self._call("acquire", f"w{index}-{random.choice((0, turn))}")
            else:
                self._call(random.choice(("signal", "renew")), random.choice(sorted(self.leases)))

    def _call(self, verb: str, wait: str) -> None:
        self.moment += 1
        called = Called(verb, wait, self.moment)
        self.history.append(called)
        try:
            called.answer = self._answer(verb, wait)
        except Unavailable:
            return
        self.moment += 1
        called.answered = self.moment

    def _answer(self, verb: str, wait: str) -> bool:
        ports = self.world.ports
        if verb == "signal":
            return leases.signal(ports, NAME, SignalRequest(self.leases[wait]))
        if verb == "renew":
            return leases.renew(ports, NAME, RenewRequest(self.leases[wait])) is not None
        answer = waits.wait(ports, NAME, WaitRequest(wait))
        if answer.lease:
            self.leases[wait] = answer.lease.id
        return answer.acquired


def _admit(ports: Ports, effect: Effect) -> None:
    tasks.TASKS[effect.task](ports, effect.payload)


def check(seed: int) -> None:
    callers = Callers(seed)
    history = callers.run()
    if not explained(history, callers.permits, leaving=callers.leaving):
        raise Violation(f"seed {seed}: no order explains {history}")


def check_all() -> None:
    for seed in range(SEEDS):
        check(seed)


def test_every_history_has_an_order_that_explains_it() -> None:
    check_all()


@pytest.mark.parametrize(
    ("permits", "history"),
    [
        (1, [Called("acquire", "a", 1, 2, True), Called("acquire", "b", 3, 4, True)]),
        (1, [Called("acquire", "a", 1, 2, True), Called("signal", "a", 3, 4, True), Called("signal", "a", 5, 6, True)]),
        (1, [Called("acquire", "a", 1, 2, False)]),
        (2, [Called("acquire", "a", 1, 4, True), Called("signal", "a", 2, 3, True), Called("renew", "a", 5, 6, True)]),
    ],
)
def test_a_history_without_such_an_order_is_noticed(permits: int, history: list[Called]) -> None:
    assert not explained(history, permits)


def test_an_unguarded_commit_is_noticed() -> None:
    def unguarded(path: str, data: dict[str, object], guard: Guard) -> Put:
        return Put(path, data, guard if isinstance(guard, Must) else None)

    with mock.patch.object(storage, "Put", unguarded), pytest.raises(Violation):
        check_all()


@pytest.mark.parametrize("rule", ["renew", "end_lease"])
def test_a_command_that_does_not_look_for_a_left_release_is_noticed(rule: str) -> None:
    decide = getattr(machine, rule)

    def hasty(*call: Any, **options: Any) -> Any:
        return replace(decide(*call, **options), unreleased=())

    with mock.patch.object(machine, rule, hasty), pytest.raises(Violation):
        check_all()
