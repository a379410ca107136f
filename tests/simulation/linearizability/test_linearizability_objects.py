"""Calls and deletions of an object, made by several at once, have the results of a plain Python object.

Histories of the real operations in simulated worlds, each call with the moment it began and the moment its result was
answered, are searched for an order that a plain object would have given the same results in (Wing and Gong, 1993). A
call that was posted may take effect at any time after it began. What did not land is no part of a history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from unittest import mock

import pytest

from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports, unlimited
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.wake_ups import WakeUp
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import Delivery, message_path
from signalbox.objects import model, service, storage
from signalbox.objects.machine.classes import ObjectClass
from signalbox.objects.model import CallRecord, deletion, method_call
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.faults.objects.mailbox import unguarded
from tests.simulation.linearizability.search import linearizable
from tests.simulation.world import Violation, World

SEEDS = 300
AMOUNTS = (1, 2, 5, -1)
UNANSWERED = 10**9
Result = int | str | None


class Counter:
    """What the histories are of; and, as a plain object, what explains them."""

    total: int = 0

    def add(self, amount: int) -> int:
        self.total += amount
        if amount < 0:
            raise Problem("Only upwards.")
        return self.total


COUNTER = ObjectClass.from_class(Counter)
ADDRESS = ObjectAddress("Counter", "a")


@dataclass(slots=True)
class Called:
    """One call: an amount to add (None: a deletion), when by the world's count of steps, and its result."""

    id: str
    amount: int | None
    began: int
    answered: int = UNANSWERED
    result: Result = None


def after(total: int, call: Called) -> tuple[int, Result]:
    """Return the total and the result of a call of a plain object, which is called by one at a time."""
    if call.amount is None:
        return 0, None
    plain = Counter()
    plain.total = total
    try:
        result = plain.add(call.amount)
    except Problem:
        return total, "error"
    return plain.total, result


def steps(total: int, call: Called) -> Iterator[tuple[int, bool]]:
    """Iterate over the totals that a call may lead to with its result."""
    next_total, result = after(total, call)
    if call.result == result:
        yield next_total, True


def explained(history: Sequence[Called]) -> bool:
    """Return whether a plain object explains a history. Each call was posted, and takes effect."""
    return linearizable(history, 0, steps, lambda _: False)


@dataclass(slots=True)
class Callers:
    """A few callers of one object; each calls it some times, and repeats nothing."""

    seed: int
    world: World = field(init=False)
    history: list[Called] = field(default_factory=list)
    deliveries: dict[str, int] = field(default_factory=dict)
    moment: int = 0

    def run(self) -> list[Called]:
        """Return the history of what landed, with all results."""
        self.world = World(self.seed, FaultRates(left=3))
        self.world.task_handlers["counters"] = self._turn
        self.world.step_microseconds_max = self.world.random.choice((300, 30_000))
        with replaced(mailbox_page=2):
            self.world.run([self._caller(index) for index in range(self.world.random.randint(2, 4))])
            self.world.fault_rates.left = 0
            for _ in range(3):
                self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
                self.world.start("sweep", lambda: _sweep(self.world.ports))
                self.world.run()
        return [call for call in self.history if self._has_result(call)]

    def _turn(self, ports: Ports, effect: Effect) -> None:
        before = self.deliveries.get(effect.name, 0)
        self.deliveries[effect.name] = before + 1
        service.run(ports, CODE, Delivery(WakeUp.from_payload(effect.payload), effect.name, before), unlimited)

    def _caller(self, index: int) -> Callable[[], None]:
        return lambda: self.world.start(f"caller {index}", lambda: self._calls(index))

    def _calls(self, index: int) -> None:
        random = self.world.random
        for number in range(random.randint(1, 3)):
            self._call(f"{index}-{number}", None if random.random() < 0.1 else random.choice(AMOUNTS))

    def _call(self, id_: str, amount: int | None) -> None:
        self.moment += 1
        called = Called(id_, amount, self.moment)
        self.history.append(called)
        try:
            answer = self._answer(called)
        except Unavailable:
            return
        self.moment += 1
        if answer.outcome is not None:
            called.answered = self.moment

    def _answer(self, called: Called) -> CallRecord:
        place = model.CallPlace(ADDRESS, called.id)
        message = deletion() if called.amount is None else method_call("add", {"amount": called.amount})
        if self.world.random.random() < 0.6:
            return service.call_at_once(self.world.ports, CODE, place, message)
        if self.world.random.random() < 0.6:
            answers = service.call_together(self.world.ports, CODE, ADDRESS, {called.id: message}, unlimited)
            if isinstance(answer := answers[called.id], Exception):
                raise answer
            return answer
        return service.post_call(self.world.ports, CODE.function_of, place, message)

    def _has_result(self, called: Called) -> bool:
        """Read the result of a call. Returns False for one that did not land; raises `Violation` for one that waits."""
        [record] = self.world.store.read(message_path(ADDRESS.base, called.id))
        if record.data is None:
            return False
        call = CallRecord.from_record(record.data)
        if call.outcome is None:
            raise Violation(f"{called.id} waits for ever")
        assert isinstance(call.outcome.result, int | None)
        called.result = "error" if call.outcome.error else call.outcome.result
        return True


CODE = service.Code("counters", COUNTER.apply, lambda _: "counters", lambda _, state: COUNTER.check_state(state))


def _sweep(ports: Ports) -> None:
    with suppress(Unavailable):
        outbox.sweep(ports)


def check_all() -> None:
    for seed in range(SEEDS):
        history = Callers(seed).run()
        if not explained(history):
            raise Violation(f"seed {seed}: no order explains {history}")


def test_every_history_has_the_results_of_a_plain_object() -> None:
    check_all()


@pytest.mark.parametrize(
    "history",
    [
        [Called("a", 1, 1, 2, 1), Called("b", 1, 3, 4, 1)],
        [Called("a", 1, 1, 2, 1), Called("b", None, 3, 4, None), Called("c", 1, 5, 6, 2)],
        [Called("a", -1, 1, 2, "error"), Called("b", 1, 3, 4, 0)],
    ],
)
def test_a_history_without_such_an_order_is_noticed(history: list[Called]) -> None:
    assert not explained(history)


def test_a_posted_call_may_take_effect_late() -> None:
    assert explained([Called("a", 1, 1, UNANSWERED, 3), Called("b", 2, 5, 6, 2)])


def test_an_unguarded_header_is_noticed() -> None:
    with mock.patch.object(storage, "header_put", unguarded), pytest.raises(Violation):
        check_all()
