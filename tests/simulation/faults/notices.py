"""Faults to plant: notices of failures without one clause of their protocol (docs/protocols/tasks.md)."""

from __future__ import annotations

from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.kit_names import FAILURE_NOTICE_TASK
from signalbox.core.ports import Committed, Ports, Write
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import notices

commit = original("core.commit")


def _notices(without: str, instead: Any) -> Fault:
    return Fault("task-13", without, always(("core.commit", instead)), notices.run)


def _after_the_commit(ports: Ports, writes: list[Write], effects: tuple[Effect, ...] = ()) -> Committed:
    told = [effect for effect in effects if effect.task == FAILURE_NOTICE_TASK]
    committed: Committed = commit(ports, writes, [effect for effect in effects if effect not in told])
    if told:
        ports.queue.create(told)
    return committed


def _before_the_commit(ports: Ports, writes: list[Write], effects: tuple[Effect, ...] = ()) -> Committed:
    told = [effect for effect in effects if effect.task == FAILURE_NOTICE_TASK]
    if told:
        ports.queue.create(told)
    committed: Committed = commit(ports, writes, [effect for effect in effects if effect not in told])
    return committed


FAULTS = (
    _notices("a notice in the commit of its failure", _after_the_commit),
    _notices("a notice after the commit of its failure", _before_the_commit),
)
