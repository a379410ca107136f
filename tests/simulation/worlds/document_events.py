"""Handlers of documents' events that are tasks: random histories of a few documents, and triggers of several patterns.

Documents are created, updated, put with the same content, deleted and created again, some at once. Their events are
delivered as `event_triggers.py` says, to receivers that are killed at any step. Handlers are killed midway, raise once,
raise until they are repaired, or refuse their event, and people retry what was given up. In some worlds the receiver is
down for a week, the queue refuses for hours, all events come once more a week later, or some are too large for a task.

At rest, each event had one task and took effect in each handler that its trigger selects, and in no other: once, and
at most once more for each retry of its failure. What a handler was given is what happened, or says that it is partial.
A handler `in_order` ran one event of a document at a time, in the order of versions. It has handled the last event of
each document, and left out only events that a later one had overtaken, or one without any time, whose handler reads
the document. A copy that such a handler makes equals its document. A handler with ``in_order="each"`` ran one at a
time, and has handled each event.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from signalbox import DocumentEvent, Function
from signalbox.adapters import runtime
from signalbox.adapters.http.event_deliveries import received_event
from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect, name_of
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Delete, Ports, Put, Query, Write
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.user_code import CodeExited
from signalbox.function import document_handlers
from signalbox.tasks.model.failures import FAILURES, failure_path
from signalbox.tasks.service import failures
from signalbox.testing.replaced_limits import replaced
from tests.simulation.event_triggers import Trigger, Triggers
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import FAILURES_KEPT, FAILURES_RETRIED, OVERTAKEN, REACHED
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.user_task_effects import CHILD, effect_of, raise_any, take_effect
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max

TRIGGERS = (
    Trigger("every", "orders/{id}"),
    Trigger("made", "orders/{id}", "created"),
    Trigger("changed", "orders/{id}", "updated"),
    Trigger("removed", "orders/{id}", "deleted"),
    Trigger("below", "orders/{id}/{rest=**}"),
    Trigger("line", "orders/{id}/lines/{line}", "created"),
)
IN_ORDER = (
    Trigger("copied", "orders/{id}", in_order=True),
    Trigger("copied_below", "orders/{id}/{rest=**}", in_order=True),
    Trigger("latest", "orders/{id}", "updated", in_order=True),
)
NONE_LEFT_OUT = Trigger("each", "orders/{id}", in_order="each")
EACH_RATE = 0.2
PATHS = ("orders/a", "orders/a", "orders/b", "orders/a/lines/1", "orders/a/lines/1/parts/x", "others/a")
LARGE = {"text": "x" * 8_000}
CONTENTS = ({"n": 1}, {"n": 2}, {"n": 1, "format": 7}, LARGE)
DELETE_RATE = 0.3

FINE, ONCE, RAISING, REFUSING = "fine", "raises once", "raises", "refuses"
DOES = (FINE, FINE, FINE, ONCE, RAISING, REFUSING)
ATTEMPTS_MAX = 3
RETRY_SECONDS = 50
"""The pause of the queue, so that a hold of nine minutes ends within a few deliveries."""

HOURS, WEEK = 6 * 3_600, 7 * 86_400
SMALL_TASKS = 8 * 1024 + 1_200
"""A limit of tasks' bytes that the large content exceeds."""

REPAIRS_MAX = 8


class Refused(Problem):
    title = "Refused"


class Broken(Exception):
    """What a handler's code raises."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    DocumentEventsWorld(seed, trace).run()


class DocumentEventsWorld:
    """A function with some handlers, and what each was given and did."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.03, lose_answer=0.05, kill=0.05, duplicate=0.1, without_data=0.15, left=7)
        self.world = World(seed, rates, trace)
        random = self.world.random
        self.chosen = (*random.sample(TRIGGERS, random.randint(1, 2)), *random.sample(IN_ORDER, random.randint(0, 2)))
        if Random(f"each {seed}").random() < EACH_RATE:
            self.chosen = (*self.chosen, NONE_LEFT_OUT)
        self.triggers = Triggers(self.world, self.chosen, self._receive)
        self.world.events = self.triggers  # type: ignore[assignment]  # it has what a world calls
        self.world.task_handlers["shop"] = self._deliver
        self.world.task_handlers[CHILD] = self._took_effect
        self.world.queue.on_reuse = self._check_reuse
        self.world.queue.refuses = lambda effect: self.is_refusing and effect.function == "shop"
        self.world.queue.retry_seconds = RETRY_SECONDS
        self.is_refusing = False
        self.is_repaired = False
        self.task_bytes_max = random.choice((SMALL_TASKS, LIMITS.task_bytes_max))
        self.app = Function("shop")
        for trigger in self.chosen:
            self._register(trigger)
        self.deliveries: Counter[str] = Counter()
        self.does: dict[tuple[str, str], str] = {}
        self.running: set[tuple[str, str]] = set()
        self.handled: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self.copies: dict[tuple[str, str], Any] = {}
        self.ran: defaultdict[str, set[str]] = defaultdict(set)
        self.operations: defaultdict[str, set[str]] = defaultdict(set)

    def run(self) -> None:
        with mock.patch.object(runtime, "_ports", self.world.ports), replaced(task_bytes_max=self.task_bytes_max):
            self._run()
            self._check_rest()

    def _run(self) -> None:
        random, world = self.world.random, self.world
        writes = [self._write] * random.randint(2, operations_max(6))
        first = random.randint(0, len(writes))
        self.triggers.is_down, self.is_refusing = random.random() < 0.2, random.random() < 0.2
        world.run(writes[:first])
        world.pass_time(WEEK if self.triggers.is_down else HOURS if self.is_refusing else 0)
        self.is_refusing = False
        self.triggers.is_encoded_otherwise = random.random() < 0.3
        self.triggers.deliver_dead_letters()
        world.run([*writes[first:], *[self._look_after] * random.randint(0, 2)])
        world.pass_an_outage()
        if random.random() < 0.2:
            world.pass_time(WEEK)
            self.triggers.deliver_all_again()
        world.run([self._look_after] * random.randint(0, 2))
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        """Sweep, repair the handlers, and retry what was given up, until nothing is."""
        world = self.world
        world.fault_rates.left = 0
        self.is_repaired = True
        for _ in range(REPAIRS_MAX):
            world.pass_time(LIMITS.outbox_patience_seconds + 1)
            world.start("sweep", lambda: _sweep(world.ports))
            world.run()
            kept = self._failures()
            for id_ in kept:
                world.start(f"retry {id_}", partial(failures.retry, world.ports, id_))
            world.run()
            if not kept:
                return
        raise Violation(f"a failure is kept after {REPAIRS_MAX} retries: {self._failures()}")

    def _failures(self) -> list[str]:
        found = self.world.store.query(Query(FAILURES))
        return [each.id for each in found if each.data and each.data["state"] == "failed"]

    # --- documents and people ---

    def _write(self) -> None:
        random = self.world.random
        path = random.choice(PATHS)
        write: Write = Delete(path) if random.random() < DELETE_RATE else Put(path, random.choice(CONTENTS))
        self.world.start(f"write {path}", lambda: self._commit(write))

    def _commit(self, write: Write) -> None:
        self.world.ports.store.commit([write])

    def _look_after(self) -> None:
        """Retry a failure, and perhaps repair its handler before."""
        random = self.world.random
        if kept := self._failures():
            id_ = random.choice(kept)
            REACHED[FAILURES_RETRIED] += 1
            [read] = self.world.store.read(f"{FAILURES}/{id_}")
            assert read.data is not None
            call = Call.from_record(read.data["call"])
            if random.random() < 0.6:
                self.does[call.task, call.payload["event"]] = FINE
            self.world.start(f"retry {id_}", lambda: failures.retry(self.world.ports, id_))

    # --- the function ---

    def _register(self, trigger: Trigger) -> None:
        """Register a handler with the parameters that its pattern has."""

        def handler(event: DocumentEvent, **parts: str) -> None:
            self._handle(trigger, event, parts)

        names = ("event", *re.findall(r"\{(\w+)", trigger.pattern))
        place = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(name, place) for name in names])
        handler.__signature__ = signature  # type: ignore[attr-defined]  # as `inspect` reads it
        handler.__name__ = trigger.name
        register = self.app.on_document(
            trigger.pattern, on=trigger.on, in_order=trigger.in_order, attempts_max=ATTEMPTS_MAX
        )
        register(handler)

    def _receive(self, trigger: Trigger, headers: Mapping[str, str], body: bytes) -> None:
        """Receive an event as the entry point does: it is acknowledged only if nothing is raised."""
        self.world.step(f"receives {headers['ce-id']}")
        try:
            document_handlers.receive(self.app.name, self.app.handlers, trigger.name, received_event(headers, body))
        except Problem as problem:
            raise Unavailable(problem.detail) from problem

    def _deliver(self, _: Ports, effect: Effect) -> None:
        """Deliver a task of an event as a queue does; what it raises, except for a `Problem`, is retried."""
        self.operations[f"{effect.task} {effect.payload['event']}"].add(effect.name)
        earlier = self.deliveries[effect.name]
        self.deliveries[effect.name] += 1
        what = effect.function, effect.task, effect.payload
        delivered = Delivered(effect.name, effect.context, 0, earlier, *what)
        try:
            self.app._run(runtime.ports(), delivered)
        except (Broken, CodeExited) as error:
            raise Unavailable("the handler raised") from error
        except Problem:
            REACHED[FAILURES_KEPT] += 1
            raise

    def _handle(self, trigger: Trigger, event: DocumentEvent, parts: dict[str, str]) -> None:
        """A handler's code: check what it is given, do it once through a task, and copy it if it is in order."""
        self._check_view(trigger, event, parts)
        key, place = (trigger.name, event.id), (trigger.name, event.path)
        if trigger.in_order and place in self.running:
            raise Violation(f"{trigger.name} handles two events of {event.path} at once")
        try:
            self.running.add(place)
            self._do(trigger, event, self._behaviour(key))
        finally:
            self.running.discard(place)

    def _behaviour(self, key: tuple[str, str]) -> str:
        does = self.does.setdefault(key, self.world.random.choice(DOES))
        if does == ONCE:
            self.does[key] = FINE
        return FINE if self.is_repaired else does

    def _do(self, trigger: Trigger, event: DocumentEvent, does: str) -> None:
        self.world.step(f"{trigger.name} handles {event.id}, and {does}")
        if does == REFUSING:
            raise Refused("as its code is written")
        content = event.after
        if event.partial:
            content = self.world.ports.store.read(event.path, fields=(("n",), ("text",)))[0].data
        take_effect(self.world.ports, f"{trigger.name} {event.id}")
        self.world.step(f"{trigger.name} has done {event.id}")
        if trigger.in_order is True:
            self._note_order(trigger, event, content)
        if does in (ONCE, RAISING):
            raise_any(self.world, Broken, f"{trigger.name} {event.id} {self.world.now()}")

    def _took_effect(self, _: Ports, effect: Effect) -> None:
        self.ran[effect_of(effect)].add(effect.name)

    # --- what must hold ---

    def _check_reuse(self, effect: Effect) -> None:
        if effect.function == "shop":
            allow_from_an_old_outbox_record(self.world, effect)

    def _check_view(self, trigger: Trigger, event: DocumentEvent, parts: dict[str, str]) -> None:
        """Raise `Violation` if what the handler is given is not what happened, and does not say that it is partial."""
        truth, who = self.triggers.events[event.id], f"{trigger.name} of {event.id}"
        if not trigger.selects(truth):
            raise Violation(f"{who}: {truth.kind} {truth.path} is not for it")
        if (event.path, event.path) != (truth.path, f"{event.collection}/{event.key}") or parts != trigger.parts(
            truth.path
        ):
            raise Violation(f"{who}: {event.path} and {parts} are not those of {truth.path}")
        sides = {"before": (event.before, truth.before.data), "after": (event.after, truth.after.data)}
        if wrong := [
            name for name, (seen, real) in sides.items() if seen != real and not (event.partial and seen is None)
        ]:
            raise Violation(f"{who}: {' and '.join(wrong)} is wrong, and it is not partial")
        if event.kind != truth.kind and not (event.partial and not event.kind):
            raise Violation(f"{who}: it is {event.kind}, and was {truth.kind}")
        is_large = LARGE in (truth.before.data, truth.after.data) and self.task_bytes_max == SMALL_TASKS
        if event.partial and not truth.missing and not is_large:
            raise Violation(f"{who}: it is partial, and was whole")

    def _note_order(self, trigger: Trigger, event: DocumentEvent, content: Any) -> None:
        """Note what a handler in order did. A partial event has the version that its handler read."""
        key = trigger.name, event.path
        self.copies[key] = content and {name: content[name] for name in ("n", "text") if name in content}
        number = self.triggers.events[event.id].number
        if event.partial:
            return
        if self.handled[key] and number < self.handled[key][-1]:
            raise Violation(f"{trigger.name} handled {event.id} of {event.path} after e{self.handled[key][-1]}")
        self.handled[key].append(number)

    def _check_rest(self) -> None:
        expected = [each for event in self.triggers.events.values() for each in self.triggers.expected(event)]
        names = {f"{trigger.name} {event.id}": (trigger, event) for trigger, event in expected}
        if strangers := sorted(self.ran.keys() - names.keys()):
            raise Violation(f"{strangers} took effect, and no trigger selects them")
        last = {(trigger.name, event.path): event.number for trigger, event in expected}
        read_later = {
            (trigger.name, event.path)
            for trigger, event in expected
            if self.ran[f"{trigger.name} {event.id}"] and not event.has_times
        }
        for what, (trigger, event) in names.items():
            times = len(self.ran[what])
            place = trigger.name, event.path
            if times == 0 and trigger.in_order is True and (event.number < last[place] or place in read_later):
                REACHED[OVERTAKEN] += 1
            elif times == 0 or times > len(self.operations[what]):
                raise Violation(f"{what} of {event.path} took effect {times} times")
        for what, operations in self.operations.items():
            if extra := len(operations - {name_of(failure_path(each), "retry") for each in operations}) - 1:
                raise Violation(f"{what} had {extra} tasks more than one, without the retries of failures")
        self._check_copies()

    def _check_copies(self) -> None:
        for (name, path), content in self.copies.items():
            if name.startswith("copied"):
                [read] = self.world.store.read(path, fields=(("n",), ("text",)))
                if content != read.data:
                    raise Violation(f"{name} has {content} as its copy of {path}, which is {read.data}")


def _sweep(ports: Ports) -> None:
    outbox.sweep(ports)
