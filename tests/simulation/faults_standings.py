"""Faults to plant: standings without one clause of their protocol (docs/protocols/standings.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations import outbox
from shared.core.operations.perform import perform as perform_loop
from shared.core.operations.ports import Committed, Conflict, Delete, Ports, Put, Snapshot, Store, Write
from shared.core.rules.effects import Decision, Effect
from shared.core.rules.problems import Problem, Unavailable
from shared.standings.operations import counting, folding, recounts, upkeep
from shared.standings.operations.folding import Page, PageReads
from shared.standings.rules import counting as rules
from shared.standings.rules import tasks
from shared.standings.rules.counting import Change, Counted, LoadedStanding, Visit
from shared.standings.rules.declarations import Threshold
from shared.standings.rules.keys import COUNTED, StandingKey
from shared.standings.rules.recounts import Place, Recount
from shared.standings.rules.standings import Standing
from shared.standings.rules.tallies import ZERO, Tally
from shared.testing.expiry_policies import POLICIES
from tests.simulation import standings_world
from tests.simulation.faults import Fault

counted, with_others, changed = counting._counted, counting._with_others, rules.changed
counted_after, folded, merged, cross = rules.counted_after, folding._folded, folding._merged, Standing.cross


def _standings(clause: str, without: str, module: object, name: str, instead: Any) -> Fault:
    return Fault(clause, without, partial(mock.patch.object, module, name, instead), standings_world.run)


ALIKE = {"users": (1,), "writes_max": 6}
"""Worlds in which a yoke often comes back just as it was."""


def _recounting(without: str, module: object, name: str, instead: Any, **world: Any) -> Fault:
    """A fault of recounts, noticed where there are many, and no night repairs what they do."""
    fault = _standings("stand-10", without, module, name, instead)
    return replace(fault, run=partial(standings_world.run, bad_days=0.0, **{"recounts_max": 4, **world}))


def _at_night(without: str, module: object, name: str, instead: Any) -> Fault:
    """A fault of the nightly walk, noticed where events are lost and standings broken."""
    fault = _standings("stand-11", without, module, name, instead)
    return replace(fault, run=partial(standings_world.run, bad_days=1.0))


def _with_writes(change: Callable[[tuple[Write, ...]], Sequence[Write]]) -> Callable[[Visit], Decision[Any, Any]]:
    """A visit whose writes are changed."""

    def decide(visit: Visit) -> Decision[Any, Any]:
        decision = counted(visit)
        return replace(decision, state=tuple(change(decision.state)))

    return decide


def _unguarded(writes: Sequence[Write], prefix: str) -> list[Write]:
    return [replace(one, guard=None) if one.path.startswith(prefix) else one for one in writes]


def _record_unguarded(writes: Sequence[Write]) -> Sequence[Write]:
    return _unguarded(writes, COUNTED)


def _standings_unguarded(writes: Sequence[Write]) -> Sequence[Write]:
    return _unguarded(writes, "standings/")


RECORD, OTHERS = slice(1), slice(1, None)


def _in_two_commits(first: slice, second: slice) -> Callable[..., Any]:
    """A visit that counts in one commit and records what it counted in another."""

    def perform(ports: Ports, reads: Any, decide: Any) -> Any:
        def commit(decision: Decision[Any, Any]) -> Decision[Any, Any]:
            if len(decision.state) > 1:
                try:
                    ports.store.commit(decision.state[first])
                except Conflict as error:
                    raise Unavailable("the guard was lost") from error
                return replace(decision, state=decision.state[second])
            return decision

        return perform_loop(ports, reads, lambda visit: commit(decide(visit)))

    return perform


def _done_if_nothing_changes(visit: Visit) -> bool:
    return visit.before == visit.after and not (visit.counted is None and visit.yoke is None)


def _done_when_gone(visit: Visit) -> bool:
    same = visit.counted is not None and visit.counted.version == visit.version
    return same and visit.counted is not None and visit.counted.revision == visit.declarations.revision


def _done_by_any_declarations(visit: Visit) -> bool:
    return visit.counted is not None and visit.yoke is not None and visit.counted.version == visit.version


def _without_gone_records(visit: Visit) -> Decision[Any, Any]:
    decision = counted(visit)
    if visit.yoke is not None:
        return decision
    record, *others = decision.state
    gone = [Delete(record.path, record.guard)] if visit.counted_at else []
    return replace(decision, state=(*gone, *others))


def _combined_extremes(key: StandingKey, page: Page) -> Decision[Any, bool]:
    """A fold run that keeps the extremes, and takes no look at what is counted."""
    held = Standing.from_record(page.standing.data)
    return folded(
        key, replace(page, values=(held.min, held.max, *page.values) if held.min is not None else page.values)
    )


def _values_of_the_page(records: Sequence[Snapshot]) -> bool:
    """A fold run does not ask if the adjustments of its page have no values."""
    return has_values(records[1:])


has_values = folding._has_values


def _extremes_first(self: PageReads, store: Store, attempt: int) -> Page | None:
    values = counting.extremes(store, self.key)
    page = load_page(self, store, attempt)
    return replace(page, values=values) if page else None


load_page = PageReads.load


def _time_after_the_adjustments(self: PageReads, store: Store, attempt: int) -> Page | None:
    page = load_page(replace(self, not_before=None), store, attempt)
    if self.not_before is not None:
        tasks.check_due(store.read(self.key.path)[0].read_time, self.not_before)
    return page


def _kept_extremes(loaded: LoadedStanding, change: Change) -> Standing:
    held = loaded.standing
    new = replace(held, tally=held.tally + change.tally)
    return new.with_extremes((held.min, held.max, change.added_value))


def _acknowledged_anyway(ports: Ports, event: Any) -> None:
    try:
        count_event(ports, event)
    except Unavailable:
        if not ports.store.read(f"{COUNTED}/{event.key}")[0].data:
            raise


count_event = counting.count_event


def _not_named(visit: Visit, _: tuple[StandingKey, ...]) -> Counted:
    return replace(counted_after(visit, ()), logged=())


def _folded_unguarded(key: StandingKey, page: Page) -> Decision[Any, bool]:
    decision = folded(key, page)
    return replace(decision, state=tuple(_unguarded(decision.state, "standings/")[:1] + list(decision.state[1:])))


def _folded_blindly(key: StandingKey, page: Page) -> Decision[Any, bool]:
    """The standing is written without a guard, and adjustments are deleted whether they are there or not."""
    decision = folded(key, page)
    return replace(decision, state=tuple(replace(one, guard=None) for one in decision.state))


def _merged_blindly(key: StandingKey, page: Page) -> Decision[Any, bool]:
    """Adjustments are replaced by their sum whether they are still there or not."""
    decision = merged(key, page)
    return replace(decision, state=tuple(replace(one, guard=None) for one in decision.state))


def _crossed_each_time(self: Standing, thresholds: Sequence[Threshold]) -> Any:
    standing, reached = cross(replace(self, crossed=()), thresholds)
    return replace(standing, crossed=()), reached


def _effects_without_outbox(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    with suppress(Unavailable, Problem):
        ports.queue.create(effects)
    return committed


def _written_unguarded(ports: Ports, read: Snapshot, standing: Standing, done: recounts.Turn, _: str) -> recounts.Turn:
    ports.store.commit([Put(read.path, standing.to_record())])
    return done


def _changes_without_places(self: Visit) -> Any:
    """A yoke that was created anew, with the same value, is no change."""
    return {
        key: one
        for key, one in visit_changes(self).items()
        if one.tally != ZERO or one.added_value != one.removed_value
    }


visit_changes = Visit.changes.__get__


def _moved_without_recount(self: Standing, tally: Tally, _: Any) -> Standing:
    return replace(self, tally=self.tally + tally, neutral=self.neutral + 1)


def _moved_unnoticed(self: Standing, tally: Tally, moves: Any) -> Standing:
    return replace(moved(self, tally, moves), neutral=0)


moved = Standing.moved


def _covers_up_to_the_cursor(self: Recount, place: Place) -> bool:
    return self.cursor is not None and place <= self.cursor


def _walked_without_those_gone(ports: Ports, run: str, collection: str, cursor: str, *, whole: bool = False) -> None:
    if collection != COUNTED:
        return walk_page(ports, run, collection, cursor, whole=whole)
    return recounts.begin_all(ports, run) if whole else None


def _walked_without_visits(ports: Ports, run: str, collection: str, cursor: str, *, whole: bool = False) -> None:
    """A night that only recounts: what was never counted is no drift."""
    return recounts.begin_all(ports, run) if whole else walk_page(ports, run, collection, cursor)


walk_page = upkeep.walk_page


def _first_kind_only(ports: Ports, run: str, kinds: list[str]) -> None:
    enqueue_next(ports, run, [kind for kind in kinds if kind != "user"])


def _first_turn_only(ports: Ports, run: str, key: StandingKey) -> None:
    recounts.take_turn(ports, run, key)


enqueue_next = recounts._enqueue_next


def _expired_after_an_hour() -> Any:
    policy = replace(POLICIES[COUNTED], offset=timedelta(hours=1))
    return mock.patch.dict(POLICIES, {COUNTED: policy})


EARLY = "keeping it beyond the last redelivery"

FAULTS = (
    _standings(
        "stand-1", "one commit (counting first)", counting, "perform", _in_two_commits(slice(1, None), slice(1))
    ),
    _standings(
        "stand-1", "one commit (recording first)", counting, "perform", _in_two_commits(slice(1), slice(1, None))
    ),
    _standings(
        "stand-1",
        "a guard of what was counted",
        counting,
        "_counted",
        _with_writes(_record_unguarded),
    ),
    _standings("stand-2", "the version of what was counted", rules, "is_done", _done_if_nothing_changes),
    _standings("stand-3", "a record of a yoke that is gone", counting, "_counted", _without_gone_records),
    _standings("stand-3", "writing that record each time", rules, "is_done", _done_when_gone),
    Fault("stand-3", EARLY, _expired_after_an_hour, partial(standings_world.run, late=0.5)),
    _standings(
        "stand-4",
        "a guard of the standing",
        counting,
        "_counted",
        _with_writes(_standings_unguarded),
    ),
    _standings("stand-5", "a guard of the standing in a fold run", folding, "_folded", _folded_unguarded),
    _standings("stand-5", "adding an adjustment once", folding, "_folded", _folded_blindly),
    _standings("stand-5", "merging an adjustment once", folding, "_merged", _merged_blindly),
    _standings("stand-6", "looking for the extremes in a fold run", folding, "_folded", _combined_extremes),
    _standings("stand-6", "asking where the standing has a value", folding, "_has_values", _values_of_the_page),
    _standings("stand-6", "extremes after the adjustments", PageReads, "load", _extremes_first),
    _standings("stand-6", "looking for the next extreme", rules, "changed", _kept_extremes),
    _standings("stand-7", "acknowledging after the fold tasks", counting, "count_event", _acknowledged_anyway),
    _standings("stand-7", "the standings that a fold run must look at", rules, "counted_after", _not_named),
    _standings("stand-7", "keeping them while they may be unfolded", rules, "_unfolded", lambda _: []),
    _standings("stand-7", "a fold run not before its slot's end", tasks, "check_due", lambda *_: None),
    Fault(
        "stand-7",
        "reading the time before the adjustments",
        partial(mock.patch.object, PageReads, "load", _time_after_the_adjustments),
        partial(standings_world.run, ahead=(0.0007, 0.0009)),
    ),
    _standings("stand-8", "the revision of the declarations", rules, "is_done", _done_by_any_declarations),
    _standings("stand-8", "a walk after a declaration", upkeep, "walk_page", lambda *_, **__: None),
    _standings("stand-9", "noting a threshold that was crossed", Standing, "cross", _crossed_each_time),
    _standings("stand-9", "a threshold's task in the standing's commit", outbox, "commit", _effects_without_outbox),
    _recounting("a guard of the standing in a recount", recounts, "_written", _written_unguarded),
    _recounting("looking for adjustments", Recount, "rests_under", lambda *_: True),
    _recounting("carrying changes into a recount", Standing, "moved", _moved_without_recount),
    _recounting("a write of the standing for each change", Standing, "moved", _moved_unnoticed, **ALIKE),
    _recounting("yokes that are created meanwhile", Recount, "covers", _covers_up_to_the_cursor),
    _recounting("another place of a yoke created anew", Visit, "changes", property(_changes_without_places), **ALIKE),
    _at_night("visiting yokes", upkeep, "walk_page", _walked_without_visits),
    _at_night("visiting what was counted of yokes that are gone", upkeep, "walk_page", _walked_without_those_gone),
    _at_night("recounting", recounts, "begin_all", lambda *_: None),
    _at_night("recounting all kinds", recounts, "_enqueue_next", _first_kind_only),
    _at_night("a recount of more than a turn", recounts, "_recount_or_enqueue", _first_turn_only),
)
