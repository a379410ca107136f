"""Faults to plant: transactions without one clause of their protocol (docs/protocols/transactions.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from signalbox.core.code_contents import CodeContent, name_of_code
from signalbox.core.effects import Effect, receipt_path
from signalbox.core.ports import Change, Committed, Must, Ports, Put, Snapshot, Write
from signalbox.documents.model.stamped_contents import path_of
from signalbox.documents.storage.writes import put_write
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import transactions as transactions_world

receipt = original("documents.receipt_of")


def _transactions(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), transactions_world.run)


def _put_blindly(*given: Any, **header: Any) -> Any:
    made = put_write(*given, **header)
    return replace(made, write=replace(made.write, guard=None))


def _only_there(read: Snapshot) -> Write:
    return Change(read.path, {}, Must.EXIST)


def _replacing(name: str, returned: object, digest: str = "") -> Put:
    """A receipt that is not read before, and that may exist."""
    return replace(receipt(name, returned, digest), path=receipt_path(name), guard=None)


def _tasks_afterwards(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


def _by_name(code: Callable[..., object], _: object) -> CodeContent:
    return CodeContent(name_of_code(code), "")


def _without_a_comparison(_: object, __: object) -> None: ...


def _all_of(wanted: Iterable[str], _: object) -> list[str]:
    return [path_of(key) for key in wanted]


FAULTS = (
    _transactions("transaction-1", "the guard of the first read", "documents.not_read_yet", _all_of),
    _transactions("task-10", "the values of a transaction in its key", "tasks.content_of_code", _by_name),
    _transactions("transaction-2", "comparing a transaction", "documents.check_repeated", _without_a_comparison),
    _transactions("transaction-1", "guarding what is written", "documents.put_write in transactions", _put_blindly),
    _transactions("transaction-1", "guarding what is only read", "documents.guarded_no_op", _only_there),
    _transactions("transaction-2", "a receipt that must not exist", "documents.receipt_of", _replacing),
    _transactions("transaction-3", "the tasks in the commit", "core.commit", _tasks_afterwards),
)
