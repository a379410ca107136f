"""Planted faults of mailboxes: records, guards, what is read, the order (obj-1 to obj-4, obj-8, obj-14)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.core.effects import Effect, name_of
from signalbox.core.ports import Change, Delete, Must, Ports, Put, Snapshot, Store, Write
from signalbox.core.problems import Problem
from signalbox.mailboxes import storage
from signalbox.mailboxes.model.messages import StoredMessage, header_path
from signalbox.objects.machine.turns import Turn
from signalbox.objects.storage import TurnWrites
from tests.simulation.faults.fault import torn
from tests.simulation.faults.objects.planting import in_objects
from tests.simulation.faults.points import original

header_put = storage.header_put
commit = original("core.commit")
writes_of_calls = original("objects.TurnWrites.calls")
writes_of_turn = original("objects.TurnWrites.writes")


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
    """A message that is applied must exist, but may have changed."""
    return Must.EXIST


def _header_first(self: TurnWrites, turn: Turn) -> list[Write]:
    *others, header = writes_of_turn(self, turn)
    return [header, *others]


def _never_looks(store: Store, base: str) -> tuple[Snapshot, bool]:
    return store.read(header_path(base))[0], True


def _due_only(message: StoredMessage, now: datetime) -> bool:
    """A look at the first message says only whether that one is due."""
    return message.due_at is None or message.due_at <= now


def _by_since(page: Any, now: datetime) -> list[StoredMessage]:
    due = [message for message in page if message.due_at is None or message.due_at <= now]
    return sorted(due, key=lambda message: (message.since, message.id))


def _whole(page: Sequence[StoredMessage]) -> list[StoredMessage]:
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
    """The id alone identifies a repeat."""


def _same_revision(before: int, _: datetime) -> int:
    return before or 1


FAULTS = (
    in_objects("obj-1", "what is sent is in the commit it follows from", "core.commit", _sent_after),
    in_objects("obj-2", "the header's guard", "objects.header_put", unguarded),
    in_objects("obj-3", "the guard of each message", "objects.TurnWrites.guard_of", _only_there),
    torn(in_objects("obj-3", "the header as the last write", "objects.TurnWrites.writes", _header_first)),
    in_objects("obj-3", "a look before a call passes", "objects.read_if_free", _never_looks),
    in_objects("obj-4", "the order of commit times", "mailboxes.due_messages", _by_since),
    in_objects("obj-4", "the order of one commit's messages", "objects.Turn.message_id", _hashed),
    in_objects("obj-4", "leaving out the end of a full page", "mailboxes.settled", _whole),
    in_objects("obj-4", "what a call for later may hide", "mailboxes.blocks", _due_only),
    in_objects("obj-8", "receipts", "objects.TurnWrites.calls", _without_receipts),
    in_objects("obj-8", "comparing a repeat with its receipt", "mailboxes.check_same_body", _any_body),
    in_objects("obj-14", "revisions that grow", "objects.next_revision", _same_revision),
)
