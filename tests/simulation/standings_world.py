"""Yokes that are put, changed and deleted, also by other clients, while their standings are counted.

A few users and items, so that two first yokes of an item race and a delete overtakes its create. Some worlds are busy:
a standing that was written a moment ago is left alone for adjustments, and a fold run adds two of them at a time. Kinds
are declared and removed, standings recounted, all yokes walked, an item's yokes removed meanwhile.

Held at rest: each standing equals a recount of the yokes by the declarations, smallest and largest value included; no
adjustment is left; each threshold that a standing notes as crossed has run, and none that it does not note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.core.operations import outbox
from shared.core.operations.ports import Delete, Ports, Put, Query, Snapshot
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem
from shared.standings.operations import counting, recounts, upkeep, yokes
from shared.standings.rules.declarations import Declaration, Declarations, Threshold
from shared.standings.rules.keys import COUNTED, DECLARED, YOKES, StandingKey, YokeKey, collection_of
from shared.standings.rules.standings import Standing
from shared.standings.rules.tallies import ZERO, Tally
from shared.standings.rules.yokes import Yoke
from tests.simulation.fault_rates import FaultRates
from tests.simulation.lengths import operations_max
from tests.simulation.reach import ADJUSTMENTS, REACHED, THRESHOLDS
from tests.simulation.reuse import allow_from_an_old_outbox_record
from tests.simulation.world import Violation, World

USERS, ITEMS, CATEGORIES = ("u", "v", "w"), ("x", "y"), ("a", "b")
VALUES = (None, 0.1, 0.2, 1, 2, 3)
KINDS = ("category", "day")
THRESHOLD = Threshold("count", 2, Call("user", "popular", {}))
RECORDS_MAX = 10_000
LONG_REST_RATE, LONG_REST_SECONDS = 0.2, 8 * 24 * 3_600
"""A week without a call, at rest: what a time-to-live policy names is deleted."""


def run(
    seed: int,
    trace: Callable[[str], None] | None = None,
    late: float = 0.08,
    ahead: Sequence[float] = (0.0, 0.0, 0.003),
) -> None:
    """Run one seed's world until it comes to rest.

    `late` is the rate of events that come hours late, `ahead` by how many seconds the queue's clock may be ahead.
    Raises `Violation` when a property does not hold.
    """
    StandingsWorld(seed, trace, late, ahead).run()


class StandingsWorld:
    """People, other clients, events and the queue `standings`."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None, late: float, ahead: Sequence[float]) -> None:
        self.world = World(seed, FaultRates(abort=0.03, lose_answer=0.05, kill=0.04, delay_event=late, left=6), trace)
        self.world.task_handlers["standing_fold"] = lambda ports, effect: upkeep.run(ports, effect.task, effect.payload)
        self.world.task_handlers["user"] = self._run_threshold
        self.world.events.handler = counting.count_event
        self.world.observers.append(_note)
        self.world.queue.on_reuse = self._check_reuse
        self.random = self.world.random
        self.world.queue.ahead_seconds = self.random.choice(ahead)
        self.ran: Counter[tuple[str, str]] = Counter()
        self.users = USERS[: self.random.choice((1, 2, 3))]
        self.items = ITEMS[: self.random.choice((1, 1, 2))]
        self.deletions = self.random.choice((0.2, 0.5))
        self._number = 0

    def run(self) -> None:
        quiet = self.random.choice((0.0, 0.0005, 0.005))
        pages = dict.fromkeys(("fold_page_max", "fold_pages_max", "count_page_max", "remove_page_max"), 2)
        slots = {"fold_slot_seconds": 0.001, "fold_margin_seconds": 0.0005}
        with LIMITS.replaced(standing_quiet_seconds=quiet, recount_page_max=2, **pages, **slots):
            if self.random.random() < 0.5:
                upkeep.declare(self.world.reliable_ports(), "item", Declaration(("item",), (THRESHOLD,)))
            for _ in range(2):
                self.world.run(self._calls())
                self.world.pass_an_outage()
                if self.random.random() < LONG_REST_RATE:
                    self.world.pass_time(LONG_REST_SECONDS)
            self.world.fault_rates.left = 0
            for _ in range(3):
                self.world.pass_time(LIMITS.outbox_patience_seconds + 60)
                self.world.start("sweep", self._sweep)
                self.world.run()
            self._check_rest()

    def _sweep(self) -> None:
        outbox.sweep(self.world.ports)

    def _calls(self) -> list[Callable[[], None]]:
        upkeeps = int(self.random.random() < 0.4)
        calls = [self._write] * self.random.randint(1, operations_max(5)) + [self._upkeep] * upkeeps
        self.random.shuffle(calls)
        return calls

    # --- people and other clients ---

    def _write(self) -> None:
        ports = self.world.ports
        key = YokeKey(self.random.choice(self.users), self.random.choice(self.items))
        by_another = self.random.random() < 0.3
        if self.random.random() < self.deletions:
            delete = (lambda: _commit(ports, Delete(key.path))) if by_another else (lambda: yokes.delete(ports, key))
            self.world.start(f"deletes {key.id}", delete)
            return
        attributes = {"category": self.random.choice(CATEGORIES)}
        yoke = Yoke(key, self.random.choice(VALUES), attributes)
        put = (lambda: _commit(ports, Put(key.path, yoke.to_record()))) if by_another else (lambda: _put(ports, yoke))
        self.world.start(f"puts {key.id}", put)

    def _upkeep(self) -> None:
        ports, kind = self.world.ports, self.random.choice(KINDS)
        self._number += 1
        by = self.random.choice((("category",), ("item", "category")))
        run_ = f"run {self._number}"
        item = StandingKey("item", self.random.choice(self.items))
        work: dict[str, Callable[[], Any]] = {
            "declares": lambda: upkeep.declare(ports, kind, Declaration(by)),
            "removes a kind": lambda: upkeep.remove_kind(ports, kind),
            "walks": lambda: upkeep.begin_walk(ports, run_),
            "recounts": lambda: recounts.begin_recount(ports, run_, item),
            "removes an item": lambda: upkeep.begin_removal(ports, run_, "item", item.id),
        }
        name = self.random.choice(sorted(work))
        self.world.start(name, work[name])

    def _run_threshold(self, _: Ports, effect: Effect) -> None:
        shown = effect.payload["standing"]
        self.ran[shown["kind"], shown["id"]] += 1

    def _check_reuse(self, effect: Effect) -> None:
        if effect.function == "user":
            allow_from_an_old_outbox_record(self.world, effect)

    # --- what must hold ---

    def _check_rest(self) -> None:
        [declared] = self.world.store.read(DECLARED)
        declarations = Declarations.from_record(declared.data)
        expected = self._recount(declarations)
        held = self._held(declarations)
        for key in sorted(expected.keys() | held.keys()):
            have, want = held.get(key, Standing()), expected.get(key, Standing())
            if _numbers(have) != _numbers(want):
                raise Violation(f"{key.text} has {_numbers(have)}, and its yokes {_numbers(want)}")
            if self.world.store.count(Query(key.adjustments)):
                raise Violation(f"adjustments of {key.text} are left")
            self._check_thresholds(key, have)
        self._check_counted()

    def _recount(self, declarations: Declarations) -> Mapping[StandingKey, Standing]:
        values: dict[StandingKey, list[Any]] = {}
        for one in self._all(YOKES):
            yoke = Yoke.from_record(_key(one.id), one.data)
            for key in declarations.keys_of(yoke) if yoke else ():
                values.setdefault(key, []).append(yoke.value if yoke else None)
        return {key: Standing(sum(map(Tally.of, found), ZERO)).with_extremes(found) for key, found in values.items()}

    def _held(self, declarations: Declarations) -> Mapping[StandingKey, Standing]:
        kinds = {*declarations.kinds, *KINDS}
        found = ((kind, one) for kind in kinds for one in self._all(collection_of(kind)))
        return {StandingKey(kind, one.id): Standing.from_record(one.data) for kind, one in found}

    def _check_thresholds(self, key: StandingKey, standing: Standing) -> None:
        ran, noted = bool(self.ran[key.kind, key.id]), bool(standing.crossed)
        if ran != noted:
            raise Violation(f"{key.text} notes {standing.crossed}, and the task ran: {ran}")

    def _check_counted(self) -> None:
        """A record of what is counted names each yoke, and no other."""
        yokes_left = {one.id for one in self._all(YOKES)}
        counted = {one.id for one in self._all(COUNTED) if one.data and one.data["keys"]}
        if yokes_left != counted:
            raise Violation(f"yokes {sorted(yokes_left)} are counted as {sorted(counted)}")

    def _all(self, collection: str) -> tuple[Snapshot, ...]:
        return self.world.store.query(Query(collection, limit=RECORDS_MAX))


def _key(id_: str) -> YokeKey:
    key = YokeKey.from_id(id_)
    assert key, "the world writes no other ids"
    return key


def _numbers(standing: Standing) -> tuple[Any, ...]:
    return standing.tally.count, standing.tally.values, standing.tally.units, standing.min, standing.max


def _commit(ports: Ports, write: Put | Delete) -> None:
    ports.store.commit([write])


def _put(ports: Ports, yoke: Yoke) -> None:
    try:
        yokes.put(ports, yoke)
    except Problem as problem:
        raise AssertionError("no put is refused here") from problem


def _note(path: str, before: Snapshot, after: Snapshot) -> None:
    if "/adjustments/" in path and after.data is not None:
        REACHED[ADJUSTMENTS] += 1
    if path.startswith("standings/") and after.data is not None and "crossed" in after.data:
        REACHED[THRESHOLDS] += len(after.data["crossed"]) > len((before.data or {"crossed": ()})["crossed"])
