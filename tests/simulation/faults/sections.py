"""Faults to plant: critical sections without one clause of their protocol (docs/protocols/critical-sections.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.core.effects import Decision, Effect
from signalbox.core.ports import Committed, Ports, Write
from signalbox.core.problems import Problem, Unavailable
from signalbox.critical_sections import service
from signalbox.critical_sections.machine import transitions
from signalbox.critical_sections.model import Grant, NextRun, Phase, Run, Section, SectionRun
from signalbox.critical_sections.requests import SectionRequest
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import sections as sections_world

advance = original("critical_sections.advance")
call = original("critical_sections.call")
claim = original("critical_sections.claim")
merge = original("critical_sections.merge")
phase = original("critical_sections.phase")
run_task = original("critical_sections.run_task")


def _sections(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), sections_world.run)


def _granted_during_a_run(key: str, section: Section, now: datetime) -> transitions.Decided:
    return advance(key, section if section.next is None else replace(section, run=None), now)


def _ended_alone(_: str, section: Section, token: int, __: datetime) -> transitions.Decided:
    if section.run is None or section.run.token != token:
        return Decision(section, False)
    return Decision(replace(section, run=None), True)


def _ended_under_any_token(key: str, section: Section, _: int, now: datetime) -> transitions.Decided:
    return replace(advance(key, replace(section, run=None), now), answer=True)


def _kept_on_a_problem(ports: Ports, granted: Grant, code: Callable[[SectionRun], object]) -> None:
    run = service.claim(ports, granted)
    if run is None:
        return
    try:
        code(run)
    except Problem:
        raise
    except Exception:
        service.release(ports, run)
        raise
    service.end(ports, run)


def _never_held(run: Run, now: datetime) -> Phase:
    at = phase(run, now)
    return Phase.EXPIRED if at is Phase.CLAIMED else at


def _tasks_afterwards(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


def _woken_early(key: str, section: Section, _: datetime, now: datetime) -> transitions.Decided:
    return advance(key, section, now)


def _armed_by_the_past(section: Section, next_: NextRun, _: datetime) -> bool:
    return section.alarm_at is not None and section.alarm_at <= next_.due_at


def _granted_at_any_wake(key: str, section: Section, _: datetime, now: datetime) -> transitions.Decided:
    due = section.next and replace(section.next, due_at=now)
    return advance(key, replace(section, next=due), now)


def _forgetful(key: str, section: Section, *given: Any) -> transitions.Decided:
    return call(key, replace(section, ids=()), *given)


def _counted_from_the_record(section: Section, _: datetime) -> int:
    return section.token + 1


def _released_under_any_token(section: Section, _: int, now: datetime) -> transitions.Decided:
    if section.run is None or section.run.ends_at is None:
        return Decision(section, False)
    return Decision(replace(section, run=replace(section.run, ends_at=now)), True)


def _claimed_by_another(key: str, section: Section, grant: int, delivery: str, now: datetime) -> Any:
    if section.run and section.run.grant == grant and phase(section.run, now) is Phase.CLAIMED:
        raise Unavailable("another delivery of this run may still be running")
    return claim(key, section, grant, delivery, now)


def _promised_by_the_last_call(next_: NextRun | None, request: SectionRequest, now: datetime) -> NextRun:
    return merge(next_ and replace(next_, latest_at=None), request, now)


def _under_its_own_operation(key: str, run: Run) -> Effect:
    return run_task(key, replace(run, resumes=""))


FAULTS = (
    _sections("section-2", "the token that releases a lease", "critical_sections.release", _released_under_any_token),
    _sections("section-2", "the delivery of a claim", "critical_sections.claim", _claimed_by_another),
    _sections("section-1", "waiting for the run in progress", "critical_sections.advance", _granted_during_a_run),
    _sections("section-1", "the next in the commit of the end", "critical_sections.end", _ended_alone),
    _sections("section-1", "the end of a run that fails permanently", "critical_sections.run", _kept_on_a_problem),
    _sections("section-2", "waiting for another delivery's lease", "critical_sections.phase", _never_held),
    _sections("section-2", "the token that ends a run", "critical_sections.end", _ended_under_any_token),
    _sections("section-3", "the run's task in the commit", "core.commit", _tasks_afterwards),
    _sections("section-3", "the sweeper", "critical_sections.sweep", lambda *_: 0),
    _sections("section-3", "one operation for all tasks", "critical_sections.run_task", _under_its_own_operation),
    _sections("section-4", "refusing a wake that is early", "critical_sections.wake", _woken_early),
    _sections("section-4", "a new wake once the old one is due", "critical_sections.has_wake_task", _armed_by_the_past),
    _sections("section-4", "the due time at the wake", "critical_sections.wake", _granted_at_any_wake),
    _sections("section-4", "the latest time of earlier calls", "critical_sections.merge", _promised_by_the_last_call),
    _sections("section-5", "the ids of the last calls", "critical_sections.call", _forgetful),
    _sections("section-6", "tokens made from the time", "critical_sections.next_token", _counted_from_the_record),
)
