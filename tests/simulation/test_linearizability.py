"""Acquire, signal and renew, called by several at once, look as if they had been called one after the other.

Histories of the real operations in simulated worlds, each call with the moment it began and the moment it was
answered, are searched for an order that a plain counter would have answered the same (Wing and Gong, 1993). A call
whose answer is not known may have taken effect at any later time, or never.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from unittest import mock

import pytest

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import RenewRequest, SemaphoreSettings, SignalRequest, WaitRequest
from tests.simulation.fault_rates import FaultRates
from tests.simulation.world import Violation, World

SEEDS = 400
NAME = "s"
UNANSWERED = 10**9


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


def linearizable(history: list[Called], permits: int) -> bool:
    """Search for an order of the calls that keeps who was answered before whom and explains every answer."""

    @cache
    def search(left: frozenset[int], state: State) -> bool:
        if all(history[index].answer is None for index in left):
            return True
        first_answer = min(history[index].answered for index in left)
        for index in left:
            call = history[index]
            if call.began > first_answer:
                continue
            after, answer = answers(state, call, permits)
            if call.answer in (None, answer) and search(left - {index}, after):
                return True
        return False

    return search(frozenset(range(len(history))), (frozenset(), frozenset()))


@dataclass(slots=True)
class Callers:
    """A few callers at one semaphore, who also signal and renew each other's leases."""

    seed: int
    permits: int = 1
    world: World = field(init=False)
    history: list[Called] = field(default_factory=list)
    leases: dict[str, str] = field(default_factory=dict)
    moment: int = 0

    def run(self) -> list[Called]:
        self.world = World(self.seed, FaultRates(left=3))
        random = self.world.random
        self.permits = random.choice((1, 2))
        semaphores.put(self.world.reliable_ports(), NAME, SemaphoreSettings(self.permits, 3600))
        with LIMITS.replaced(guarded_attempts_max=50):
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
            return semaphores.signal(ports, NAME, SignalRequest(self.leases[wait]))
        if verb == "renew":
            return semaphores.renew(ports, NAME, RenewRequest(self.leases[wait])) is not None
        answer = semaphores.wait(ports, NAME, WaitRequest(wait))
        if answer.lease:
            self.leases[wait] = answer.lease.id
        return answer.acquired


def check(seed: int) -> None:
    callers = Callers(seed)
    history = callers.run()
    if not linearizable(history, callers.permits):
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
    assert not linearizable(history, permits)


def test_an_unguarded_commit_is_noticed() -> None:
    from shared.core.operations.ports import Put
    from shared.semaphores.operations import transitions

    def unguarded(path: str, data: dict[str, object], _: object) -> Put:
        return Put(path, data)

    with mock.patch.object(transitions, "Put", unguarded), pytest.raises(Violation):
        check_all()
