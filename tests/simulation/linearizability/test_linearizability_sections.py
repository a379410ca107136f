"""Calls and reads of a critical section, and the starts and ends of its runs, are linearizable.

The histories are of the real operations in simulated worlds: each call with the moments when it began and was answered.
Each history is searched for an order in which a plain section would have given the same answers, and the same items to
the same runs (Wing and Gong, 1993). A call without a known answer may take effect at any later time, or never.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import pytest

from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports, Put
from signalbox.core.problems import NotFound
from signalbox.critical_sections import service
from signalbox.critical_sections.machine import debounce, transitions
from signalbox.critical_sections.model import Grant, SectionRun
from signalbox.critical_sections.requests import SectionRequest
from tests.simulation.fault_rates import FaultRates
from tests.simulation.linearizability.search import linearizable
from tests.simulation.world import Violation, World

SEEDS = 400
KEY = "k"
UNANSWERED = 10**9
LEASE_SECONDS = 20.0
Items = tuple[int, ...]


@dataclass(slots=True)
class Called:
    """One call: the request, its times by the world's count of steps, and the answer (None: not known).

    ``call`` has its one item. ``begin`` and ``end`` are of the run with these items, by a delivery of its task.
    ``get`` is answered whether something runs, and whether something is due. An end that is not known to be this
    delivery's may be: the answer of its commit was lost.
    """

    verb: str
    items: Items
    began: int
    answered: int = UNANSWERED
    answer: Any = None
    delivery: int = 0


@dataclass(frozen=True, slots=True)
class Plain:
    """A section that serves one caller at a time: the run, the delivery that began it last, the next, all calls."""

    run: Items = ()
    holder: int = 0
    next: Items = ()
    calls: Items = ()

    def after(self, called: Called) -> tuple["Plain", Any]:
        """Return the state after a call, and its answer."""
        if called.verb == "call":
            return self._called(called.items)
        if called.verb == "get":
            return self, (bool(self.run), bool(self.next)) if self.calls else (False, False)
        if called.items != self.run:
            return self, False
        if called.verb == "begin":
            return replace(self, holder=called.delivery), True
        if called.delivery != self.holder:
            return self, False
        return replace(self, run=self.next, holder=0, next=()), True

    def _called(self, items: Items) -> tuple["Plain", bool]:
        """Take a call into the next run, once; that is granted at once if nothing runs."""
        if items[0] in self.calls:
            return self, not self.next
        calls = tuple(sorted(self.calls + items))
        if not self.run:
            return replace(self, run=items, holder=0, calls=calls), True
        return replace(self, next=self.next + items, calls=calls), False


def steps(section: Plain, called: Called) -> Iterator[tuple[Plain, bool]]:
    """Iterate over the sections that a call may lead to with its answer.

    A call whose commit's answer was lost is decided again, as a repeat is.
    """
    after, answer = section.after(called)
    if called.answer in (None, answer):
        yield after, True
    if called.verb == "call" and after != section:
        yield after, False


def explained(history: Sequence[Called]) -> bool:
    """Return whether such a section explains a history."""
    return linearizable(history, Plain(), steps, lambda called: called.answer is None)


@dataclass(slots=True)
class Callers:
    """A few callers of one key that repeat some calls and read it, and the task, which is also delivered twice."""

    seed: int
    world: World = field(init=False)
    history: list[Called] = field(default_factory=list)
    moment: int = 0
    deliveries: int = 0

    def run(self) -> list[Called]:
        self.world = World(self.seed, FaultRates(kill=0, duplicate=0.3, left=4))
        self.world.time_jumps = (LEASE_SECONDS + 5,)
        self.world.task_handlers["job"] = self._job
        random = self.world.random
        acts = [self._caller(number) for number in range(1, random.randint(3, 5))]
        self.world.run([*acts, *random.choices(acts, k=1), self._looker, self._looker])
        self.world.fault_rates.left = 0
        self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
        self.world.start("sweep", self._sweep)
        self.world.run()
        return self.history

    def _sweep(self) -> None:
        outbox.sweep(self.world.ports)

    def _caller(self, number: int) -> Callable[[], None]:
        call = Call("job", "job", {"items": [number]})
        request = SectionRequest(call, collect="items", lease_seconds=LEASE_SECONDS, id=f"call {number}")

        def act() -> None:
            self._call("call", (number,), lambda: service.call(self.world.ports, KEY, request))

        return lambda: self.world.start(f"call {number}", act)

    def _looker(self) -> None:
        self.world.start("get", lambda: self._call("get", (), self._look))

    def _look(self) -> tuple[bool, bool]:
        try:
            shown = service.get(self.world.ports, KEY)
        except NotFound:
            return False, False
        return shown.run is not None, shown.next is not None

    def _job(self, ports: Ports, effect: Effect) -> None:
        self.deliveries += 1
        items, delivery = tuple(effect.payload["items"]), self.deliveries
        runs: list[SectionRun] = []

        def begin() -> bool:
            runs.extend(filter(None, [service.claim(ports, Grant.from_context(effect.context["section"]))]))
            return bool(runs)

        self.world.time_jumps_left += 1  # a queue waits before it retries
        if self._call("begin", items, begin, delivery):
            self._call("end", items, lambda: service.end(ports, runs[0]) or None, delivery)
        self.world.time_jumps_left -= 1

    def _call(self, verb: str, items: Items, act: Callable[[], Any], delivery: int = 0) -> Any:
        self.moment += 1
        called = Called(verb, items, self.moment, delivery=delivery)
        self.history.append(called)
        answer = act()
        self.moment += 1
        called.answer, called.answered = answer, self.moment
        return answer


def check(seed: int) -> None:
    history = Callers(seed).run()
    if not explained(history):
        raise Violation(f"seed {seed}: no order explains {history}")


def check_all() -> None:
    for seed in range(SEEDS):
        check(seed)


def test_every_history_has_an_order_that_explains_it() -> None:
    check_all()


@pytest.mark.parametrize(
    "history",
    [
        [Called("call", (1,), 1, 2, False)],
        [Called("call", (1,), 1, 2, True), Called("call", (2,), 3, 4, True)],
        [Called("call", (1,), 1, 2, True), Called("end", (1,), 3, 4, True, 1)],
        [Called("call", (1,), 1, 2, True), Called("get", (), 3, 4, (False, False))],
        [
            Called("call", (1,), 1, 2, True),
            Called("call", (2,), 3, 4, False),
            Called("call", (3,), 5, 6, False),
            Called("begin", (1,), 7, 8, True, 1),
            Called("end", (1,), 9, 10, True, 1),
            Called("begin", (3, 2), 11, 12, True, 2),
        ],
        [
            Called("call", (1,), 1, 2, True),
            Called("begin", (1,), 3, 4, True, 1),
            Called("begin", (1,), 5, 6, True, 2),
            Called("end", (1,), 7, 8, True, 1),
        ],
    ],
)
def test_a_history_without_such_an_order_is_noticed(history: list[Called]) -> None:
    assert not explained(history)


def _unguarded(path: str, data: dict[str, object], _: object) -> Put:
    return Put(path, data)


def _the_last_first(call: Call, argument: str, items: list[Any]) -> Call:
    return replace(call, payload={**call.payload, argument: [*call.payload[argument], *items]})


def _granted_to_all(*called: Any) -> transitions.Decided:
    return replace(rule_of_a_call(*called), answer=True)


rule_of_a_call = transitions.call


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        (service, "Put", _unguarded),
        (debounce, "_concatenate", _the_last_first),
        (transitions, "call", _granted_to_all),
    ],
)
def test_what_is_left_out_is_noticed(module: object, name: str, instead: Any) -> None:
    with mock.patch.object(module, name, instead), pytest.raises(Violation, match="no order explains"):
        check_all()
