"""Call an object: at once where nobody waits and the code is here, else by a message that a run applies.

A call that is applied at once takes two round trips: it reads the header with what waits, and commits the header with
its own record. One that is posted is a record of the mailbox: the answer is its placeholder.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.core.operations import outbox
from shared.core.operations.mailbox import check_same_body, message_put, post, read_if_free, revision_of
from shared.core.operations.polling import poll, poll_again
from shared.core.operations.ports import Conflict, Ports, Snapshot
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import header_path, message_path, next_revision
from shared.core.rules.problems import NotFound, Unavailable
from shared.objects.operations.records import FunctionOf, TurnWrites, effects_of, state_of, wake_object
from shared.objects.operations.runs import Code
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.messages import CallRecord, Message
from shared.objects.rules.turns import Turn

POSTED_PAUSES_SECONDS = (0.2, 0.1, 0.1, 0.3)
"""Before the reads of a call just posted: its slot and the margin of its run are over after 0.1 to 0.3 seconds."""

FORWARDS_MAX = 20
"""Objects that a call on results may pass through, one behind the other, in one answer."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A call of the object at `address`: it can be looked at for as long as its receipt is kept."""

    address: ObjectAddress
    id: str


@dataclass(frozen=True, slots=True)
class Timing:
    """When a call may run, in seconds from now: not before a delay, and not after a limit."""

    delay_seconds: float = 0
    not_after_seconds: float | None = None


NOW = Timing()


def call_at_once(ports: Ports, code: Code, placeholder: Placeholder, message: Message) -> CallRecord:
    """Apply a call if nothing waits before it, else post it. Raises `OtherBody`, `Unavailable` if it is not known."""
    for attempt in range(LIMITS.fast_rounds_max):
        if attempt and (known := _known(ports, placeholder, message)):
            return known
        header, free = read_if_free(ports.store, placeholder.address.base)
        if not free:
            break
        try:
            return _applied(ports, code, header, placeholder, message)
        except (Conflict, Unavailable):
            continue
    return post_call(ports, code.function_of, placeholder, message)


def _applied(ports: Ports, code: Code, header: Snapshot, placeholder: Placeholder, message: Message) -> CallRecord:
    revision = next_revision(revision_of(header), header.read_time)
    calls = {placeholder.id: CallRecord(message)}
    turn = Turn(placeholder.address, state_of(header), revision, header.read_time, calls)
    turn.take(placeholder.id, header.read_time, code.apply)
    writes = TurnWrites(header, {placeholder.id: message}).writes(turn)
    outbox.commit(ports, writes, effects_of(turn, code.function_of, code.function, more=False))
    return turn.calls[placeholder.id]


def _known(ports: Ports, placeholder: Placeholder, message: Message) -> CallRecord | None:
    """Return the call if a former attempt landed, though its answer was lost."""
    [snapshot] = ports.store.read(message_path(placeholder.address.base, placeholder.id))
    check_same_body(snapshot, message.to_record())
    return None if snapshot.data is None else CallRecord.from_record(snapshot.data)


def post_call(
    ports: Ports, function_of: FunctionOf, placeholder: Placeholder, message: Message, timing: Timing = NOW
) -> CallRecord:
    """Leave a call in the mailbox, with its wake-up. Raises `OtherBody`, `Unavailable` if it is not known."""
    function = function_of(placeholder.address.class_name)
    message, due_at = _timed(ports, placeholder.address, message, timing)
    put = message_put(placeholder.address.base, placeholder.id, message.to_record(), due_at)
    known = post(ports, put, wake_object(placeholder.address, function, due_at))
    return CallRecord(message) if known is None or known.data is None else CallRecord.from_record(known.data)


def _timed(ports: Ports, address: ObjectAddress, message: Message, timing: Timing) -> tuple[Message, datetime | None]:
    """Return the message with its limit, and its time, by the server's clock; only a call that has one reads it."""
    if timing == NOW:
        return message, None
    now = ports.store.read(header_path(address.base), fields=())[0].read_time
    due_at = now + timedelta(seconds=timing.delay_seconds) if timing.delay_seconds else None
    if timing.not_after_seconds is not None:
        message = replace(message, not_after=now + timedelta(seconds=timing.not_after_seconds))
    return message, due_at


def get_call(ports: Ports, placeholder: Placeholder) -> CallRecord:
    """Return a call as it is now; one on a result, as it is where it went. Raises `NotFound`."""
    call = _read_call(ports, placeholder)
    for _ in range(FORWARDS_MAX):
        if call.forwarded is None:
            return call
        call = _read_call(ports, Placeholder(call.forwarded.address, call.forwarded.id))
    return call


def _read_call(ports: Ports, placeholder: Placeholder) -> CallRecord:
    [snapshot] = ports.store.read(message_path(placeholder.address.base, placeholder.id))
    if snapshot.data is None:
        raise NotFound("No such call is known: it never was, or its receipt has expired.", field="call")
    return CallRecord.from_record(snapshot.data)


def wait_for_call(ports: Ports, placeholder: Placeholder, seconds: float) -> CallRecord:
    """Return a call when it has its outcome, or as it is after so many seconds. Raises `NotFound`."""
    return poll(ports.clock, lambda: get_call(ports, placeholder), _has_outcome, seconds)


def wait_for_posted(ports: Ports, placeholder: Placeholder, posted: CallRecord, seconds: float) -> CallRecord:
    """Return as `wait_for_call` does a call that was posted just now: so soon there is nothing to read."""
    return poll_again(
        ports.clock, posted, lambda: get_call(ports, placeholder), _has_outcome, seconds, POSTED_PAUSES_SECONDS
    )


def _has_outcome(call: CallRecord) -> bool:
    return call.outcome is not None
