"""Planted faults of mailboxes and objects: each clause of docs/protocols/objects.md left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest import mock

from shared.core.operations import mailbox, outbox
from shared.core.operations.mailbox import Mailbox
from shared.core.operations.ports import Change, Delete, Ports, Put, Snapshot, Store
from shared.core.rules import wake_ups
from shared.core.rules.effects import Effect
from shared.core.rules.mailbox import Waiting, header_path
from shared.core.rules.problems import Problem, Unavailable
from shared.core.rules.wake_ups import WakeUp
from shared.objects.operations import calls, records, runs
from shared.objects.operations.records import TurnWrites
from shared.objects.rules.marks import Mark
from shared.objects.rules.messages import CallRecord
from shared.objects.rules.turns import Turn
from tests.simulation import objects_world
from tests.simulation.faults import Fault

header_put, read_mailbox, completed = mailbox.header_put, mailbox.read_mailbox, wake_ups.completed
effects_of, done, mark_next = records.effects_of, records._done, Mark.next
commit, follow, end = outbox.commit, Turn._follow, Turn._end


def _objects(clause: str, without: str, *plants: tuple[object, str, Any]) -> Fault:
    def plant() -> AbstractContextManager[Any]:
        return _all([mock.patch.object(module, name, instead) for module, name, instead in plants])

    return Fault(clause, without, plant, objects_world.run)


class _all(AbstractContextManager[Any]):  # noqa: N801  a function in all but its spelling
    """Enter several planted replacements at once."""

    def __init__(self, plants: Sequence[Any]) -> None:
        self._plants = plants

    def __enter__(self) -> None:
        for plant in self._plants:
            plant.start()

    def __exit__(self, *_: object) -> None:
        for plant in self._plants:
            plant.stop()


def _unguarded(header: Snapshot, fields: Mapping[str, Any], revision: int) -> Put:
    return replace(header_put(header, fields, revision), guard=None)


def _after_the_line(store: Store, base: str, page_max: int) -> Mailbox:
    """The header is read behind the messages."""
    read = read_mailbox(store, base, page_max)
    return replace(read, header=store.read(header_path(base))[0])


def _never_looks(store: Store, base: str) -> tuple[Snapshot, bool]:
    return store.read(header_path(base))[0], True


def _by_since(page: Any, now: datetime) -> list[Waiting]:
    due = [each for each in page if each.due_at is None or each.due_at <= now]
    return sorted(due, key=lambda each: (each.since, each.id))


def _whole(page: Sequence[Waiting]) -> list[Waiting]:
    return list(page)


def _posted_without_outbox(ports: Ports, message: Put, wake: Effect) -> Any:
    committed = ports.store.commit([message])
    ports.queue.create(completed([wake], committed.commit_time))


def _slot_before_commit(ports: Ports, writes: Any, effects: Sequence[Effect] = ()) -> Any:
    """Wake-ups are named by the time at which the commit was begun."""
    if not any(effect.wakes for effect in effects):
        return commit(ports, writes, effects)
    now = ports.store.read("clock/now")[0].read_time
    return commit(ports, writes, completed(effects, now))


def _not_checked(_: WakeUp, __: Mailbox) -> None:
    """An early run is taken for one that is done."""


def _asks_for_no_more(turn: Turn, function_of: Any, function: str, *, more: bool) -> list[Effect]:
    return effects_of(turn, function_of, function, more=False)


def _never_marked(*_: Any) -> bool:
    return False


def _marked_by_deliveries(ports: Ports, delivery: runs.Run, *_: Any) -> bool:
    return delivery.deliveries > 7


def _not_owned(self: Mark, run: str, now: datetime) -> Mark:
    return mark_next(replace(self, until=None), run, now)


def _marks_nobody(ports: Ports, delivery: runs.Run, mailbox: Mailbox, message: Waiting) -> bool:
    before = Mark.from_record(message.data) or Mark()
    return before.is_spent


def _without_receipts(self: TurnWrites, turn: Turn) -> Iterator[Any]:
    for write in calls_writes(self, turn):
        yield Delete(write.path) if _is_done(write) and isinstance(write, Change) else write


def _is_done(write: Any) -> bool:
    return isinstance(write, Change) and ("outcome",) in write.fields


calls_writes = TurnWrites._calls


def _dropped(self: Turn, target: str, continuation: Any) -> None:
    """A continuation that comes before the outcome is not kept with the call."""
    call = self.calls.get(target)
    if call is None or not call.is_pending:
        follow(self, target, continuation)


def _at_the_end(self: Turn, id_: str, since: datetime, call: CallRecord) -> None:
    """What was held waits again as if it had come now."""
    end(self, id_, self.now, call)


def _forgotten(self: Turn, id_: str, since: datetime, call: CallRecord) -> None:
    end(self, id_, since, replace(call, held=()))


def _not_again(*_: Any) -> None:
    """A wake-up that was armed for as late as the queue allows is the last one."""


def _permanent(ports: Ports, code: Any, delivery: runs.Run, budget: Any) -> None:
    """Whatever a run meets is a definite no."""
    with suppress(Unavailable):
        run(ports, code, delivery, budget)


run = runs.run


def _same_revision(before: int, _: datetime) -> int:
    return before or 1


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


FAULTS = (
    _objects("obj-1", "what is sent is in the commit it follows from", (outbox, "commit", _sent_after)),
    _objects("obj-2", "the header's guard", (records, "header_put", _unguarded)),
    _objects("obj-3", "header and messages at one instant", (runs, "read_mailbox", _after_the_line)),
    _objects("obj-3", "a look before a call passes", (calls, "read_if_free", _never_looks)),
    _objects("obj-4", "the order of commit times", (mailbox, "due_messages", _by_since)),
    _objects("obj-4", "leaving out the end of a full page", (mailbox, "settled", _whole)),
    _objects("obj-5", "the wake-up in the outbox", (calls, "post", _posted_without_outbox)),
    _objects("obj-5", "the slot of the commit", (outbox, "commit", _slot_before_commit)),
    _objects("obj-5", "a run that comes early comes again", (runs, "_check_due", _not_checked)),
    _objects("obj-6", "asking for another run", (runs, "effects_of", _asks_for_no_more)),
    _objects("obj-7", "marks", (runs, "_marked", _never_marked)),
    _objects("obj-7", "marks on the call, not on the run", (runs, "_marked", _marked_by_deliveries)),
    _objects("obj-7", "a mark's owner", (Mark, "next", _not_owned)),
    _objects("obj-8", "receipts", (TurnWrites, "_calls", _without_receipts)),
    _objects("obj-9", "keeping a continuation with its call", (Turn, "_follow", _dropped)),
    _objects("obj-10", "keeping calls on a result", (Turn, "_end", _forgotten)),
    _objects("obj-10", "the place of calls on a result", (Turn, "_end", _at_the_end)),
    _objects("obj-13", "no definite no", (runs, "run", _permanent)),
    _objects("obj-14", "revisions that grow", (runs, "next_revision", _same_revision)),
)
