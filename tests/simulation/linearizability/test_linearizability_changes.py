"""Semaphores are linearizable also if permits change, waits queue and are cancelled, and the semaphore is deleted.

As in `test_linearizability.py`, histories of the real operations by several callers are searched for an order in which
a semaphore that serves one caller at a time would have given the same answers. Here it has a wait queue, and the answer
of a wait in it is "waiting". The end of a lease grants its permit to the head of the queue. Additional permits are
granted at any later time, by a run of their own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import pytest

from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import Guard, Must, Ports, Put
from signalbox.core.problems import NotFound, Unavailable
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.semaphores import storage, sweep, tasks
from signalbox.semaphores.machine import settings as machine_settings
from signalbox.semaphores.machine import waits as machine_waits
from signalbox.semaphores.machine.decision_types import unchanged
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import RenewRequest, SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.linearizability.search import linearizable
from tests.simulation.world import EPOCH, Violation, World

SEEDS = 400
NAME = "s"
UNANSWERED = 10**9
ACQUIRED, WAITING, NO, MISSING, DONE = "acquired", "waiting", "no", "missing", "done"
LEASES = ("signal", "force", "renew")
PLAIN = ("acquire", "acquire", *LEASES, "put", "patch")
ALL = (*PLAIN, "wait", "wait", "cancel", "cancel", "delete")
PERMITS = (1, 1, 2, 3)


@dataclass(slots=True)
class Called:
    """One call: its operation, its wait or permits, when by the world's count of steps, and the answer, if known."""

    verb: str
    what: Any
    began: int
    answered: int = UNANSWERED
    answer: Any = None


@dataclass(frozen=True, slots=True)
class Model:
    """A semaphore that serves one caller at a time. `queued` are the waits that ever had a place in the queue."""

    permits: int = 1
    held: frozenset[str] = frozenset()
    queue: tuple[str, ...] = ()
    over: frozenset[str] = frozenset()
    cancelled: frozenset[str] = frozenset()
    queued: frozenset[str] = frozenset()

    def granted(self) -> "Model":
        """Return it when the head of the queue is granted a permit, if one is free."""
        if not self.queue or len(self.held) >= self.permits:
            return self
        return replace(self, held=self.held | {self.queue[0]}, queue=self.queue[1:])

    def without(self, wait: str) -> "Model":
        """Return it when a lease has ended."""
        return replace(self, held=self.held - {wait}, over=self.over | {wait}).granted()


State = Model | None
"""None if the semaphore does not exist."""


def answers(state: State, verb: str, what: Any) -> tuple[State, Any]:
    """Return the state that follows, and the answer."""
    if verb == "put":
        return (replace(state, permits=what) if state else Model(what)), DONE
    if state is None:
        return state, MISSING
    if verb == "patch":
        return replace(state, permits=what), DONE
    if verb == "delete":
        return None, DONE
    if verb == "cancel":
        return _cancelled(state, what)
    if verb in ("acquire", "wait"):
        return _waited(state, verb, what)
    if verb == "renew" or what not in state.held:
        return state, what in state.held
    return state.without(what), True


def _waited(state: Model, verb: str, wait: str) -> tuple[State, Any]:
    if wait in state.held:
        return state, ACQUIRED
    if wait in state.queue:
        return state, WAITING
    if wait in state.over | state.cancelled:
        return state, NO
    known = replace(state, queued=state.queued | {wait}) if verb == "wait" else state
    if not state.queue and len(state.held) < state.permits:
        return replace(known, held=state.held | {wait}), ACQUIRED
    return (replace(known, queue=(*state.queue, wait)), WAITING) if verb == "wait" else (state, NO)


def _cancelled(state: Model, wait: str) -> tuple[State, Any]:
    if wait not in state.queued:
        return state, MISSING
    if wait in state.queue:
        left = tuple(one for one in state.queue if one != wait)
        return replace(state, queue=left, cancelled=state.cancelled | {wait}), True
    if wait in state.held:
        return state.without(wait), True
    return state, wait in state.cancelled


def states_from(state: State) -> Iterator[State]:
    """Iterate over what a state can be by now: itself, and when more and more waits were granted."""
    yield state
    while state and (after := state.granted()) != state:
        yield (state := after)


def steps(state: State, call: Called) -> Iterator[tuple[State, bool]]:
    """Iterate over the states that a call may lead to with its answer."""
    for now in states_from(state):
        after, answer = answers(now, call.verb, call.what)
        if call.answer in (None, answer):
            yield after, True


def explained(history: Sequence[Called], first: State) -> bool:
    """Return whether such a semaphore explains a history."""
    return linearizable(history, first, steps, lambda call: call.answer is None)


@dataclass(slots=True)
class Callers:
    """A few callers of one semaphore that also end and cancel each other's leases. `deletions` have begun so far.

    If calls can fail, there are no continuations, because a second delivery would take their leases over, and no
    deletions, because one call could take effect both before and after.
    """

    seed: int
    world: World = field(init=False)
    history: list[Called] = field(default_factory=list)
    leases: dict[str, str] = field(default_factory=dict)
    waits: list[str] = field(default_factory=list)
    moment: int = 0
    deletions: int = 0

    def run(self) -> list[Called]:
        self.world = World(self.seed)
        random = self.world.random
        faulty = random.random() < 0.3
        self.world.fault_rates = FaultRates(left=3 if faulty else 0)
        self.world.task_handlers |= {"user": self._continue, "semaphore_admit": _admit}
        settings.put(self.world.reliable_ports(), NAME, SemaphoreSettings(1, 3600))
        with replaced(guarded_attempts_max=50, rounds_max=50, claim_seconds=3600):
            verbs = PLAIN if faulty else ALL
            self.world.run([self._caller(index, verbs) for index in range(random.randint(2, 4))])
        return self.history

    def _caller(self, index: int, verbs: tuple[str, ...]) -> Callable[[], None]:
        return lambda: self.world.start(f"caller {index}", lambda: self._calls(index, verbs))

    def _calls(self, index: int, verbs: tuple[str, ...]) -> None:
        random = self.world.random
        for turn in range(random.randint(2, 4)):
            verb = random.choice(verbs)
            if verb in ("acquire", "wait"):
                self._call(verb, f"{verb} {index}-{random.choice((0, turn))} of {self.deletions}")
            elif verb in LEASES and self.leases:
                self._call(verb, random.choice(sorted(self.leases)))
            elif verb == "cancel" and self.waits:
                self._call(verb, random.choice(self.waits))
            elif verb in ("put", "patch", "delete"):
                self.deletions += verb == "delete"
                self._call(verb, None if verb == "delete" else random.choice(PERMITS))

    def _call(self, verb: str, what: Any) -> None:
        self.moment += 1
        called = Called(verb, what, self.moment)
        self.history.append(called)
        try:
            called.answer = self._answer(verb, what)
        except NotFound:
            called.answer = MISSING
        except Unavailable:
            return
        self.moment += 1
        called.answered = self.moment

    def _answer(self, verb: str, what: Any) -> Any:
        ports = self.world.ports
        match verb:
            case "put":
                settings.put(ports, NAME, SemaphoreSettings(what, 3600))
            case "patch":
                settings.patch(ports, NAME, SettingsPatch({"permits": what}))
            case "delete":
                sweep.delete(ports, NAME)
            case "signal":
                return leases.signal(ports, NAME, SignalRequest(self.leases[what]))
            case "force":
                return leases.end_by_hand(ports, NAME, SignalRequest(self.leases[what]), "stuck")
            case "renew":
                return leases.renew(ports, NAME, RenewRequest(self.leases[what])) is not None
            case "cancel":
                return waits.cancel(ports, NAME, what)
            case _:
                return self._wait(verb, what)
        return DONE

    def _wait(self, verb: str, wait: str) -> str:
        if verb == "wait":
            self.waits.append(wait)
        request = WaitRequest(wait, Call("user", "work", {"wait": wait}) if verb == "wait" else None)
        answer = waits.wait(self.world.ports, NAME, request)
        if answer.lease and verb == "acquire":
            self.leases[wait] = answer.lease.id
        return ACQUIRED if answer.lease else WAITING if answer.waiting else NO

    def _continue(self, ports: Ports, effect: Effect) -> None:
        if lease := leases.claim(ports, Granted.from_context(effect.context["lease"])):
            self.leases[effect.payload["wait"]] = lease.id


def _admit(ports: Ports, effect: Effect) -> None:
    tasks.TASKS[effect.task](ports, effect.payload)


def check(seed: int) -> None:
    history = Callers(seed).run()
    if not explained(history, Model()):
        raise Violation(f"seed {seed}: no order explains {history}")


def check_all() -> None:
    for seed in range(SEEDS):
        check(seed)


def test_every_history_has_an_order_that_explains_it() -> None:
    check_all()


@pytest.mark.parametrize(
    "history",
    [
        [Called("patch", 2, 1, 2, DONE), Called("acquire", "a", 3, 4, ACQUIRED), Called("acquire", "b", 5, 6, NO)],
        [Called("delete", None, 1, 2, DONE), Called("acquire", "a", 3, 4, ACQUIRED)],
        [
            *(Called("acquire", "a", 1, 2, ACQUIRED), Called("wait", "b", 3, 4, WAITING)),
            *(Called("signal", "a", 5, 6, True), Called("acquire", "c", 7, 8, ACQUIRED)),
        ],
        [
            *(Called("acquire", "a", 1, 2, ACQUIRED), Called("wait", "b", 3, 4, WAITING)),
            *(
                Called("cancel", "b", 5, 6, True),
                Called("signal", "a", 7, 8, True),
                Called("wait", "b", 9, 10, ACQUIRED),
            ),
        ],
    ],
)
def test_a_history_without_such_an_order_is_noticed(history: list[Called]) -> None:
    assert not explained(history, Model())


def _unguarded(path: str, data: dict[str, object], guard: Guard) -> Put:
    return Put(path, data, guard if isinstance(guard, Must) else None)


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        (storage, "Put", _unguarded),
        (leases, "renew", lambda *_: EPOCH),
        (leases, "end_by_hand", lambda *_: True),
        (machine_waits, "cancel", lambda *_: None),
        (sweep, "delete", lambda *_: None),
        (machine_settings, "change_settings", lambda loaded, _: unchanged(loaded, loaded.semaphore)),
    ],
)
def test_what_is_left_out_is_noticed(module: object, name: str, instead: Any) -> None:
    with mock.patch.object(module, name, instead), pytest.raises(Violation):
        check_all()
