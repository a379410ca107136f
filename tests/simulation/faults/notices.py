"""Faults to plant: notices of failures without one clause of their protocol (docs/protocols/tasks.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.kit_names import FAILURE_NOTICE_TASK
from signalbox.core.ports import Committed, Ports, Write
from signalbox.flows.model.headers import FlowHeader
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds.notices import world as notices

commit, end_notice = original("core.commit"), original("flows.end_notice in commits")


def _notices(without: str, instead: Any, point: str = "core.commit") -> Fault:
    return Fault("task-13", without, always((point, instead)), notices.run)


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


def _once_a_run(header: FlowHeader) -> tuple[Effect, ...]:
    return end_notice(replace(header, rewinds=0))


FAULTS = (
    _notices("a notice in the commit of its failure", _after_the_commit),
    _notices("a notice after the commit of its failure", _before_the_commit),
    _notices("a notice of each end of a run that is retried", _once_a_run, "flows.end_notice in commits"),
    _notices("a notice of a run that its time-out ends", property(lambda _: False), "flows.FlowHeader.is_timed_out"),
    _notices("the locks granted by messages that a stuck run has not applied", lambda _: (), "flows.grants_in"),
)
