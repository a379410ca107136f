"""Batches of a few units, loaded, sealed, done, failed, tried again, cancelled and removed by processes that die.

Bounds are so small that a dozen units make a tree with all its levels. Held at every write: nothing is announced before
every unit that was accepted has its outcome; an outcome is not overwritten but by a later attempt at what failed; no
record of a removed life comes back. Held once quiet: every sealed batch has ended, was announced once under one name,
and its counts are those of its records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

from shared.operations import batch_sweep, batch_tasks, batch_units, batches, outbox
from shared.operations.ports import Ports, Query, Snapshot
from shared.rules import batch_requests as requests
from shared.rules import batch_tree
from shared.rules import batch_units as units
from shared.rules import batches as rules
from shared.rules.batch_requests import Order
from shared.rules.batches import Header, Unit
from shared.rules.bounds import BATCH_DEADLINE_SECONDS, BATCH_KEEP_SECONDS, BATCH_LOOK_SECONDS, OUTBOX_PATIENCE_SECONDS
from shared.rules.calls import Call
from shared.rules.effects import Effect
from shared.rules.problems import Problem
from tests.simulation.world import Chances, Violation, World

SMALL = (
    (batch_tree, "COUNTER_UNITS_MAX", 2),
    (batch_tree, "NODE_CHILDREN_MAX", 2),
    (requests, "PAGE_UNITS_MAX", 3),
    (batch_units, "UNITS_LISTED_MAX", 2),
    (batch_tasks, "UNITS_LISTED_MAX", 2),
    (batch_sweep, "CLEAN_RECORDS_MAX", 4),
    (batch_sweep, "WALK_NODES_MAX", 3),
)

HURRIED_SECONDS = 30

WORK = Call("painter", "paint", {})
ANNOUNCE = Call("painter", "announce", {})


@dataclass(frozen=True, slots=True)
class Kind:
    """What a world is about; each makes other races likely.

    `paged` ones load page by page, and race the seal. Units `from_outside` are completed by callers who do not ask
    twice. `failing` units fail at first and are tried again. `cancelled` batches are cancelled at some time. `removed`
    ones are removed, and their id is used again while old deliveries are still about. In `nested` ones the first unit
    is a batch. `hurried` ones reach their deadline, without some units or just with the last. In `walked` ones the
    sweeper walks while units come in.
    """

    units_max: int
    paged: bool = False
    from_outside: bool = False
    failing: bool = False
    cancelled: bool = False
    removed: bool = False
    nested: bool = False
    hurried: bool = False
    walked: bool = False
    failures_max: int | None = None


KINDS = (
    Kind(3),
    Kind(9),
    Kind(16),
    Kind(9, paged=True),
    Kind(6, paged=True, failing=True),
    Kind(5, from_outside=True),
    Kind(9, from_outside=True, paged=True),
    Kind(6, from_outside=True, hurried=True),
    Kind(4, hurried=True),
    Kind(9, walked=True),
    Kind(6, walked=True, failing=True, failures_max=1),
    Kind(6, failing=True),
    Kind(6, failing=True, failures_max=1),
    Kind(6, cancelled=True),
    Kind(4, removed=True),
    Kind(5, removed=True, cancelled=True),
    Kind(4, nested=True),
    Kind(3, nested=True, cancelled=True),
)


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Let one seed's world come to rest. Raises `Violation` when a property does not hold."""
    BatchesWorld(seed, trace).run()


class BatchesWorld:
    """One batch `b` (and its sub-batch), its callers, its units and its sweepers."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, Chances(kill=0.03, lose_answer=0.04, twice=0.08), trace)
        self.kind = self.world.random.choice(KINDS)
        self.world.task_handlers["batch_expand"] = lambda ports, effect: batches.follow(
            ports, effect.task, effect.payload
        )
        self.world.task_handlers["painter"] = self._paint
        self.world.observers.append(self._check_write)
        self.deliveries: Counter[str] = Counter()
        self.announced: dict[str, set[str]] = {}
        self.said: dict[str, Mapping[str, Any]] = {}
        self.unit_tasks: list[Effect] = []
        self.lives: set[str] = set()
        self.results = 0

    def run(self) -> None:
        with ExitStack() as small:
            for module, name, value in SMALL:
                small.enter_context(mock.patch.object(module, name, value))
            self._first_life()
            if self.kind.failing:
                self._try_again()
            if self.kind.removed:
                self._second_life()
            self._check_nothing_left_behind()

    def _first_life(self) -> None:
        random = self.world.random
        size = random.randint(0, self.kind.units_max)
        beginnings = [*self._loading(size)]
        if self.kind.from_outside:
            lost = random.choice((0, 0, 1, 2)) if self.kind.hurried else 0
            beginnings += [partial(self._outside, index) for index in random.sample(range(size), max(0, size - lost))]
            beginnings.append(self._look)
        if (self.kind.hurried or self.kind.walked) and random.random() < 0.7:
            beginnings += [self._look] * random.randint(1, 2)
        if self.kind.cancelled and random.random() < 0.8:
            beginnings.append(lambda: self._call("cancels", lambda: batches.cancel(self.world.ports, "b")))
        if self.kind.failing and random.random() < 0.5:
            beginnings.append(
                lambda: self._call("asks for retries", lambda: batches.retry(self.world.ports, "b", None))
            )
        self.world.run(beginnings)
        if self.kind.paged:
            self._seal(len([page for page in self._records(f"{rules.path_of('b')}/pages") if "size" in page]))
            self.world.run()
        self._settle()

    def _look(self) -> None:
        """The sweeper comes while units are being completed."""
        self.world.pass_time(HURRIED_SECONDS / 2 if self.kind.hurried else BATCH_LOOK_SECONDS)
        self.world.start("sweep", lambda: self._swept(batches.sweep))

    # --- what callers do ---

    def _order(self, size: int, sealed: bool) -> Order:
        return Order(
            units=[{"n": number} for number in range(size)],
            task=None if self.kind.from_outside else WORK,
            on_complete=ANNOUNCE,
            sealed=sealed,
            failures_max=self.kind.failures_max,
            deadline_seconds=HURRIED_SECONDS if self.kind.hurried else BATCH_DEADLINE_SECONDS,
        )

    def _loading(self, size: int) -> list[Callable[[], None]]:
        """Load all in one call, or begin, add pages and seal: by callers who repeat what is not known to be done."""
        if not self.kind.paged:
            order = self._order(size, sealed=True)
            return [lambda: self._call("populates", lambda: batches.populate(self.world.ports, "b", order))]
        first = self.world.random.randint(0, size // 2)
        order = self._order(first, sealed=False)
        cut = requests.cut([{"n": number} for number in range(size - first)])
        begun = len(requests.cut(order.units))
        self._call("populates", lambda: batches.populate(self.world.ports, "b", order))
        self.world.run()
        adding = [partial(self._add, begun + at, page) for at, page in enumerate(cut)]
        at = self.world.random.randint(max(0, len(adding) - 1), len(adding))
        pages = begun + self.world.random.randint(max(0, len(cut) - 1), len(cut))
        return [*adding[:at], partial(self._seal, pages), *adding[at:], partial(self._seal, begun + len(cut))]

    def _add(self, number: int, page: Any) -> None:
        self._call(f"adds page {number}", lambda: batches.add_page(self.world.ports, "b", number, page), patient=True)

    def _seal(self, pages: int) -> None:
        self._call(f"seals at {pages}", lambda: batches.seal(self.world.ports, "b", pages), patient=True)

    def _outside(self, index: int) -> None:
        """Complete a unit and never ask twice, unless it was not loaded yet."""
        outcome = units.succeeded({"result": self._next_result()})
        work = lambda: batches.complete_from_outside(self.world.ports, "b", index, outcome)  # noqa: E731
        self.world.start(f"completes unit {index}", work)

    def _call(self, name: str, work: Callable[[], object], patient: bool = False) -> None:
        """Begin a call that is repeated until its answer is known; a patient one also repeats what is out of order."""
        tries = [0]

        def once() -> None:
            tries[0] += 1
            try:
                work()
            except Problem as problem:
                if not patient or tries[0] > 4:
                    raise
                self.world.say(f"asks again after: {problem.detail}")
                once()

        self.world.start(name, once, lambda done: None if done else self._call(name, work, patient))

    # --- what tasks do ---

    def _next_result(self) -> int:
        self.results += 1
        return self.results

    def _paint(self, ports: Ports, effect: Effect) -> None:
        self.deliveries[effect.name] += 1
        if effect.task == "announce":
            said = effect.beside["batch"]
            self.announced.setdefault(said["id"], set()).add(effect.name)
            self.said[effect.name] = said
            return
        unit = Unit.of(effect.beside["unit"])
        self.unit_tasks.append(effect)
        if self.deliveries[effect.name] > 1 and batches.resume_unit(ports, unit):
            return
        if self.world.random.random() < 0.5 and not batches.unit_is_wanted(ports, unit):
            return  # else what a process knew some seconds ago said yes
        if self.kind.nested and unit.batch == "b" and unit.index == 0:
            order = Order(units=[{"n": 0}, {"n": 1}], task=WORK, sealed=True)
            batches.populate(ports, unit.child, order, parent=unit)
            return
        batches.complete_unit(ports, unit, self._outcome(unit))

    def _outcome(self, unit: Unit) -> units.Outcome:
        if self.kind.failing and unit.index % 2 == 0 and unit.attempt < 1:
            return units.failed(f"attempt {self._next_result()}")
        return units.succeeded({"result": self._next_result()})

    # --- how a world comes to rest ---

    def _settle(self) -> None:
        """Let the outbox's sweeper do its part; only where callers do not ask twice, the batches' sweeper too."""
        self.world.chances.left = 0
        for _ in range(2):
            self._later(OUTBOX_PATIENCE_SECONDS + 1, outbox.sweep)
        if self.kind.from_outside and not self.kind.hurried:
            self._complete_what_got_lost()
        if self.kind.from_outside or self.kind.hurried:
            self._later(BATCH_LOOK_SECONDS, batches.sweep)
        for _ in range(2):
            self._later(OUTBOX_PATIENCE_SECONDS + 1, outbox.sweep)
        self._check_rest()

    def _later(self, seconds: float, sweep: Callable[[Ports], object]) -> None:
        self.world.pass_time(seconds)
        self.world.start("sweep", lambda: self._swept(sweep))
        self.world.run()

    def _swept(self, sweep: Callable[[Ports], object]) -> None:
        sweep(self.world.ports)

    def _complete_what_got_lost(self) -> None:
        """A commit that did not land is its caller's to repeat; one that landed is not repeated."""
        header = self._header("b")
        if header is None or header.incarnation not in self.lives:
            return
        for node in self._records(f"{rules.path_of('b')}/counters"):
            for index in range(node.get("first", 0), node.get("first", 0) + node["units"] if "first" in node else 0):
                if (
                    self.world.store.read(f"{rules.path_of('b')}/units/{header.incarnation}-{index:08d}")[0].data
                    is None
                ):
                    self._outside(index)
                    self.world.run()

    def _try_again(self) -> None:
        header = self._header("b")
        if header is None or header.state == "cancelled":
            return
        self.world.chances.left = 3
        for _ in range(2):
            self._call("asks for retries", lambda: batches.retry(self.world.ports, "b", None))
        self.world.run()
        self.world.chances.left = 0
        if self._failed("b"):
            raise Violation("what failed was tried again and is still failed")
        self._check_rest(retried=True)

    def _second_life(self) -> None:
        """Long after the end the batch is removed, the id used again, and old tasks come once more."""
        self.world.chances.left = 3
        late = self.world.random.sample(self.unit_tasks, min(2, len(self.unit_tasks)))
        for task in late:
            self.deliveries[task.name] = 0  # as if the queue had kept it all the time
        self.world.pass_time(BATCH_KEEP_SECONDS + BATCH_DEADLINE_SECONDS)
        again: list[Callable[[], None]] = [partial(self.world.tasks.append, task) for task in late]
        sweeps: list[Callable[[], None]] = [self._clean] * 3
        acts = [*again, *sweeps] if self.world.random.random() < 0.5 else [*sweeps, *again]
        self.world.run(acts)
        order = self._order(self.world.random.randint(1, 4), sealed=True)
        self.world.chances.left = 0
        for _ in range(3):
            self._later(BATCH_LOOK_SECONDS, batches.sweep)
        if self._header("b") is not None:
            raise Violation("a batch that ended long ago was not removed")
        self._check_nothing_left_behind()
        self.world.chances.left = 3
        self.announced.clear()
        self._call("populates again", lambda: batches.populate(self.world.ports, "b", order))
        self.world.run([partial(self.world.tasks.append, task) for task in late])
        self._settle()

    def _clean(self) -> None:
        self.world.pass_time(BATCH_LOOK_SECONDS)
        self.world.start("sweep", lambda: self._swept(batches.sweep))

    # --- what must hold at every write ---

    def _check_write(self, path: str, before: Snapshot, after: Snapshot) -> None:
        parts = path.split("/")
        if parts[0] != rules.COLLECTION:
            return
        if len(parts) == 2:
            self._check_header(parts[1], rules.decode(before.data), rules.decode(after.data))
        elif parts[2] == "units" and before.data is not None and after.data is not None:
            self._check_overwritten(path, before.data, after.data)

    @staticmethod
    def _check_overwritten(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        if before["state"] != "failed" or after["attempt"] <= before["attempt"]:
            raise Violation(f"the outcome {before['text']} of {path} became {after['text']}")

    def _check_header(self, batch: str, before: Header | None, after: Header | None) -> None:
        if after is not None:
            self.lives.add(after.incarnation)
        if before is not None and before.ended and after is not None and after.state not in (before.state, "removed"):
            raise Violation(f"{batch} ended twice: {before.state}, then {after.state}")
        if after is None or after.state != "completed" or (before is not None and before.ended):
            return
        loaded, done = self._loaded(batch), self._done(batch)
        if len(done) != loaded or after.size != loaded or after.done != loaded:
            raise Violation(f"{batch} is complete with {len(done)} of {loaded} units done, saying {after.done}")
        if not self.kind.failing and after.failed != self._failed(batch):
            raise Violation(f"{batch} says {after.failed} failed, {self._failed(batch)} did")

    # --- what must hold once quiet ---

    def _check_rest(self, retried: bool = False) -> None:
        for snapshot in self.world.store.query(Query(rules.COLLECTION)):
            header = rules.decode(snapshot.data)
            assert header is not None
            self._check_end(snapshot.id, header, retried)
        if left := self.world.store.query(Query(outbox.COLLECTION)):
            raise Violation(f"the outbox still holds {[snapshot.data for snapshot in left]}")

    def _check_end(self, batch: str, header: Header, retried: bool) -> None:
        if batch != "b" and self.kind.cancelled and header.state == "open":
            return  # its parent was cancelled while it was loaded: it ends at its deadline
        if not header.ended:
            raise Violation(f"{batch} is {header.state} for ever: {self._done(batch)} of {self._loaded(batch)}")
        if batch != "b":
            return
        names = self.announced.get(batch, set())
        if len(names) != 1:
            raise Violation(f"{batch} was announced under {len(names)} names")
        said = self.said[next(iter(names))]
        if (said["state"], said["size"], said["done"]) != (header.state, header.size, header.done):
            raise Violation(
                f"{batch} was announced as {said}, and is {header.state} with {header.done} of {header.size}"
            )
        if header.reason == "deadline" and self.kind.hurried:
            self._check_missing(batch, header)
        elif not self.kind.cancelled and self.kind.failures_max is None and header.state != "completed":
            raise Violation(f"{batch} is {header.state} for no reason: {header.reason}")
        if not _tolerated(self.kind, header) and header.state != "cancelled" and not retried:
            raise Violation(f"{batch} is {header.state} with {header.failed} failures")

    def _check_missing(self, batch: str, header: Header) -> None:
        """What came after the deadline may be named as missing; what never came must be."""
        if header.size != self._loaded(batch):
            return  # a page landed just after the end: it does no work, and is removed with the rest
        undone = set(range(self._loaded(batch))) - set(self._done(batch))
        if not undone <= set(header.missing) or header.done + len(undone) > header.size:
            raise Violation(f"{batch} names {header.missing} as missing, and {undone} are")

    def _check_nothing_left_behind(self) -> None:
        for batch in {"b"}:
            header = self._header(batch)
            now = "" if header is None else header.incarnation
            for part in ("pages", "counters", "units"):
                for snapshot in self.world.store.query(Query(f"{rules.path_of(batch)}/{part}", limit=1_000)):
                    if not snapshot.id.startswith(now) or header is None:
                        raise Violation(f"{snapshot.path} is left of a life that is over")

    # --- what the records say ---

    def _records(self, collection: str) -> list[dict[str, Any]]:
        return [
            dict(one.data) for one in self.world.store.query(Query(collection, limit=1_000)) if one.data is not None
        ]

    def _header(self, batch: str) -> Header | None:
        return rules.decode(self.world.store.read(rules.path_of(batch))[0].data)

    def _loaded(self, batch: str) -> int:
        return sum(page.get("size", 0) for page in self._records(f"{rules.path_of(batch)}/pages"))

    def _done(self, batch: str) -> list[int]:
        return [unit["index"] for unit in self._records(f"{rules.path_of(batch)}/units")]

    def _failed(self, batch: str) -> int:
        return sum(unit["state"] == "failed" for unit in self._records(f"{rules.path_of(batch)}/units"))


def _tolerated(kind: Kind, header: Header) -> bool:
    return kind.failures_max is None or header.failed <= kind.failures_max
