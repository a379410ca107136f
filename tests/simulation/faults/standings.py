"""Faults to plant: standings without one clause of their protocol (docs/protocols/standings.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from signalbox.core.effects import Decision, Effect
from signalbox.core.perform import perform as perform_loop
from signalbox.core.ports import Committed, Conflict, Delete, Ports, Put, Snapshot, Store, Write
from signalbox.core.problems import Problem, Unavailable
from signalbox.standings import machine, storage, tasks
from signalbox.standings.machine import Change, LoadedStanding, Visit, Visits
from signalbox.standings.model.aggregates import Adjustment, Counted, Standing, StandingView
from signalbox.standings.model.declarations import Threshold
from signalbox.standings.model.exact_sums import ZERO, Tally
from signalbox.standings.model.recounts import Place, Recount
from signalbox.standings.model.yokes import COUNTED, StandingKey
from signalbox.standings.storage import AdjustmentsPage, FoldReads, VisitReads
from tests.expiry_policies import POLICIES
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacements, always, original
from tests.simulation.worlds import standings as standings_world

counted = original("standings.counting_writes")
with_others = storage._with_others
changed = original("standings.standing_after")
counted_after = original("standings.counted_after")
folded = original("standings.folding_writes")
merged = original("standings.merging_writes")
cross = original("standings.cross")


def _standings(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), standings_world.run)


ALIKE = {"users": (1,), "writes_max": 6}
"""Worlds in which a deleted yoke is often created again, equal to the old one."""


def _recounting(without: str, point: str, instead: Any, **world: Any) -> Fault:
    """A fault of recounts, noticed in worlds with many of them and without nights that repair the standings."""
    fault = _standings("stand-10", without, point, instead)
    return replace(fault, run=partial(standings_world.run, bad_days=0.0, **{"recounts_max": 4, **world}))


def _together(without: str, point: str, instead: Any) -> Fault:
    """A fault of commits that count several yokes, noticed where processes receive many events."""
    fault = _standings("stand-14", without, point, instead)
    return replace(fault, run=partial(standings_world.run, together=(1.0,)))


def _at_night(without: str, point: str, instead: Any) -> Fault:
    """A fault of the nightly walk, noticed in worlds in which events are lost and standings are overwritten."""
    fault = _standings("stand-11", without, point, instead)
    return replace(fault, run=partial(standings_world.run, bad_days=1.0))


def _with_writes(change: Callable[[tuple[Write, ...]], Sequence[Write]]) -> Callable[[Visits], Decision[Any, Any]]:
    """Change the writes of visits."""

    def decide(visits: Visits) -> Decision[Any, Any]:
        decision = counted(visits)
        return replace(decision, state=tuple(change(decision.state)))

    return decide


def _unguarded(writes: Sequence[Write], prefix: str) -> list[Write]:
    return [replace(one, guard=None) if one.path.startswith(prefix) else one for one in writes]


def _record_unguarded(writes: Sequence[Write]) -> Sequence[Write]:
    return _unguarded(writes, COUNTED)


def _standings_unguarded(writes: Sequence[Write]) -> Sequence[Write]:
    return _unguarded(writes, "standings/")


def _first_record_guarded(writes: Sequence[Write]) -> Sequence[Write]:
    """Guard one of the counted records only."""
    return [*writes[:1], *_unguarded(writes[1:], COUNTED)]


def _in_two_commits(*, records_first: bool) -> Callable[..., Any]:
    """Split the commit of visits: one writes the standings, the other the counted records."""

    def perform(ports: Ports, reads: Any, decide: Any) -> Any:
        if not isinstance(reads, VisitReads):
            return perform_loop(ports, reads, decide)

        def commit(decision: Decision[Any, Any]) -> Decision[Any, Any]:
            records = tuple(write for write in decision.state if write.path.startswith(COUNTED))
            standings = tuple(write for write in decision.state if write not in records)
            if standings:
                first, second = (records, standings) if records_first else (standings, records)
                try:
                    ports.store.commit(first)
                except Conflict as error:
                    raise Unavailable("the guard was lost") from error
                return replace(decision, state=second)
            return decision

        return perform_loop(ports, reads, lambda visits: commit(decide(visits)))

    return perform


def _done_if_nothing_changes(visit: Visit) -> bool:
    return visit.before == visit.after and not (visit.counted is None and visit.yoke is None)


def _done_when_gone(visit: Visit) -> bool:
    same = visit.counted is not None and visit.counted.version == visit.version
    return same and visit.counted is not None and visit.counted.revision == visit.declarations.revision


def _done_by_any_declarations(visit: Visit) -> bool:
    return visit.counted is not None and visit.yoke is not None and visit.counted.version == visit.version


def _without_gone_records(visits: Visits) -> Decision[Any, Any]:
    gone = {visit.key.counted_path: visit.counted_at for visit in visits.of_yokes if visit.yoke is None}
    decision = counted(visits)
    kept = [write for write in decision.state if write.path not in gone]
    deletes = [Delete(path, guard) for path, guard in gone.items() if guard]
    return replace(decision, state=(*deletes, *kept))


def _combined_extremes(key: StandingKey, page: AdjustmentsPage) -> Decision[Any, bool]:
    """Keep the extremes in a fold run, without a query of the counted records."""
    held = Standing.from_record(page.standing.data)
    return folded(
        key, replace(page, values=(held.min, held.max, *page.values) if held.min is not None else page.values)
    )


def _values_of_the_page(records: Sequence[Snapshot]) -> bool:
    """Query the extremes only if an adjustment of the page has a value."""
    return has_values(records[1:])


has_values = original("standings.has_values")
take_turn = original("standings.take_turn")


def _emptied_only(ports: Ports, run: str, key: StandingKey, turn: str = "") -> tasks.Turn:
    """End a recount after it has emptied a standing that cannot be read."""
    [read] = ports.store.read(key.path)
    try:
        Standing.from_record(read.data)
    except machine.OF_A_RECORD:
        return tasks.write_recounted(ports, read, Standing(), tasks.OVER, turn)
    done: tasks.Turn = take_turn(ports, run, key, turn)
    return done


def _extremes_first(self: FoldReads, store: Store, attempt: int) -> AdjustmentsPage | None:
    values = storage.extremes(store, self.key)
    page = load_page(self, store, attempt)
    return replace(page, values=values) if page else None


load_page = original("standings.FoldReads.load")


def _time_after_the_adjustments(self: FoldReads, store: Store, attempt: int) -> AdjustmentsPage | None:
    page = load_page(replace(self, not_before=None), store, attempt)
    if self.not_before is not None:
        machine.check_due(store.read(self.key.path)[0].read_time, self.not_before)
    return page


def _kept_extremes(loaded: LoadedStanding, change: Change) -> Standing:
    held = loaded.standing
    new = replace(held, tally=held.tally + change.tally)
    return new.with_extremes((held.min, held.max, *change.added))


def _extremes_but_one(store: Store, key: StandingKey, but: Collection[str] = ()) -> tuple[Any, ...]:
    """Leave out one of the yokes that a commit changes."""
    return extremes(store, key, sorted(but)[:1])


extremes = original("standings.extremes")


def _with_one_place(self: Change) -> Adjustment:
    """Name the place of one of the yokes that an adjustment is of."""
    return Adjustment(self.tally, self.moves[:1])


def _acknowledged_anyway(ports: Ports, events: Any) -> Any:
    answers = count_events(ports, events)
    return {id_: answer if _is_not_counted(ports, id_) else True for id_, answer in answers.items()}


def _is_not_counted(ports: Ports, id_: str) -> bool:
    return not ports.store.read(f"{COUNTED}/{id_}")[0].data


count_events = original("standings.count_events")


def _not_named(visits: Visits, visit: Visit) -> Counted:
    return replace(counted_after(visits, visit), logged=())


def _folded_unguarded(key: StandingKey, page: AdjustmentsPage) -> Decision[Any, bool]:
    decision = folded(key, page)
    return replace(decision, state=tuple(_unguarded(decision.state, "standings/")[:1] + list(decision.state[1:])))


def _folded_blindly(key: StandingKey, page: AdjustmentsPage) -> Decision[Any, bool]:
    """Write the standing without a guard, and delete adjustments whether they exist or not."""
    decision = folded(key, page)
    return replace(decision, state=tuple(replace(one, guard=None) for one in decision.state))


def _merged_blindly(key: StandingKey, page: AdjustmentsPage) -> Decision[Any, bool]:
    """Replace adjustments by their sum whether they still exist or not."""
    decision = merged(key, page)
    return replace(decision, state=tuple(replace(one, guard=None) for one in decision.state))


def _crossed_each_time(standing: Standing, thresholds: Sequence[Threshold]) -> Any:
    standing, reached = cross(replace(standing, crossed=()), thresholds)
    return replace(standing, crossed=()), reached


def _effects_without_outbox(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    with suppress(Unavailable, Problem):
        ports.queue.create(effects)
    return committed


def _written_unguarded(ports: Ports, read: Snapshot, standing: Standing, done: tasks.Turn, _: str) -> tasks.Turn:
    ports.store.commit([Put(read.path, standing.to_record())])
    return done


def _changes_without_places(self: Visit) -> Any:
    """Ignore a yoke that was deleted and created again with the same value."""
    return {key: one for key, one in visit_changes(self).items() if one.tally != ZERO or one.added != one.removed}


visit_changes = Visit.changes.__get__


def _moved_without_recount(self: Standing, tally: Tally, _: Any) -> Standing:
    return replace(self, tally=self.tally + tally, neutral=self.neutral + 1)


def _moved_unnoticed(self: Standing, tally: Tally, moves: Any) -> Standing:
    return replace(moved(self, tally, moves), neutral=0)


moved = original("standings.Standing.moved")


def _covers_up_to_the_cursor(self: Recount, place: Place) -> bool:
    return self.cursor is not None and place <= self.cursor


def _walked_without_those_gone(ports: Ports, run: str, collection: str, cursor: str, *, whole: bool = False) -> None:
    if collection != COUNTED:
        return walk_page(ports, run, collection, cursor, whole=whole)
    return tasks.begin_recounts(ports, run) if whole else None


def _walked_without_visits(ports: Ports, run: str, collection: str, cursor: str, *, whole: bool = False) -> Any:
    """Only recount each night: a yoke that was never counted is not found."""
    return tasks.begin_recounts(ports, run) if whole else walk_page(ports, run, collection, cursor)


walk_page = original("standings.walk_page")


def _first_kind_only(ports: Ports, run: str, kinds: list[str]) -> None:
    enqueue_next(ports, run, [kind for kind in kinds if kind != "user"])


def _first_turn_only(ports: Ports, run: str, key: StandingKey) -> None:
    tasks.take_turn(ports, run, key)


enqueue_next = original("standings.enqueue_next_kind")


def _expired_after_an_hour() -> Replacements:
    policy = replace(POLICIES[COUNTED], offset=timedelta(hours=1))
    return [("expiry.POLICIES", POLICIES | {COUNTED: policy})]


EARLY = "keeping it beyond the last redelivery"


def _pending_afterwards(ports: Ports, key: StandingKey) -> StandingView:
    """Count the adjustments after the standing was read."""
    standing = Standing.from_record(ports.store.read(key.path)[0].data)
    return StandingView(key, standing, storage.pending(ports.store, key))


FAULTS = (
    Fault(
        "stand-12",
        "counting what is pending before the standing is read",
        always(("standings.get_standing", _pending_afterwards)),
        partial(standings_world.run, reads=1.0),
    ),
    _standings("stand-13", "sums beyond 64 bits", "standings.sortable", lambda number: number),
    _standings("stand-1", "one commit (counting first)", "standings.perform", _in_two_commits(records_first=False)),
    _standings("stand-1", "one commit (recording first)", "standings.perform", _in_two_commits(records_first=True)),
    _standings(
        "stand-1",
        "a guard of what was counted",
        "standings.counting_writes",
        _with_writes(_record_unguarded),
    ),
    _standings("stand-2", "the version of what was counted", "standings.is_done", _done_if_nothing_changes),
    _standings("stand-3", "a record of a yoke that is gone", "standings.counting_writes", _without_gone_records),
    _standings("stand-3", "writing that record each time", "standings.is_done", _done_when_gone),
    Fault("stand-3", EARLY, _expired_after_an_hour, partial(standings_world.run, late=0.5)),
    _standings(
        "stand-4",
        "a guard of the standing",
        "standings.counting_writes",
        _with_writes(_standings_unguarded),
    ),
    _standings("stand-5", "a guard of the standing in a fold run", "standings.folding_writes", _folded_unguarded),
    _standings("stand-5", "adding an adjustment once", "standings.folding_writes", _folded_blindly),
    _standings("stand-5", "merging an adjustment once", "standings.merging_writes", _merged_blindly),
    _standings("stand-6", "looking for the extremes in a fold run", "standings.folding_writes", _combined_extremes),
    _standings("stand-6", "asking where the standing has a value", "standings.has_values", _values_of_the_page),
    _standings("stand-6", "extremes after the adjustments", "standings.FoldReads.load", _extremes_first),
    _standings("stand-6", "looking for the next extreme", "standings.standing_after", _kept_extremes),
    _standings("stand-7", "acknowledging after the fold tasks", "standings.count_events", _acknowledged_anyway),
    _standings("stand-7", "the standings that a fold run must look at", "standings.counted_after", _not_named),
    _standings("stand-7", "keeping them while they may be unfolded", "standings.unfolded", lambda *_: []),
    _standings("stand-7", "a fold run not before its slot's end", "standings.check_due", lambda *_: None),
    Fault(
        "stand-7",
        "reading the time before the adjustments",
        always(("standings.FoldReads.load", _time_after_the_adjustments)),
        partial(standings_world.run, ahead=(0.0007, 0.0009)),
    ),
    _standings("stand-8", "the revision of the declarations", "standings.is_done", _done_by_any_declarations),
    _standings("stand-8", "a walk after a declaration", "standings.walk_page", lambda *_, **__: None),
    _standings("stand-9", "noting a threshold that was crossed", "standings.cross", _crossed_each_time),
    _standings("stand-9", "a threshold's task in the standing's commit", "core.commit", _effects_without_outbox),
    _recounting("a guard of the standing in a recount", "standings.write_recounted", _written_unguarded),
    _recounting("looking for adjustments", "standings.is_at_rest", lambda *_: True),
    _recounting("carrying changes into a recount", "standings.Standing.moved", _moved_without_recount),
    _recounting("a write of the standing for each change", "standings.Standing.moved", _moved_unnoticed, **ALIKE),
    _recounting("yokes that are created meanwhile", "standings.Recount.covers", _covers_up_to_the_cursor),
    _recounting(
        "another place of a yoke created again", "standings.Visit.changes", property(_changes_without_places), **ALIKE
    ),
    _together("a guard of each record", "standings.counting_writes", _with_writes(_first_record_guarded)),
    _together("extremes without all of the yokes", "standings.extremes", _extremes_but_one),
    replace(
        _together("the place of each yoke", "standings.Change.adjustment", property(_with_one_place)),
        run=partial(standings_world.run, bad_days=0.0, recounts_max=4, together=(1.0,)),
    ),
    _at_night("visiting yokes", "standings.walk_page", _walked_without_visits),
    _at_night("visiting what was counted of yokes that are gone", "standings.walk_page", _walked_without_those_gone),
    _at_night("recounting", "standings.begin_recounts", lambda *_: None),
    _at_night("recounting all kinds", "standings.enqueue_next_kind", _first_kind_only),
    _at_night("repairing an emptied standing", "standings.take_turn", _emptied_only),
    _at_night("a recount of more than a turn", "standings.recount_or_enqueue", _first_turn_only),
)
