"""Faults to plant: critical sections without one clause of their protocol (docs/protocols/critical-sections.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations import outbox
from shared.core.operations.ports import Committed, Ports, Write
from shared.core.rules.effects import Decision, Effect
from shared.core.rules.problems import Problem
from shared.core.rules.task_context import SectionRun
from shared.semaphores.operations import critical_sections as operations
from shared.semaphores.rules import critical_sections as rules
from shared.semaphores.rules.sections import NextRun, Run, Section
from shared.tasks.operations import task_runner
from tests.simulation import sections_world
from tests.simulation.faults import Fault

advance, call = rules._advance, rules.call


def _sections(clause: str, without: str, module: object, name: str, instead: Any) -> Fault:
    return Fault(clause, without, partial(mock.patch.object, module, name, instead), sections_world.run)


def _granted_beside(key: str, section: Section, now: datetime) -> rules.Decided:
    return advance(key, section if section.next is None else replace(section, run=None), now)


def _ended_alone(_: str, section: Section, token: int, __: datetime) -> rules.Decided:
    if section.run is None or section.run.token != token:
        return Decision(section, False)
    return Decision(replace(section, run=None), True)


def _ended_by_anybody(key: str, section: Section, _: int, now: datetime) -> rules.Decided:
    return replace(advance(key, replace(section, run=None), now), answer=True)


def _kept_on_a_problem(ports: Ports, granted: Mapping[str, Any], code: Callable[[SectionRun], object]) -> None:
    run = operations.claim(ports, granted)
    if run is None:
        return
    try:
        code(run)
    except Problem:
        raise
    except Exception:
        operations.let_go(ports, run)
        raise
    operations.end(ports, run)


def _never_held(_: Run, __: datetime) -> bool:
    return False


def _tasks_afterwards(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


def _woken_early(key: str, section: Section, _: datetime, now: datetime) -> rules.Decided:
    return advance(key, section, now)


def _armed_by_the_past(section: Section, next_: NextRun, _: datetime) -> bool:
    return section.alarm_at is not None and section.alarm_at <= next_.due_at


def _granted_at_any_wake(key: str, section: Section, _: datetime, now: datetime) -> rules.Decided:
    due = section.next and replace(section.next, due_at=now)
    return advance(key, replace(section, next=due), now)


def _forgetful(key: str, section: Section, *given: Any) -> rules.Decided:
    return call(key, replace(section, ids=()), *given)


def _counted_from_the_record(section: Section, _: datetime) -> int:
    return section.token + 1


FAULTS = (
    _sections("section-1", "waiting for the run that goes on", rules, "_advance", _granted_beside),
    _sections("section-1", "the next in the commit of the end", rules, "end", _ended_alone),
    _sections("section-1", "the end of a run that fails for good", task_runner, "_run_in_section", _kept_on_a_problem),
    _sections("section-2", "waiting for another delivery's lease", Run, "is_held", _never_held),
    _sections("section-2", "the token that ends a run", rules, "end", _ended_by_anybody),
    _sections("section-3", "the run's task in the commit", outbox, "commit", _tasks_afterwards),
    _sections("section-4", "refusing a wake that is early", rules, "wake", _woken_early),
    _sections("section-4", "a new wake once the old one is due", rules, "_is_armed", _armed_by_the_past),
    _sections("section-4", "the due time at the wake", rules, "wake", _granted_at_any_wake),
    _sections("section-5", "the ids of the last calls", rules, "call", _forgetful),
    _sections("section-6", "tokens made from the time", rules, "_next_token", _counted_from_the_record),
)
