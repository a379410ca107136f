"""Objects with large states, arguments and results, while calls fail, processes die, and the sweeper deletes.

Callers put large values into two objects, at once or through the mailbox, as one of several that wait or alone, under
ids that they repeat, some only days later. Methods send large values on, calls are forwarded to the object that is a
result, objects are deleted, tasks receive large outcomes, and two deliveries of a task make one call under different
leases. The sweeper runs among all that.

Checked whenever a record is written or a payload is deleted: what a record names is its own, and is in the store.
Checked at rest, after the walk: each payload is named by its owner's record. Once the receipts have expired and the
objects are deleted, none is left. A state, and what a method or a task receives, is a value that a caller has passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.idempotency_keys import hold, idempotent_calls
from signalbox.core.limits import DECLARED
from signalbox.core.ports import Delete, Ports, Query, unlimited
from signalbox.core.problems import OtherBody, Problem, Unavailable
from signalbox.core.wake_ups import WakeUp
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import HEADER, MAILBOX, Delivery
from signalbox.objects import service
from signalbox.objects.machine.classes import ObjectClass, Reference, read_only, send_post
from signalbox.objects.model import (
    CallPlace,
    CallRecord,
    Message,
    Post,
    call_on_result,
    continuation_message,
    deletion,
    method_call,
)
from signalbox.objects.service import Code
from signalbox.payloads.model import opened
from signalbox.payloads.service import opening_those_of
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.world import Violation, World
from tests.simulation.worlds.named_payloads import DAY_SECONDS, SMALL, WALK_SECONDS, NamedPayloads

FUNCTION = "boxes"
KEYS = ("a", "b")
RECEIPTS_SECONDS = 40 * DAY_SECONDS
LEASES_RATE = 0.1
"""The share of calls that two deliveries of a task make, each under its own lease."""

LATE_SECONDS = (2 * DAY_SECONDS, WALK_SECONDS, RECEIPTS_SECONDS)


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    with ExitStack() as entered:
        entered.enter_context(mock.patch.dict(DECLARED, {"payloads": "on"}))
        entered.enter_context(replaced(**SMALL, object_state_bytes_max=400, mailbox_page=3))
        ObjectPayloadsWorld(seed, trace).run()


class Box:
    """Keeps the last text."""

    text: str = ""

    def put(self, text: str) -> str:
        before, self.text = self.text, text
        return before

    def echo(self, text: str) -> str:
        return text

    def refuse(self, text: str) -> str:
        self.text = text
        raise Problem("No.")

    def tell(self, other: str, text: str) -> str:
        for _ in range(2):
            send_post(Post(ObjectAddress("Box", other), method_call("put", {"text": text}, receipt=False)))
        return text

    def open(self, other: str) -> Reference:
        return Reference(ObjectAddress("Box", other))

    @read_only
    def get(self) -> str:
        return self.text


BOX = ObjectClass.from_class(Box)
CODE = Code(FUNCTION, BOX.apply, lambda _: FUNCTION, lambda _, state: BOX.check_state(state))


class ObjectPayloadsWorld:
    """Two objects, their callers, and a sweeper."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.05, lose_answer=0.05, kill=0.08, duplicate=0.1, left=6)
        self.world = World(seed, rates, trace)
        self.payloads = NamedPayloads(self.world, (), MAILBOX)
        self.world.task_handlers[FUNCTION] = self._turn
        self.world.task_handlers["user"] = self._told
        self.deliveries: Counter[str] = Counter()
        self.leases = Random(f"leases {seed}")
        self.ids = 0
        self.late: list[Callable[[], None]] = []
        self.used: Counter[CallPlace] = Counter()

    def run(self) -> None:
        random = self.world.random
        self.world.run([self._act() for _ in range(random.randint(3, 9))])
        self.payloads.rest()
        for _ in range(random.choice((0, 1, 2))):
            self.world.pass_time(random.choice(LATE_SECONDS))
            self.world.fault_rates.left = random.choice((0, 4))
            late, self.late = self.late, []
            self.world.run([*late, self._sweeping(), *(self._act() for _ in range(random.randint(1, 5)))])
            self.payloads.rest()
        self.world.fault_rates.left = 0
        self.payloads.walk()
        self.payloads.check_owners()
        self._check_states()
        self._delete_all()
        self.world.pass_time(RECEIPTS_SECONDS)
        self._expire()
        self.payloads.check_nothing_left()

    # --- what callers do ---

    def _act(self) -> Callable[[], None]:
        random, key = self.world.random, self.world.random.choice(KEYS)
        self.ids += 1
        id_, other, value = f"c{self.ids}", KEYS[1 - KEYS.index(key)], self.payloads.value()
        if random.random() < 0.2:
            value = random.choice(sorted(self.payloads.values))
        if self.leases.random() < LEASES_RATE:
            return self._under_leases(CallPlace(ObjectAddress("Box", key), f"task {self.ids}"), value)
        match random.randrange(12):
            case 0 | 1 | 2:
                return self._call(key, id_, method_call("put", {"text": value}, then=self._then()))
            case 3:
                return self._call(key, id_, method_call("echo", {"text": value}, then=self._then()))
            case 4:
                return self._call(key, id_, method_call("refuse", {"text": value}))
            case 5:
                return self._call(key, id_, method_call("tell", {"other": other, "text": value}))
            case 6:
                self.ids += 1
                first = self._call(key, id_, method_call("open", {"other": other}))
                chained = call_on_result(id_, "echo", {"text": value}, then=self._then())
                second = self._call(key, f"c{self.ids}", chained)
                return lambda: (first(), second())[0]
            case 7:
                return self._call(key, id_, deletion())
            case 8:
                target = f"c{random.randint(0, self.ids - 1)}"  # a message that follows itself would be held for ever
                return self._call(key, id_, continuation_message(target, Call("user", "told", {})))
            case 9:
                return self._call(key, f"c{random.randint(1, self.ids)}", method_call("put", {"text": value}))
            case 10:
                return self.payloads.beginning("reader", lambda: self._read(key))
        return self._sweeping()

    def _under_leases(self, place: CallPlace, value: str) -> Callable[[], None]:
        """Return a task that two deliveries run at once. Its call contains the lease that the delivery holds."""

        def delivery(lease: str) -> None:
            self.payloads.values.add(value + lease)
            with idempotent_calls(place.id):
                hold({lease: "the lease"})
                try:
                    message = method_call("put", {"text": value + lease})
                    service.post_call(self.payloads.ports, CODE.function_of, place, message)
                except OtherBody:
                    raise Violation(f"the call of {place.id} is refused under the {lease}") from None

        def begin() -> None:
            for number in range(2):
                self.payloads.begin(
                    f"{place.id}, delivery {number}", partial(delivery, f"lease {number} of {place.id}")
                )

        return begin

    def _sweeping(self) -> Callable[[], None]:
        return self.payloads.beginning("sweep", self.payloads.sweep)

    def _then(self) -> tuple[Call, ...]:
        return (Call("user", "told", {}),) if self.world.random.random() < 0.4 else ()

    def _call(self, key: str, id_: str, message: Message) -> Callable[[], None]:
        """Return a caller that repeats its call until it is answered, and perhaps once more much later."""
        place, random = CallPlace(ObjectAddress("Box", key), id_), self.world.random
        how = random.randrange(3)
        self.used[place] += 1

        def call() -> None:
            try:
                made()
            except OtherBody:
                if self.used[place] == 1:
                    raise Violation(f"the repeat of {id_} of {key} is taken for another call") from None

        def made() -> None:
            if how == 0 and "arguments" in message.body and "target" not in message.body:
                self._check(service.call_at_once(self.payloads.ports, CODE, place, message))
            elif how == 1 and "method" in message.body:
                called = service.call_together(self.payloads.ports, CODE, place.address, {id_: message}, unlimited)
                if isinstance(called[id_], Exception):
                    raise called[id_]  # type: ignore[misc]  # checked above
            else:
                service.post_call(self.payloads.ports, CODE.function_of, place, message)

        left = random.choice((0, 12))
        if random.random() < 0.3:
            self.late.append(lambda: self.payloads.begin(f"{id_} of {key}, late", call))
        twice = random.random() < 0.2

        def begin() -> None:
            for _ in range(1 + twice):
                self.payloads.begin(f"{id_} of {key}", call, left)

        return begin

    def _check(self, call: CallRecord) -> None:
        if call.outcome is not None and call.outcome.error is None and call.outcome.object is None:
            self._check_result(call.outcome.result)

    def _check_result(self, stored: Any) -> None:
        with opening_those_of(self.payloads.ports):
            if (value := opened(stored)) not in ("", None):
                self.payloads.check_value(value)

    def _read(self, key: str) -> None:
        outcome = service.read_only(self.payloads.ports, CODE, ObjectAddress("Box", key), method_call("get", {}))
        self._check_result(outcome.result)

    def _check_states(self) -> None:
        for key in KEYS:
            self.world.start("reader", lambda key=key: self._read(key))  # type: ignore[misc]  # a bound name
        self.world.run()

    def _delete_all(self) -> None:
        for number, key in enumerate(KEYS):
            place = CallPlace(ObjectAddress("Box", key), f"end {number}")
            self.payloads.begin(
                "end",
                lambda place=place: service.post_call(  # type: ignore[misc]  # a bound name
                    self.payloads.ports, CODE.function_of, place, deletion()
                ),
            )
        self.world.run()
        self.payloads.rest()

    def _expire(self) -> None:
        """Let Firestore delete the receipts that have expired."""
        for record in self.world.store.query(Query(MAILBOX, group=True)):
            if record.id != HEADER:
                if not is_expired(record.data, self.world):
                    raise Violation(f"{record.path} has not ended")
                self.world.store.commit([Delete(record.path)])

    # --- tasks ---

    def _turn(self, ports: Ports, effect: Effect) -> None:
        before = self.deliveries[effect.name]
        self.deliveries[effect.name] += 1
        try:
            service.run(ports, CODE, Delivery(WakeUp.from_payload(effect.payload), effect.name, before), unlimited)
        except Problem as problem:
            raise Unavailable(problem.detail) from problem

    def _told(self, _: Ports, effect: Effect) -> None:
        self._check_result(effect.context["outcome"].get("result"))


def is_expired(record: Mapping[str, Any] | None, world: World) -> bool:
    """Return whether a record of a call may be deleted."""
    return record is not None and "expires_at" in record and record["expires_at"] <= world.now()
