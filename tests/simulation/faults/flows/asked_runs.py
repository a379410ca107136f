"""Planted faults that a model of requests to a run notices: what each caller sees, one request after another."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import Store
from signalbox.flows.machine.driver import Driver
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Cancel
from signalbox.flows.requests import SAME
from signalbox.flows.service.turns import FlowMailbox
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always, original
from tests.simulation.worlds.asked_runs import compared

passed_on = original("flows.Driver.passed_on")
with_unread = original("flows.with_unread")


def _noticed(clause: str, without: str, *replacements: Replacement) -> Fault:
    return Fault(clause, without, always(*replacements), compared.run)


def _never(*_: Any) -> bool:
    return False


def _latest_first(driver: Driver, unanswered: Collection[str]) -> Any:
    return [*reversed(passed_on(driver, unanswered))]


def _any_run(_: FlowHeader, if_exists: str) -> bool:
    return if_exists != SAME


def _unread_alone(store: Store, read: FlowMailbox, header: FlowHeader) -> tuple[FlowMailbox, FlowHeader]:
    found, header = with_unread(store, read, header)
    events = tuple(each for each in found.mailbox.waiting if each.data["kind"] != Cancel.kind)
    return (replace(found, mailbox=replace(found.mailbox, waiting=events)) if header.collects else read), header


def _no_warning(*_: Any) -> str:
    return ""


FAULTS = (
    _noticed("flow-4", "the most that a turn keeps", ("flows.FlowTurn.has_no_room", _never)),
    _noticed("flow-40", "the most that wait for an answer", ("flows.FlowTurn.has_too_many", _never)),
    _noticed("flow-41", "the order of what is passed on", ("flows.Driver.passed_on", _latest_first)),
    _noticed("flow-43", "replacing ended runs only", ("flows.is_replaced", _any_run)),
    _noticed("flow-43", "the warning about a name", ("flows.warning_of", _no_warning)),
    _noticed("rewind-6", "a cancel before what the end has left unread", ("flows.with_unread", _unread_alone)),
)
