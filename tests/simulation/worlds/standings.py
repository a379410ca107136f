"""Yokes that are put, changed and deleted, also by other clients, while their standings are counted.

There are few users and items, so that two first yokes of an item race and the event of a deletion arrives before that
of the creation. In some worlds standings are busy: changes become adjustments, and a fold run adds two at a time.
Meanwhile kinds are declared and removed, standings recounted, all yokes walked, and the yokes of an item removed. In
some worlds events are lost and another client writes standings; then a nightly walk repairs them.

In some worlds values are so large that their sum exceeds 64 bits. In some, standings are read meanwhile: one without
pending adjustments includes every change that was counted before it was read.

Checked at rest: each standing equals a recount of the yokes by the declarations, including the extremes; no adjustment
is left; each threshold that a standing notes as crossed has run, and no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any
from unittest import mock

from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Delete, DocumentEvent, Ports, Put, Query, Snapshot
from signalbox.core.problems import Problem, Unavailable
from signalbox.standings import tasks
from signalbox.standings.machine import OF_A_RECORD
from signalbox.standings.model import exact_sums
from signalbox.standings.model.aggregates import Counted, Standing
from signalbox.standings.model.declarations import Declaration, Declarations, Threshold
from signalbox.standings.model.exact_sums import ZERO, Tally, Value
from signalbox.standings.model.yokes import COUNTED, DECLARED, YOKES, StandingKey, Yoke, YokeKey, collection_of
from signalbox.standings.service import declarations, reads, yokes
from signalbox.testing.replaced_limits import replaced
from tests.compatibility.last_release import TODAY
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import ADJUSTMENTS, COUNTED_TOGETHER, REACHED, THRESHOLDS
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.versions import version_now, versions_of
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max

USERS, ITEMS, CATEGORIES = ("u", "v", "w"), ("x", "y"), ("a", "b")
VALUES = (None, 0.1, 0.2, 1, 2, 3)
LARGE = 2**62
LARGE_VALUES = (None, LARGE, LARGE, 1, -LARGE, LARGE)
"""Two of them exceed 64 bits."""

LARGE_RATE, READ_RATE, READS_MAX = 0.08, 0.15, 6
KINDS = ("category", "day")
THRESHOLD = Threshold("count", 2, Call("user", "popular", {}))
RECORDS_MAX = 10_000
BAD_DAY_RATE, LOST_RATE = 0.15, 0.5
"""Worlds in which events are lost, and the share of these."""

TOGETHER = (0.0, 0.5, 1.0)
"""Probabilities, of which each world draws one, that a process counts the yokes of all events that wait."""

WAITING = (2, 3, 4)
"""How many events must wait in such a world before the first of them is delivered."""

UNREADABLE = "many"
"""What another client writes instead of a number."""

UNREADABLE_RATE = 0.5
"""The share of the standings overwritten by another client that cannot be read afterwards."""

LONG_REST_RATE, LONG_REST_SECONDS = 0.2, 8 * 24 * 3_600
"""A week without calls, at rest: records are deleted by the time-to-live policies."""


def run(
    seed: int,
    trace: Callable[[str], None] | None = None,
    late: float = 0.08,
    ahead: Sequence[float] = (0.0, 0.0, 0.003),
    bad_days: float = BAD_DAY_RATE,
    recounts_max: int = 0,
    users: Sequence[int] = (1, 2, 3),
    writes_max: int = 5,
    reads: float = READ_RATE,
    together: Sequence[float] = TOGETHER,
) -> None:
    """Run one seed's world until it comes to rest.

    `late` is the rate of events that come hours late, `ahead` by how many seconds the queue's clock may be ahead,
    `bad_days` the rate of worlds in which events are lost, `reads` of those in which standings are read, `together` the
    probabilities that a process counts the yokes of all events that wait. There are up to `recounts_max` recounts more,
    and `users` and `writes_max` for each of two rounds. A single user always gives the same value.
    Raises `Violation` when a property does not hold.
    """
    StandingsWorld(seed, trace, late, ahead, bad_days, recounts_max, users, writes_max, reads, together).run()


class StandingsWorld:
    """People, other clients, events and the queue `standings`."""

    def __init__(
        self,
        seed: int,
        trace: Callable[[str], None] | None,
        late: float,
        ahead: Sequence[float],
        bad_days: float,
        recounts_max: int,
        users: Sequence[int],
        writes_max: int,
        reads: float,
        together: Sequence[float],
    ) -> None:
        self.world = World(seed, FaultRates(abort=0.03, lose_answer=0.05, kill=0.04, delay_event=late, left=6), trace)
        self.world.task_handlers["standing_fold"] = self._run_task
        self.world.task_handlers["user"] = self._run_threshold
        self.world.events.handler = self._count_event
        self.world.observers.append(_note)
        self.world.queue.on_reuse = self._check_reuse
        self.random = self.world.random
        self.world.queue.ahead_seconds = self.random.choice(ahead)
        self.ran: Counter[tuple[str, str]] = Counter()
        self.users = USERS[: self.random.choice(users)]
        self.values: Sequence[Value] = VALUES if len(users) > 1 or users[0] > 1 else VALUES[:1]
        self.writes_max = writes_max
        self.items = ITEMS[: self.random.choice((1, 1, 2))]
        self.deletions = self.random.choice((0.2, 0.5))
        self.recounts_max = recounts_max
        self.is_bad_day = self.random.random() < bad_days
        self._number = 0
        own = Random(f"{seed}-sums")
        self.is_large = own.random() < LARGE_RATE
        self.together = own.choice(together)
        self._own = own
        self._unreadable = Random(f"{seed}-unreadable")
        self.unreadable: set[str] = set()
        self.unreadable_rate = 0.0 if versions_of(seed) else UNREADABLE_RATE  # the last release does not repair them
        self.reads = own.randint(1, READS_MAX) if own.random() < reads else 0
        if self.is_large:
            self.values = LARGE_VALUES[: len(self.values)]
        self._moved: list[tuple[int, Mapping[StandingKey, Tally]]] = []
        if self.reads:
            self.world.observers.append(self._note_moves)

    def run(self) -> None:
        quiet = self.random.choice((0.0, 0.0005, 0.005))
        pages = dict.fromkeys(("fold_page_max", "fold_pages_max", "count_page_max", "remove_page_max"), 2)
        pages |= dict.fromkeys(("recount_page_max", "recount_pages_max", "recounts_page_max"), 1)
        slots = {"recount_pause_seconds": 0.0005, "fold_slot_seconds": 0.001, "fold_margin_seconds": 0.0005}
        values = mock.patch.object(exact_sums, "VALUE_MAX", LARGE if self.is_large else exact_sums.VALUE_MAX)
        with replaced(standing_quiet_seconds=quiet, **pages, **slots), values:
            if self.random.random() < 0.5:
                declarations.declare(self.world.reliable_ports(), "item", Declaration(("item",), (THRESHOLD,)))
            for _ in range(2):
                self.world.events.least = self._own.choice(WAITING) if self.together else 1
                self.world.run(self._calls())
                self.world.events.least = 1
                self.world.run()
                self.world.pass_an_outage()
                if self.random.random() < LONG_REST_RATE:
                    self.world.pass_time(LONG_REST_SECONDS)
            if self.is_bad_day:
                self._pass_the_night()
            self.world.fault_rates.left = 0
            self._rest()
            self._check_rest()

    def _sweep(self) -> None:
        outbox.sweep(self.world.ports)

    def _run_task(self, ports: Ports, effect: Effect) -> None:
        """Run a task. A fold run of a standing that cannot be read fails, and is retried until a recount repairs it."""
        try:
            tasks.run_task(ports, effect.task, effect.payload)
        except OF_A_RECORD as error:
            if effect.task == "fold" and repr(UNREADABLE) in str(error):
                raise Unavailable(f"answered 500: {error}") from error
            raise

    def _count_event(self, ports: Ports, event: DocumentEvent) -> None:
        """Count the yoke of an event, and perhaps those of others. An event may be lost."""
        if self._is_lost():
            return
        if version_now() != TODAY:
            tasks.count_event(ports, event)
            return
        events = {event.key: event, **self._others(event)}
        left = set(events)
        try:
            counted = tasks.count_events(ports, events)
            left = {id_ for id_, answer in counted.items() if isinstance(answer, Unavailable)}
        finally:  # also if the process is killed
            self.world.events.waiting += [events[id_] for id_ in sorted(left - {event.key})]
        if isinstance(answer := counted[event.key], Exception):
            raise answer

    def _others(self, event: DocumentEvent) -> Mapping[str, DocumentEvent]:
        """Take the other events that wait, one of each yoke, which the process has received meanwhile."""
        if not self.together or self._own.random() >= self.together:
            return {}
        waiting = self.world.events.waiting
        others = {other.key: other for other in waiting if other.key != event.key}
        for other in others.values():
            waiting.remove(other)
        if others:
            REACHED[COUNTED_TOGETHER] += 1
            self.world.log(f"  with {', '.join(f'event {other.id} of {id_}' for id_, other in others.items())}")
        return {id_: other for id_, other in others.items() if not self._is_lost()}

    def _is_lost(self) -> bool:
        lost = self.is_bad_day and self.random.random() < LOST_RATE
        if lost:
            self.world.log("  FAULT: the event is lost")
        return lost

    def _pass_the_night(self) -> None:
        """Run what is scheduled each night, after another client has written some standings."""
        self.is_bad_day = False
        self._rest()
        for kind in Declarations.from_record(self.world.store.read(DECLARED)[0].data).kinds:
            for one in self._all(collection_of(kind)):
                if self.random.random() < LOST_RATE:
                    _commit(self.world.reliable_ports(), Put(one.path, self._broken(one)))
        for night in ("night", "next night") if self.unreadable else ("night",):
            self.world.fault_rates.left = 0
            reads.begin_walk(self.world.reliable_ports(), night)
            self.world.fault_rates.left = 2
            self.world.run()
            self._rest()
            self._check_recounted()

    def _check_recounted(self) -> None:
        """Check that a night's recounts have rebuilt each unreadable standing from the counted records."""
        values: dict[StandingKey, list[Value]] = {}
        for one in self._all(COUNTED):
            for key, value in (Counted.from_record(one.data) or Counted()).entries.items():
                values.setdefault(key, []).append(value)
        for kind in Declarations.from_record(self.world.store.read(DECLARED)[0].data).kinds:
            for one in self._all(collection_of(kind)):
                found = values.get(StandingKey(kind, one.id), [])
                want = Standing(sum(map(Tally.of, found), ZERO)).with_extremes(found)
                if one.path in self.unreadable and _numbers_of(one.data) != _numbers(want):
                    raise Violation(f"{one.path} is not repaired: {one.data}, and {_numbers(want)} is counted")

    def _broken(self, standing: Snapshot) -> Mapping[str, Any]:
        """Return another client's record of a standing: with other numbers, or one that cannot be read.

        A yoke of the latter whose event was lost is counted by the next night's walk.
        """
        wrong = replace(Standing.from_record(standing.data), tally=Tally(7, 1, 5), min=-1, max=9).to_record()
        if self._unreadable.random() < self.unreadable_rate:
            self.unreadable.add(standing.path)
            return {**wrong, "units": UNREADABLE}
        return wrong

    def _rest(self) -> None:
        for _ in range(3):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 60)
            self.world.start("sweep", self._sweep)
            self.world.run()

    def _calls(self) -> list[Callable[[], None]]:
        upkeeps = int(self.random.random() < 0.4)
        calls = [self._write] * self.random.randint(1, operations_max(self.writes_max)) + [self._upkeep] * upkeeps
        calls += [self._begin_recount] * (self.random.randint(0, self.recounts_max) if self.recounts_max else 0)
        calls += [self._read] * self.reads
        self.random.shuffle(calls)
        return calls

    # --- people and other clients ---

    def _write(self) -> None:
        ports = self.world.ports
        key = YokeKey(self.random.choice(self.users), self.random.choice(self.items))
        by_another = self.random.random() < 0.3
        if self.random.random() < self.deletions:
            delete = (
                (lambda: _commit(ports, Delete(key.path))) if by_another else (lambda: yokes.delete_yoke(ports, key))
            )
            self.world.start(f"deletes {key.id}", delete)
            return
        attributes = {"category": self.random.choice(CATEGORIES)}
        yoke = Yoke(key, self.random.choice(self.values), attributes)
        put = (lambda: _commit(ports, Put(key.path, yoke.to_record()))) if by_another else (lambda: _put(ports, yoke))
        self.world.start(f"puts {key.id}", put)

    def _upkeep(self) -> None:
        ports, kind = self.world.ports, self.random.choice(KINDS)
        self._number += 1
        by = self.random.choice((("category",), ("item", "category")))
        run_ = f"run {self._number}"
        item = StandingKey("item", self.random.choice(self.items))
        work: dict[str, Callable[[], Any]] = {
            "declares": lambda: declarations.declare(ports, kind, Declaration(by)),
            "removes a kind": lambda: declarations.remove_kind(ports, kind),
            "walks": lambda: reads.begin_walk(ports, run_),
            "recounts": lambda: reads.begin_recount(ports, run_, item),
            "removes an item": lambda: yokes.begin_removal(ports, run_, "item", item.id),
        }
        name = self.random.choice(sorted(work))
        self.world.start(name, work[name])

    def _begin_recount(self) -> None:
        self._number += 1
        run_, item = f"run {self._number}", StandingKey("item", self.random.choice(self.items))
        self.world.start("recounts", lambda: reads.begin_recount(self.world.ports, run_, item))

    def _read(self) -> None:
        key = StandingKey("item", self.random.choice(self.items))
        self.world.start(f"reads {key.text}", lambda: self._check_shown(key))

    def _check_shown(self, key: StandingKey) -> None:
        """Read a standing. If nothing is pending, it includes all changes counted before, and perhaps later ones."""
        began = sum(commit < self.world.store.whole for commit, _ in self._moved)
        shown = reads.get_standing(self.world.ports, key)
        if shown.pending:
            return
        before, since = self._moves_of(key, 0, began), self._moves_of(key, began, len(self._moved))
        some = (chosen for count in range(len(since) + 1) for chosen in combinations(since, count))
        if not any(sum((*before, *chosen), ZERO) == shown.standing.tally for chosen in some):
            raise Violation(
                f"{key.text} was {sum(before, ZERO)}, then {since}, and was shown as {shown.standing.tally}"
            )

    def _moves_of(self, key: StandingKey, first: int, last: int) -> list[Tally]:
        return [moved[key] for _, moved in self._moved[first:last] if key in moved]

    def _note_moves(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Note what a write of a counted record adds to each standing, and by which commit."""
        if not path.startswith(f"{COUNTED}/"):
            return
        old, new = (_entries(snapshot) for snapshot in (before, after))
        moved = {key: new.get(key, ZERO) - old.get(key, ZERO) for key in old.keys() | new.keys()}
        added = {key: tally for key, tally in moved.items() if tally != ZERO}
        self._moved.append((self.world.store.commits, added))

    def _run_threshold(self, _: Ports, effect: Effect) -> None:
        shown = effect.payload["standing"]
        self.ran[shown["kind"], shown["id"]] += 1

    def _check_reuse(self, effect: Effect) -> None:
        if effect.function == "user" and not self.unreadable:  # an emptied standing may cross its threshold again
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
            if have.recount:
                raise Violation(f"a recount of {key.text} has stopped")
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
        if noted > ran or (ran > noted and key.path not in self.unreadable):
            raise Violation(f"{key.text} notes {standing.crossed}, and the task ran: {ran}")

    def _check_counted(self) -> None:
        """A record of what is counted names each yoke, and no other."""
        yokes_left = {one.id for one in self._all(YOKES)}
        counted = {one.id for one in self._all(COUNTED) if one.data and one.data["keys"]}
        if yokes_left != counted:
            raise Violation(f"yokes {sorted(yokes_left)} are counted as {sorted(counted)}")

    def _all(self, collection: str) -> tuple[Snapshot, ...]:
        return self.world.store.query(Query(collection, limit=RECORDS_MAX))


def _entries(snapshot: Snapshot) -> Mapping[StandingKey, Tally]:
    counted = Counted.from_record(snapshot.data)
    return {key: Tally.of(value) for key, value in counted.entries.items()} if counted else {}


def _key(id_: str) -> YokeKey:
    key = YokeKey.from_id(id_)
    assert key, "the world writes no other ids"
    return key


def _numbers_of(record: Any) -> object:
    """Return the numbers of a standing's record; None if it cannot be read."""
    try:
        return _numbers(Standing.from_record(record))
    except OF_A_RECORD:
        return None


def _numbers(standing: Standing) -> tuple[Any, ...]:
    return standing.tally.count, standing.tally.values, standing.tally.units, standing.min, standing.max


def _commit(ports: Ports, write: Put | Delete) -> None:
    ports.store.commit([write])


def _put(ports: Ports, yoke: Yoke) -> None:
    try:
        yokes.put_yoke(ports, yoke)
    except Problem as problem:
        raise AssertionError("no put is refused here") from problem


def _note(path: str, before: Snapshot, after: Snapshot) -> None:
    if "/adjustments/" in path and after.data is not None:
        REACHED[ADJUSTMENTS] += 1
    if path.startswith("standings/") and after.data is not None and "crossed" in after.data:
        REACHED[THRESHOLDS] += len(after.data["crossed"]) > len((before.data or {"crossed": ()})["crossed"])
