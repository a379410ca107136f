"""Faults to plant: transactions without one clause of their protocol (docs/protocols/transactions.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations import outbox
from shared.core.operations.ports import Change, Committed, Must, Ports, Put, Snapshot, Write
from shared.core.rules.effects import Effect
from shared.core.rules.receipts import receipt_path
from shared.documents.operations import transactions
from shared.documents.operations.document_writes import put_write
from tests.simulation import transactions_world
from tests.simulation.faults import Fault

receipt = transactions._receipt


def _transactions(clause: str, without: str, module: object, name: str, instead: Any) -> Fault:
    return Fault(clause, without, partial(mock.patch.object, module, name, instead), transactions_world.run)


def _put_blindly(*given: Any, **header: Any) -> Any:
    made = put_write(*given, **header)
    return replace(made, write=replace(made.write, guard=None))


def _only_there(read: Snapshot) -> Write:
    return Change(read.path, {}, Must.EXIST)


def _replacing(name: str, returned: object) -> Put:
    """A receipt that nobody looks at before, and that may exist."""
    return replace(receipt(name, returned), path=receipt_path(name), guard=None)


def _tasks_afterwards(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


FAULTS = (
    _transactions("transaction-1", "guarding what is written", transactions, "put_write", _put_blindly),
    _transactions("transaction-1", "guarding what is only read", transactions, "guarded_no_op", _only_there),
    _transactions("transaction-2", "a receipt that must not exist", transactions, "_receipt", _replacing),
    _transactions("transaction-3", "the tasks in the commit", outbox, "commit", _tasks_afterwards),
)
