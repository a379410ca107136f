"""The records of an object (its header, its listing record, its calls) and the writes of a turn."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.kit_names import OBJECTS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.outbox import path_of as outbox_path
from signalbox.core.ports import REMOVE, SERVER_TIME, Change, Delete, Guard, Must, Put, Snapshot, Write
from signalbox.core.records.queries import Field
from signalbox.core.wake_ups import wake_up
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import message_path
from signalbox.mailboxes.storage import SWEPT_BY, header_put, message_put, swept_by
from signalbox.objects.machine.large_values import named_state, place_of_state, place_of_states, stored_state
from signalbox.objects.machine.turns import Turn
from signalbox.objects.model import KEPT_WAKE_UP, CallRecord, Message
from signalbox.payloads.service import replacement

FunctionOf = Callable[[str], str]
"""Return the function that has the code of a class. Raises a `Problem` if none has."""


def wake_object(address: ObjectAddress, function: str, until: datetime | None = None) -> Effect:
    """Return the wake-up of an object."""
    return wake_up(address.base, function, OBJECTS_QUEUE, until)


def kept_posts(address: ObjectAddress, calls: Mapping[str, Message], kept_wake_up: str) -> list[Put]:
    """Return the writes of waiting callers' messages. The last one has the outbox record of their shared wake-up.

    The record must be in the last message, since the emulator applies the writes of a commit one by one: a turn that
    applies the last message, and deletes the record, has then read the others.
    """
    *others, last = (message_put(address.base, id_, message.to_record()) for id_, message in calls.items())
    return [*others, replace(last, data={**last.data, KEPT_WAKE_UP: kept_wake_up})]


def state_of(header: Snapshot) -> str | None:
    """Return the state in a header as text, or None if the object does not exist."""
    return None if header.data is None else header.data["state"]


@dataclass(frozen=True, slots=True)
class TurnWrites:
    """The writes of a turn.

    `header` is the header that the turn has read, and `new` has the messages of calls without a record yet. `versions`
    are the update times of the messages that the turn has read with the header. These messages must not have changed.
    """

    header: Snapshot
    new: Mapping[str, Message]
    versions: Mapping[str, datetime] = field(default_factory=dict)

    def writes(self, turn: Turn) -> list[Write]:
        """Return the writes: calls, sent messages, the listing record if it changes, and last the header.

        The turn's `outgoing` also collects a large state; the sweeper deletes the one that it replaces.
        The header is last since the emulator applies the writes of a commit one by one: a reader that sees part of a
        commit sees the old header, so its own commit fails.
        """
        before = state_of(self.header)
        state = stored_state(turn.state, before, place_of_state(turn.address, turn.revision), turn.outgoing)
        header = header_put(self.header, {"state": state}, turn.revision)
        replaced = [replacement(place_of_states(turn.address))] if state != before and named_state(before) else []
        posted = (
            message_put(post.address.base, post.id, post.message.to_record(), post.due_at) for post in turn.posted
        )
        return [*self.calls(turn), *_resumptions(turn), *posted, *self._listing(turn), *replaced, header]

    def calls(self, turn: Turn) -> Iterator[Write]:
        """Iterate over the writes of the calls that the turn has changed."""
        for id_ in sorted(turn.changed):
            path, call, guard = message_path(turn.address.base, id_), turn.calls[id_], self.guard_of(id_)
            if id_ in self.new:
                yield Put(path, self.new[id_].to_record() | _done(call, turn.now), Must.NOT_EXIST)
            elif call.is_pending:
                waits = _resumed(turn, id_) or (_held() if id_ in turn.held else {})
                yield Change(path, kept_reply(call) | waits, guard)
            elif call.message.receipt:
                done = {(name,): value for name, value in _done(call, turn.now).items()}
                yield Change(path, done | _no_longer_waits(), guard)
                if call.kept_wake_up:
                    yield Delete(outbox_path(call.kept_wake_up))
            else:
                yield Delete(path, guard)

    def guard_of(self, id_: str) -> Guard:
        """Return the precondition on the record of a call that the turn changes."""
        return self.versions.get(id_, Must.EXIST)

    def _listing(self, turn: Turn) -> Iterator[Write]:
        existed, exists = state_of(self.header) is not None, turn.state is not None
        if exists and not existed:
            yield Put(turn.address.base, {**turn.address.to_json(), "created_at": SERVER_TIME})
        elif existed and not exists:
            yield Delete(turn.address.base)


def effects_of(turn: Turn, function_of: FunctionOf, function: str, *, more: bool) -> list[Effect]:
    """Return the tasks of a turn, and the wake-ups of the objects that it sent messages to.

    The turn's own object is woken if `more` messages are due or held calls wait again.
    """
    addresses = {post.address for post in turn.posted if post.due_at is None}
    own = {turn.address} if more or turn.resumed else set()
    later = [
        wake_object(post.address, function_of(post.address.name), post.due_at) for post in turn.posted if post.due_at
    ]
    now = [
        wake_object(address, function if address == turn.address else function_of(address.name))
        for address in sorted(addresses | own)
    ]
    return [*turn.tasks, *now, *later]


def _done(call: CallRecord, now: datetime) -> dict[str, Any]:
    place = {"forwarded": call.forwarded.to_record()} if call.forwarded else {}
    outcome = {"outcome": call.outcome.to_text()} if call.outcome else {}
    return {**place, **outcome, "expires_at": now + timedelta(seconds=MAILBOXES_LIMITS.call_receipt_seconds)}


def _no_longer_waits() -> dict[Field, Any]:
    return dict.fromkeys([("since",), ("mark",), ("held",), (SWEPT_BY,), (KEPT_WAKE_UP,)], REMOVE)


def _held() -> dict[Field, Any]:
    """Return the fields that are removed from a call while it is held for another call's outcome.

    Without them, the call is not in the mailbox, and has no counted start.
    """
    return dict.fromkeys([("since",), ("mark",), (SWEPT_BY,)], REMOVE)


def _resumptions(turn: Turn) -> Iterator[Write]:
    """Iterate over the writes of calls that wait again and are otherwise unchanged."""
    for id_ in sorted(turn.resumed.keys() - turn.changed):
        yield Change(message_path(turn.address.base, id_), _resumed(turn, id_))


def kept_reply(call: CallRecord) -> dict[Field, Any]:
    """Return the field of a call with the messages that wait for its outcome."""
    return {("held",): list(call.held)}


def _resumed(turn: Turn, id_: str) -> dict[Field, Any]:
    """Return the fields that put a held call back into the mailbox. There are none if the call was not held."""
    if id_ not in turn.resumed:
        return {}
    path = message_path(turn.address.base, id_)
    return {("since",): turn.resumed[id_], ("later",): REMOVE, (SWEPT_BY,): swept_by(path)}
