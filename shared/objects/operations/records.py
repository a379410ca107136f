"""The records of an object: its header, its card for lists, its calls. What a turn commits."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shared.core.operations.mailbox import header_put, message_put
from shared.core.operations.ports import REMOVE, SERVER_TIME, Change, Delete, Field, Guard, Must, Put, Snapshot, Write
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import header_path, message_path
from shared.core.rules.wake_ups import wake_up
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.messages import CallRecord, Message
from shared.objects.rules.turns import Turn

QUEUE = "objects"

FunctionOf = Callable[[str], str]
"""Return the function that has the code of a class. Raises a `Problem` if none has."""


def wake_object(address: ObjectAddress, function: str, until: datetime | None = None) -> Effect:
    """Return the wake-up of an object."""
    return wake_up(address.base, function, QUEUE, until)


def state_of(header: Snapshot) -> str | None:
    """Return the state of a header as text, or None: there is no object."""
    return None if header.data is None else header.data["state"]


@dataclass(frozen=True, slots=True)
class TurnWrites:
    """What a turn commits: the header it read, and the calls that have no record yet, with their messages.

    `versions` are the update times of the messages it read with the header: they must be as they were.
    """

    header: Snapshot
    new: Mapping[str, Message]
    versions: Mapping[str, datetime] = field(default_factory=dict)

    def writes(self, turn: Turn) -> list[Write]:
        """Return the writes: the calls, what was sent, the card if it changes, and last the header under its guard."""
        header = header_put(self.header, {"state": turn.state}, turn.revision)
        posted = (
            message_put(each.address.base, each.id, each.message.to_record(), each.due_at) for each in turn.posted
        )
        return [*self._calls(turn), *_resumptions(turn), *posted, *self._card(turn), header]

    def _calls(self, turn: Turn) -> Iterator[Write]:
        for id_ in sorted(turn.changed):
            path, call, guard = message_path(turn.address.base, id_), turn.calls[id_], self.guard_of(id_)
            if id_ in self.new:
                yield Put(path, self.new[id_].to_record() | _done(call, turn.now), Must.NOT_EXIST)
            elif call.is_pending:
                waits = _resumed(turn, id_) or (_held() if id_ in turn.held else {})
                yield Change(path, _kept(call) | waits, guard)
            elif call.message.receipt:
                done = {(name,): value for name, value in _done(call, turn.now).items()}
                yield Change(path, done | _no_longer_waits(), guard)
            else:
                yield Delete(path, guard)

    def guard_of(self, id_: str) -> Guard:
        """Return what must hold of the record of a call that the turn changes."""
        return self.versions.get(id_, Must.EXIST)

    def _card(self, turn: Turn) -> Iterator[Write]:
        existed, exists = state_of(self.header) is not None, turn.state is not None
        if exists and not existed:
            yield Put(turn.address.base, {**turn.address.to_json(), "created_at": SERVER_TIME})
        elif existed and not exists:
            yield Delete(turn.address.base)


def effects_of(turn: Turn, function_of: FunctionOf, function: str, *, more: bool) -> list[Effect]:
    """Return the tasks of a turn, and the wake-ups of whom it wrote to; its own if something is left."""
    addresses = {each.address for each in turn.posted if each.due_at is None}
    own = {turn.address} if more or turn.resumed else set()
    later = [
        wake_object(each.address, function_of(each.address.class_name), each.due_at)
        for each in turn.posted
        if each.due_at
    ]
    now = [
        wake_object(each, function if each == turn.address else function_of(each.class_name))
        for each in sorted(addresses | own)
    ]
    return [*turn.tasks, *now, *later]


def _done(call: CallRecord, now: datetime) -> dict[str, Any]:
    place = {"forwarded": call.forwarded.to_record()} if call.forwarded else {}
    outcome = {"outcome": call.outcome.to_text()} if call.outcome else {}
    return {**place, **outcome, "expires_at": now + timedelta(seconds=LIMITS.call_receipt_seconds)}


def _no_longer_waits() -> dict[Field, Any]:
    return dict.fromkeys([("since",), ("mark",), ("held",)], REMOVE)


def _held() -> dict[Field, Any]:
    """Return the fields of a call that waits for another's outcome: not in the mailbox, and started by nobody."""
    return dict.fromkeys([("since",), ("mark",)], REMOVE)


def _resumptions(turn: Turn) -> Iterator[Write]:
    """Iterate over the writes of calls that wait again and are otherwise as they were."""
    for id_ in sorted(turn.resumed.keys() - turn.changed):
        yield Change(message_path(turn.address.base, id_), _resumed(turn, id_))


def _kept(call: CallRecord) -> dict[Field, Any]:
    """Return the fields of a call with what waits for its outcome."""
    return {("then",): [each.to_record() for each in call.message.then], ("held",): list(call.held)}


def _resumed(turn: Turn, id_: str) -> dict[Field, Any]:
    """Return the fields that let a held call wait in the mailbox again; none if it was not held."""
    return {("since",): turn.resumed[id_], ("later",): REMOVE} if id_ in turn.resumed else {}


def object_header_path(address: ObjectAddress) -> str:
    """Return the path of an object's header, which has its state."""
    return header_path(address.base)
