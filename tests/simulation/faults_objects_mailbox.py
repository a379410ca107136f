"""Planted faults of mailboxes: records, guards, what is read, the order (obj-1 to obj-4, obj-8, obj-14)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.core.operations import mailbox, outbox
from shared.core.operations.ports import Change, Delete, Must, Ports, Put, Snapshot, Store
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.mailbox import Waiting, header_path
from shared.core.rules.problems import Problem
from shared.objects.operations import calls, records, runs
from shared.objects.operations.records import TurnWrites
from shared.objects.rules.turns import Turn
from tests.simulation.faults_objects_planting import in_objects

header_put, commit = mailbox.header_put, outbox.commit
writes_of_calls = TurnWrites._calls


def _sent_after(ports: Ports, writes: Any, effects: Sequence[Effect] = ()) -> Any:
    """What a method sends is posted after its turn's commit."""
    own = {write.path.partition("/mailbox/")[0] for write in writes if write.path.endswith("/mailbox/!")}
    if not own:
        return commit(ports, writes, effects)
    sent = [write for write in writes if isinstance(write, Put) and write.path.partition("/mailbox/")[0] not in own]
    committed = commit(ports, [write for write in writes if write not in sent], effects)
    if sent:
        with suppress(Problem):
            ports.store.commit(sent)
    return committed


def unguarded(header: Snapshot, fields: Mapping[str, Any], revision: int) -> Put:
    """Return the write of a header without its guard."""
    return replace(header_put(header, fields, revision), guard=None)


def _only_there(*_: Any) -> Must:
    """A message that is applied must be there, however it has changed."""
    return Must.EXIST


def _never_looks(store: Store, base: str) -> tuple[Snapshot, bool]:
    return store.read(header_path(base))[0], True


def _due_only(message: Waiting, now: datetime) -> bool:
    """Whoever looks at the first message sees only whether that one is due."""
    return message.due_at is None or message.due_at <= now


def _by_since(page: Any, now: datetime) -> list[Waiting]:
    due = [each for each in page if each.due_at is None or each.due_at <= now]
    return sorted(due, key=lambda each: (each.since, each.id))


def _whole(page: Sequence[Waiting]) -> list[Waiting]:
    return list(page)


def _hashed(self: Turn) -> str:
    """The messages of one commit have ids in any order."""
    self._ids += 1
    return name_of(self.address.base, self.revision, self._ids)


def _without_receipts(self: TurnWrites, turn: Turn) -> Iterator[Any]:
    for write in writes_of_calls(self, turn):
        done = isinstance(write, Change) and ("outcome",) in write.fields
        yield Delete(write.path) if done else write


def _any_body(*_: Any) -> None:
    """Whoever has the id has the call."""


def _same_revision(before: int, _: datetime) -> int:
    return before or 1


FAULTS = (
    in_objects("obj-1", "what is sent is in the commit it follows from", outbox, "commit", _sent_after),
    in_objects("obj-2", "the header's guard", records, "header_put", unguarded),
    in_objects("obj-3", "the guard of each message", TurnWrites, "guard_of", _only_there),
    in_objects("obj-3", "a look before a call passes", calls, "read_if_free", _never_looks),
    in_objects("obj-4", "the order of commit times", mailbox, "due_messages", _by_since),
    in_objects("obj-4", "the order of one commit's messages", Turn, "_message_id", _hashed),
    in_objects("obj-4", "leaving out the end of a full page", mailbox, "settled", _whole),
    in_objects("obj-4", "what a call for later may hide", mailbox, "blocks", _due_only),
    in_objects("obj-8", "receipts", TurnWrites, "_calls", _without_receipts),
    in_objects("obj-8", "comparing a repeat with its receipt", mailbox, "check_same_body", _any_body),
    in_objects("obj-14", "revisions that grow", runs, "next_revision", _same_revision),
)
