"""Transactions over documents that race, lose their answers and die, with tasks in their commits.

Money moves from one document to another under ids, each posted several times. Of two more documents at least one stays
"on", since each transaction that turns one off has read that the other is on. When nothing is left to do, as much money
has moved as there are ids that took effect, each of these ids has one task that ran, every answer was true, and one of
the two documents is on.

In some seeds there are also clerks: tasks that advance orders by what they read, fail and are delivered again. Each
step of an order is taken at most once, and what an acknowledged delivery did has taken effect.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from signalbox.core import code_contents, idempotency_keys, outbox
from signalbox.core.calls import Call
from signalbox.core.effects import RECEIPTS, Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports, Query
from signalbox.core.problems import OtherBody, Unavailable
from signalbox.documents.requests import PutRequest
from signalbox.documents.service import single_documents, transactions
from signalbox.documents.service.transactions import Transaction
from tests.simulation.fault_rates import TRANSACTION_FAILS_RATE, FaultRates
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.world import Violation, World

MONEY = 10
IDS = ("i", "j", "k")
ACCOUNTS, SWITCHES = ("ann", "bob"), ("left", "right")
ORDERS, STEPS = ("o", "p"), {"new": "paid", "paid": "shipped"}
READS_TWICE_RATE = 0.1
"""Worlds in which people read the accounts again before they write what they made of the first read."""

CLERKS_RATE = 0.4


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    TransactionsWorld(seed, trace).run()


class TransactionsWorld:
    """Two accounts and two switches; people who transfer amounts and turn switches off."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.06, lose_answer=0.08, kill=0.05, duplicate=0.05, left=5)
        self.world = World(seed, rates, trace)
        self.world.task_handlers["letters"] = self._letter
        self.world.queue.on_reuse = self._check_reuse
        self.told: dict[str, int] = {}
        self.letters: defaultdict[str, set[str]] = defaultdict(set)
        self.clerks = Random(f"{seed}-clerks")
        self.reads_twice = Random(f"{seed}-reads").random() < READS_TWICE_RATE
        self.deliveries: Counter[str] = Counter()
        self.done: set[tuple[str, str]] = set()
        self.noted: set[str] = set()
        self.world.task_handlers["clerk"] = self._clerk

    def run(self) -> None:
        random, ports = self.world.random, self.world.reliable_ports()
        for key, content in ((ACCOUNTS[0], {"n": MONEY}), (ACCOUNTS[1], {"n": 0})):
            single_documents.put(ports, PutRequest.from_request(key, content))
        for key in SWITCHES:
            single_documents.put(ports, PutRequest.from_request(key, {"on": True}))
        acts = [self._transfer] * random.randint(2, 6) + [self._turn_off] * random.randint(0, 3)
        random.shuffle(acts)
        first = random.randint(0, len(acts))
        if has_clerk := self.clerks.random() < CLERKS_RATE:
            for key in ORDERS:
                single_documents.put(ports, PutRequest.from_request(key, {"state": "new"}))
            self.world.queue.take(Effect("clerk", "q", "clerk", "clerk", {}))
        self.world.run(acts[:first])
        self.world.pass_an_outage()
        self.world.run(acts[first:])
        self.world.fault_rates.left = 0
        for _ in range(2):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", lambda: _sweep(self.world.ports))
            self.world.run()
        self._check_rest()
        if has_clerk:
            self._check_orders()

    # --- people ---

    def _transfer(self) -> None:
        id_ = self.world.random.choice(IDS)

        def code(t: Transaction) -> int:
            ann, bob = (t.get(key) for key in ACCOUNTS)
            if self.reads_twice:
                t.get_many(list(ACCOUNTS))
            assert ann is not None
            assert bob is not None
            t.put(ACCOUNTS[0], {"n": ann["n"] - 1})
            t.put(ACCOUNTS[1], {"n": bob["n"] + 1})
            t.enqueue(Call("letters", "letter", {"id": id_}))
            return int(ann["n"])

        self.world.start(f"transfer {id_}", lambda: self._told(id_, self._run(code, id_)))

    def _told(self, id_: str, answer: int) -> None:
        if self.told.setdefault(id_, answer) != answer:
            raise Violation(f"{id_} was answered {self.told[id_]} and {answer}")

    def _turn_off(self) -> None:
        own, other = self.world.random.sample(SWITCHES, 2)

        def code(t: Transaction) -> int:
            read = t.get_many([own, other])
            if all(each and each["on"] for each in read.values()):
                t.put(own, {"on": False})
            return 0

        def act() -> None:
            self._run(code, "")

        self.world.start(f"turn {own} off", act)

    def _run(self, code: Callable[[Transaction], int], name: str) -> int:
        return transactions.run_transaction(self.world.ports, code, name, kind=Transaction)

    def _letter(self, _: Ports, effect: Effect) -> None:
        self.letters[effect.payload["id"]].add(effect.name)

    # --- clerks ---

    def _clerk(self, ports: Ports, effect: Effect) -> None:
        """Advance each order by one step, from the state that this delivery reads; note the first; perhaps fail."""
        is_repeated = self.deliveries[effect.name] > 0
        self.deliveries[effect.name] += 1
        done = set()
        with idempotency_keys.idempotent_calls(effect.name, is_repeated=is_repeated):
            states = {key: single_documents.get(ports, key).document["state"] for key in ORDERS}
            for key, state in self.clerks.sample(list(states.items()), len(states)):
                if state == "new":
                    _in_task(ports, partial(_advance, key=key, step="paid"))
                elif state == "paid":
                    _in_task(ports, partial(_advance, key=key, step="shipped"))
                done |= {(key, STEPS[state])} if state in STEPS else set()
                if self.world.inject_fault(TRANSACTION_FAILS_RATE):
                    raise Unavailable("the code fails after a transaction")
            noted = self._note(ports, {"of": states[ORDERS[0]]})
        self.done |= done
        self.noted |= noted

    def _note(self, ports: Ports, content: dict[str, str]) -> set[str]:
        try:
            _in_task(ports, lambda t: t.put("note", content))
        except OtherBody:
            return set()
        if self.world.inject_fault(TRANSACTION_FAILS_RATE):
            raise Unavailable("the code fails after its note")
        return {content["of"]}

    def _check_orders(self) -> None:
        ports = self.world.reliable_ports()
        taken = Counter(
            {
                (key, step): single_documents.get(ports, key).document.get(step, 0)
                for key in ORDERS
                for step in STEPS.values()
            }
        )
        if twice := [step for step, times in taken.items() if times > 1]:
            raise Violation(f"{twice} were taken more than once")
        if lost := [step for step in self.done if not taken[step]]:
            raise Violation(f"{lost} were acknowledged, and not taken")
        note = single_documents.get_many(ports, ["note"])["note"]
        if self.noted - {note.document["of"] if note else ""}:
            raise Violation(f"the notes {sorted(self.noted)} were acknowledged, and {note} is stored")

    # --- what must hold ---

    def _check_reuse(self, effect: Effect) -> None:
        allow_from_an_old_outbox_record(self.world, effect)

    def _check_rest(self) -> None:
        ports = self.world.reliable_ports()
        ann, bob, left, right = (single_documents.get(ports, key).document for key in (*ACCOUNTS, *SWITCHES))
        applied = [one.id for one in self.world.store.query(Query(RECEIPTS)) if one.id in IDS]
        if (ann["n"], bob["n"]) != (MONEY - len(applied), len(applied)):
            raise Violation(f"{sorted(applied)} took effect, and the accounts have {ann['n']} and {bob['n']}")
        if lost := self.told.keys() - set(applied):
            raise Violation(f"{sorted(lost)} were answered, and did not take effect")
        if {id_: len(names) for id_, names in self.letters.items()} != dict.fromkeys(applied, 1):
            raise Violation(f"{sorted(applied)} took effect, and these letters were sent: {dict(self.letters)}")
        if not (left["on"] or right["on"]):
            raise Violation("both are off")


def _in_task(ports: Ports, code: Callable[[Transaction], Any]) -> None:
    content = code_contents.content_of_code(code, sys._getframe(1).f_code)
    name = idempotency_keys.idempotency_key("transaction", content.name) or ""
    is_new = not idempotency_keys.is_repeated()
    transactions.run_transaction(ports, code, name, digest=content.digest, is_new=is_new, kind=Transaction)


def _advance(t: Transaction, key: str, step: str) -> None:
    order = t.get(key)
    assert order is not None
    t.put(key, order | {"state": step, step: order.get(step, 0) + 1})


def _sweep(ports: Ports) -> None:
    outbox.sweep(ports)
