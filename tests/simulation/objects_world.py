"""Calls of two objects by many at once: at once, posted, for later, on results, with continuations; and deletions.

In some worlds objects are deleted; what a deleted object had is not seen by these checks, if one turn did both.

Callers repeat what was not answered, under the same id, as a redelivered task does. Methods send to the other object,
raise, or kill their process. Pages are small, so that turns are cut and runs share wake-ups.

Held whenever a header is written: no call is applied twice. Held at rest: every call that was answered, or whose
message landed, has its effect and its outcome; a call that began after another was answered is behind it; what a call
sent ran once; continuations ran with the outcome; nothing waits; no healthy call was given up.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from shared.core.operations import outbox
from shared.core.operations.ports import Ports, Query, Snapshot
from shared.core.operations.time_budgets import unlimited
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import HEADER, message_path
from shared.core.rules.problems import Problem, Unavailable
from shared.core.rules.wake_ups import WakeUp
from shared.objects.operations import calls, runs
from shared.objects.operations.calls import Placeholder, Timing
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.classes import ObjectClass
from shared.objects.rules.messages import (
    CallRecord,
    Message,
    call_on_result,
    continuation_message,
    deletion,
    method_call,
)
from shared.objects.rules.methods import Applied, Post
from shared.objects.rules.sending import Reference, send_post, send_task
from tests.simulation.fault_rates import FaultRates
from tests.simulation.processes import Killed
from tests.simulation.reuse import allow_from_an_old_outbox_record
from tests.simulation.world import Violation, World

CLASS = "Log"
KEYS = ("a", "b")
PAGE = 2
REPEATS_MAX = 12
SWEEPS = 4
LATER_SECONDS = (0.05, 0.7, 5.0)
DELETING_SHARE = 0.2


class Log:
    """An object that remembers which calls it had, in order."""

    seen: list[str] = []  # noqa: RUF012  an object starts with a copy

    def note(self, id: str) -> int:  # noqa: A002
        self.seen.append(id)
        return len(self.seen)

    def pass_on(self, id: str, to: str) -> int:  # noqa: A002
        send_post(Post(ObjectAddress(CLASS, to), method_call("note", {"id": f"{id} passed on"}, receipt=False)))
        send_task(Call("user", "sent", {"id": id}))
        return self.note(id)

    def open(self, id: str, to: str) -> Reference:  # noqa: A002
        self.note(id)
        return Reference(ObjectAddress(CLASS, to))

    def refuse(self, id: str) -> None:  # noqa: A002
        self.note(id)
        raise Problem("No.")


LOG = ObjectClass.from_class(Log)


@dataclass(slots=True)
class Act:
    """What one caller does, repeatedly until it is answered. `began` and `answered` are steps of the world."""

    id: str
    key: str
    message: Message
    fast: bool
    timing: Timing = calls.NOW
    follows: str = ""
    began: int = 0
    answered: int = 0
    repeats: int = 0
    answer: CallRecord | None = None


@dataclass(slots=True)
class History:
    """The calls that an object has had, life by life: a deletion ends one."""

    lives: list[list[str]] = field(default_factory=lambda: [[]])

    def extend(self, seen: list[str] | None, *, deleting: bool) -> None:
        """Add what a header shows. Raises `Violation` when something that took effect is gone without a deletion."""
        if (seen or [])[: len(self.lives[-1])] != self.lives[-1]:
            if not deleting:
                raise Violation(f"the state forgot calls: {self.lives[-1]} became {seen}")
            self.lives.append([])
        self.lives[-1] = list(seen or [])

    @property
    def all(self) -> list[str]:
        return [id_ for life in self.lives for id_ in life]


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    with LIMITS.replaced(mailbox_page=PAGE, careful_deliveries=2, call_attempts_max=7):
        ObjectsWorld(seed, trace).run()


class ObjectsWorld:
    """Two objects, their callers, and what must have happened to each call."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, FaultRates(left=5), trace)
        random = self.world.random
        self.calm = random.random() < 0.3
        self.world.fault_rates.left = 0 if self.calm else random.choice((3, 6))
        self.world.step_microseconds_max = random.choice((300, 3_000, 30_000))
        self.world.time_jumps = (0.05, 0.2, 1.0, 70.0)
        self.world.time_jumps_left = random.choice((0, 3, 8))
        self.world.queue.ahead_seconds = random.choice((0.0, 0.05, 0.3))
        self.world.task_handlers["user"] = self._user_task
        self.world.task_handlers["logs"] = self._turn
        self.world.queue.on_reuse = self._check_reuse
        self.world.observers.append(self._observed)
        own = Random(f"objects {seed}")
        self.deleting = own.random() < DELETING_SHARE
        self.deadly = {"c1"} if own.random() < 0.15 else set[str]()
        self.steps = 0
        self.histories: dict[str, History] = defaultdict(History)
        self.acts: list[Act] = []
        self.starts: Counter[str] = Counter()
        self.deliveries: Counter[str] = Counter()
        self.told: dict[str, list[Any]] = defaultdict(list)
        self.sent: Counter[str] = Counter()
        self.landed: set[str] = set()
        self.code = runs.Code("logs", self._apply, lambda _: "logs")

    # --- what happens ---

    def run(self) -> None:
        beginnings = [self._begin(act) for act in self._plan()]
        self.world.run(beginnings)
        self.world.pass_an_outage()
        self.world.fault_rates.left = 0
        for _ in range(SWEEPS):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", lambda: _sweep(self.world.ports))
            self.world.run()
        self._check_rest()

    def _plan(self) -> list[Act]:
        random = self.world.random
        for number in range(random.randint(2, 6)):
            self.acts.append(self._act(f"c{number}"))
        return self.acts

    def _act(self, id_: str) -> Act:
        random = self.world.random
        key, other = random.choice((KEYS, KEYS[::-1]))
        earlier = [act for act in self.acts if act.message.kind.value in ("call", "on_result")]
        kinds = ("note", "note", "note", "pass_on", "open", "refuse", "then", "on_result")
        kind = random.choice((*kinds, "delete") if self.deleting else kinds)
        if kind in ("then", "on_result") and earlier:
            target = random.choice(earlier)
            if kind == "then":
                message = continuation_message(target.id, Call("user", "told", {"id": id_}))
            else:
                message = call_on_result(target.id, "note", {"id": id_})
            return Act(id_, target.key, message, fast=False, follows=target.id)
        if kind == "delete":
            return Act(id_, key, deletion(), fast=False)
        method = kind if kind in ("pass_on", "open", "refuse") else "note"
        to = {"to": other} if method in ("pass_on", "open") else {}
        then = (Call("user", "told", {"id": id_}),) if random.random() < 0.3 else ()
        later = random.random() < 0.2
        timing = Timing(random.choice(LATER_SECONDS)) if later else calls.NOW
        message = method_call(method, {"id": id_, **to}, then=then)
        return Act(id_, key, message, fast=not later and random.random() < 0.5, timing=timing)

    def _begin(self, act: Act) -> Callable[[], None]:
        def begin() -> None:
            act.began = act.began or self._step()
            self.world.start(f"{act.id} of {act.key}", lambda: self._call(act), lambda done: self._ended(act, done))

        return begin

    def _call(self, act: Act) -> None:
        place = Placeholder(ObjectAddress(CLASS, act.key), act.id)
        if act.fast and act.id not in self.deadly:
            act.answer = calls.call_at_once(self.world.ports, self.code, place, act.message)
        else:
            act.answer = calls.post_call(self.world.ports, self.code.function_of, place, act.message, act.timing)

    def _ended(self, act: Act, done: bool) -> None:
        if done and act.answer is not None:
            act.answered = act.answered or self._step()
        elif act.repeats < REPEATS_MAX:
            act.repeats += 1
            self._begin(act)()

    def _step(self) -> int:
        self.steps += 1
        return self.steps

    # --- deliveries ---

    def _turn(self, ports: Ports, effect: Effect) -> None:
        delivery = runs.Run(WakeUp.from_payload(effect.payload), effect.name, self.deliveries[effect.name])
        self.deliveries[effect.name] += 1
        runs.run(ports, self.code, delivery, unlimited)

    def _apply(self, address: ObjectAddress, state: str | None, message: Message, now: datetime) -> Applied:
        id_ = message.body["arguments"]["id"]
        if id_ in self.deadly:
            self.starts[id_] += 1
            raise Killed
        return LOG.apply(address, state, message, now)

    def _user_task(self, _: Ports, effect: Effect) -> None:
        if effect.task == "sent":
            self.sent[effect.payload["id"]] += 1
        else:
            self.told[effect.payload["id"]].append(effect.context["outcome"])

    def _check_reuse(self, effect: Effect) -> None:
        if effect.function == "user":
            allow_from_an_old_outbox_record(self.world, effect)

    # --- what must hold ---

    def _observed(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if not path.startswith("objects/") or "/mailbox/" not in path or after.data is None:
            return
        base, _, id_ = path.rpartition("/mailbox/")
        key = ObjectAddress.of_base(base).key
        if id_ != HEADER:
            self.landed.add(id_)
            return
        revision = -1 if before.data is None else before.data["revision"]
        if after.data["revision"] <= revision:
            raise Violation(f"revision {after.data['revision']} follows {revision}")
        state = after.data["state"]
        seen = None if state is None else json.loads(state)["fields"]["seen"]
        self.histories[key].extend(seen, deleting=self.deleting)
        twice = [each for each, count in Counter(self.histories[key].all).items() if count > 1]
        if twice:
            raise Violation(f"{twice} took effect twice on {key}: {self.histories[key].lives}")

    def _check_rest(self) -> None:
        self._check_nothing_waits()
        for act in self.acts:
            if act.answered or act.id in self.landed:
                self._check_act(act)
        if not self.deleting:
            self._check_order()
            self._check_sent()

    def _check_nothing_waits(self) -> None:
        for key in KEYS:
            collection = f"{ObjectAddress(CLASS, key).base}/mailbox"
            records = self.world.store.query(Query(collection, limit=1_000))
            waiting = [one.id for one in records if one.id != HEADER and one.data and not _done(one.data)]
            if waiting:
                raise Violation(f"{waiting} of {key} wait for ever")
        if left := self.world.store.query(Query(outbox.COLLECTION)):
            raise Violation(f"the outbox still holds {[one.id for one in left]}")

    def _check_act(self, act: Act) -> None:
        call = self._record(act)
        if call is None:
            raise Violation(f"{act.id} was answered, and there is no record of it")
        problem = call.outcome.error if call.outcome else None
        kind = act.message.kind.value
        if kind == "call":
            self._check_call(act, problem)
        if kind == "then" or act.message.then:
            self._check_told(act)
        if kind == "on_result":
            self._check_on_result(act, call)

    def _check_call(self, act: Act, problem: Any) -> None:
        applied = self.histories[act.key].all.count(act.id)
        if act.id in self.deadly:
            if not problem or problem["type"] != "gave-up" or applied:
                raise Violation(f"{act.id} kills its process, and its outcome is {problem}")
            return
        if problem and problem["type"] == "gave-up":
            raise Violation(f"{act.id} was given up, and nothing was wrong with it")
        refuses = act.message.body["method"] == "refuse"
        if applied != (0 if refuses else 1) and not (self.deleting and not applied):
            raise Violation(f"{act.id} took effect {applied} times on {act.key}: {self.histories[act.key].lives}")

    def _check_told(self, act: Act) -> None:
        told = self.told[act.id]
        if not told:
            raise Violation(f"the continuation of {act.id} never ran")
        if any(each != told[0] for each in told):
            raise Violation(f"the continuation of {act.id} ran with different outcomes: {told}")
        target = next(each for each in self.acts if each.id == (act.follows or act.id))
        called = target.message.kind.value == "call" and target.answered and act.began > target.answered
        if called and told[0].get("error", {}).get("status") == 404:
            raise Violation(f"{act.id} was set after {target.id} was called, which it did not find")

    def _check_on_result(self, act: Act, call: CallRecord) -> None:
        target = next(each for each in self.acts if each.id == act.follows)
        opens = target.message.kind.value == "call" and target.message.body["method"] == "open"
        opens = opens and act.id not in self.deadly
        times = sum(history.all.count(act.id) for history in self.histories.values())
        if opens and target.id not in self.deadly and target.answered and act.began > target.answered:
            other = next(key for key in KEYS if key != target.key)
            if self.histories[other].all.count(act.id) != 1 and not self.deleting:
                raise Violation(f"{act.id} on the result of {target.id} took effect {times} times")
        if times > 1 or ((times == 1) != (call.forwarded is not None and self._reached(call)) and not self.deleting):
            raise Violation(f"{act.id} took effect {times} times, and its record is {call}")

    def _reached(self, call: CallRecord) -> bool:
        for _ in range(10):
            if call.forwarded is None:
                return call.outcome is not None and call.outcome.error is None
            [record] = self.world.store.read(message_path(call.forwarded.address.base, call.forwarded.id))
            if record.data is None:
                return False
            call = CallRecord.from_record(record.data)
        return False

    def _check_order(self) -> None:
        """A call that began after another was answered took effect after it, if neither was for later."""
        for key in KEYS:
            places = {id_: place for place, id_ in enumerate(self.histories[key].all)}
            acts = [a for a in self.acts if a.key == key and a.id in places and a.timing == calls.NOW]
            acts = [a for a in acts if a.message.kind.value == "call"]
            for first in acts:
                for second in acts:
                    if first.answered and first.answered < second.began and places[first.id] > places[second.id]:
                        raise Violation(f"{second.id} overtook {first.id} on {key}: {self.histories[key].lives}")

    def _check_sent(self) -> None:
        for act in self.acts:
            if act.message.kind.value == "call" and act.message.body["method"] == "pass_on":
                applied = self.histories[act.key].all.count(act.id)
                other = self.histories[act.message.body["arguments"]["to"]].all.count(f"{act.id} passed on")
                if applied != other or bool(applied) != bool(self.sent[act.id]):
                    raise Violation(f"{act.id} took effect {applied} times, what it sent {other}, {self.sent[act.id]}")

    def _record(self, act: Act) -> CallRecord | None:
        [record] = self.world.store.read(message_path(ObjectAddress(CLASS, act.key).base, act.id))
        return None if record.data is None else CallRecord.from_record(record.data)


def _done(data: Any) -> bool:
    return "outcome" in data or "forwarded" in data


def _sweep(ports: Ports) -> None:
    try:
        outbox.sweep(ports)
    except Unavailable:
        return
