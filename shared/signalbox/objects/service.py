"""Call an object, run its mailbox, read and delete objects.

A call is applied at once if no message waits before it and the process has the class. That takes two round trips: read
the header with the waiting messages, commit the header with the call's own record. Otherwise the call is posted: it
becomes a message in the mailbox, the caller receives its placeholder, and a run applies it.

A run (`mailboxes.service.run`) applies a page of messages in a turn. A call that ends its process would end every run.
So from the third delivery of a wake-up on, or if the first call has a mark already, a run is careful: it marks one
call, applies it, and continues with the next one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timedelta
from typing import Any

from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.idempotency_keys import has_leases
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.polling import poll, poll_again
from signalbox.core.ports import (
    SERVER_TIME,
    AlreadyExists,
    Budget,
    Change,
    Conflict,
    OutOfTime,
    Ports,
    Put,
    Query,
    Snapshot,
    Store,
    Write,
    unlimited,
)
from signalbox.core.problems import NotFound, OtherBody, Unavailable
from signalbox.core.records.queries import ID, Condition, Order
from signalbox.core.surface.paging import with_prefix
from signalbox.mailboxes import service as mailboxes
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.machine import next_revision
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import Delivery, StoredMessage, collection_of, header_path, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.service import check_same_body, post
from signalbox.mailboxes.storage import Mailbox, message_put, read_if_free, read_mailbox, revision_of
from signalbox.objects.limits import LIMITS
from signalbox.objects.machine.deadly_calls import Mark, failure_of, leads
from signalbox.objects.machine.large_values import claimed_anew, named_state, place_of_states, repeated
from signalbox.objects.machine.turns import Turn
from signalbox.objects.model import (
    AT_ONCE,
    Apply,
    CallPlace,
    CallRecord,
    Kind,
    Message,
    ObjectStatus,
    Timing,
    deletion,
    targets_of,
)
from signalbox.objects.storage import FunctionOf, TurnWrites, effects_of, kept_posts, state_of, wake_object
from signalbox.payloads.model import Outgoing, PayloadUnread, escaped, opened, place_of_tasks, shown
from signalbox.payloads.service import content_by_hash, opening_those_of
from signalbox.payloads.service import store as store_payloads
from signalbox.tasks.machine.failures import failure_notice
from signalbox.tasks.model.contexts import Plain
from signalbox.tasks.model.failures import Failure, failure_path

TURN_PAUSES_SECONDS = (0.02, 0.03, 0.05, 0.1, 0.2, 0.3)
"""The pauses after which a waiting caller checks whether its call has been applied, or whether it must apply the call
itself.
"""

POSTED_PAUSES_SECONDS = (0.2, 0.1, 0.1, 0.3)
"""The pauses before the first reads of a call that has just been posted: its run begins after 0.1 to 0.3 seconds."""

AFTER_KEYS = "\x7f"
"""The character that sorts right after the ``~`` between class and key."""


@dataclass(frozen=True, slots=True)
class Code:
    """The code of a function's classes: it runs methods, and names the function of each class.

    `check` raises `Unavailable` for a state that is newer than the code. `knows` returns whether the code has the
    method of a call, with the call's parameters.
    """

    function: str
    apply: Apply
    function_of: FunctionOf
    check: Callable[[ObjectAddress, str | None], None] = lambda _, __: None
    knows: Callable[[ObjectAddress, Message], bool] = lambda _, __: True


def _opening(ports: Ports, address: ObjectAddress) -> AbstractContextManager[Any]:
    """Let the code of an object open its payloads. Another turn may replace the state meanwhile."""
    return opening_those_of(ports, place_of_states(address))


# --- calls ---


def call_at_once(ports: Ports, code: Code, place: CallPlace, message: Message) -> CallRecord:
    """Apply a call if no message waits before it, else post it.

    Raises `OtherBody` if the id is in use, `Unavailable` if the outcome is unknown.
    """
    message = claimed_message(ports, place, message)
    for attempt in range(MAILBOXES_LIMITS.fast_rounds_max):
        if attempt and (stored := _stored(ports, place, message)):
            return stored
        header, free = read_if_free(ports.store, place.address.base)
        if not free:
            break
        try:
            return _applied(ports, code, header, place.address, {place.id: message}, unlimited())[place.id]
        except (Conflict, Unavailable):
            continue
    return _post_call(ports, code.function_of, place, message)


def claimed_message(ports: Ports, place: CallPlace, message: Message) -> Message:
    """Return a message as its record contains it. Large arguments are stored, unless the message is a repeat.

    A repeat with values of the running task's leases, which differ in each delivery, has the body of the first message.
    Raises `TooLarge`, `Unavailable`.
    """
    outgoing = Outgoing()
    own = claimed_anew(message, place.address, place.id, ports.store.new_id, outgoing)
    if outgoing:
        [stored] = ports.store.read(message_path(place.address.base, place.id))
        if stored.data is not None:
            first = Message.from_record(stored.data)
            if has_leases(message.body):
                return replace(own, body=first.body)
            return repeated(own, first, place.address, place.id)
        store_payloads(ports, outgoing)
    return own


def _applied(
    ports: Ports,
    code: Code,
    header: Snapshot,
    address: ObjectAddress,
    calls: Mapping[str, Message],
    out_of_time: OutOfTime,
) -> dict[str, CallRecord]:
    """Apply calls without a record in one turn, while they fit. Return the applied calls.

    Raises `Conflict`, `Unavailable`.
    """
    revision = next_revision(revision_of(header), header.read_time)
    records = {id_: CallRecord(message) for id_, message in calls.items()}
    turn = Turn(address, state_of(header), revision, header.read_time, records)
    with _opening(ports, address):
        take_all(turn, [(id_, header.read_time) for id_ in calls], code.apply, out_of_time)
    writes = TurnWrites(header, calls).writes(turn)
    commit_turn(ports, writes, effects_of(turn, code.function_of, code.function, more=False), turn.outgoing)
    return {id_: turn.calls[id_] for id_ in calls if id_ in turn.changed}


def commit_turn(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect], outgoing: Outgoing) -> None:
    """Store the payloads of a turn, and commit it, with its tasks in the outbox. Raises `Conflict`, `Unavailable`."""
    store_payloads(ports, outgoing)
    outbox.commit(ports, writes, effects)


def _stored(ports: Ports, place: CallPlace, message: Message) -> CallRecord | None:
    """Return the call if the commit of an earlier attempt succeeded although its answer was lost, else None."""
    [snapshot] = ports.store.read(message_path(place.address.base, place.id))
    check_same_body(snapshot, message.to_record())
    return None if snapshot.data is None else CallRecord.from_record(snapshot.data)


def post_call(
    ports: Ports, function_of: FunctionOf, place: CallPlace, message: Message, timing: Timing = AT_ONCE
) -> CallRecord:
    """Post a call to the mailbox, with its wake-up.

    Raises `OtherBody` if the id is in use, `Unavailable` if the outcome is unknown.
    """
    return _post_call(ports, function_of, place, claimed_message(ports, place, message), timing)


def _post_call(
    ports: Ports, function_of: FunctionOf, place: CallPlace, message: Message, timing: Timing = AT_ONCE
) -> CallRecord:
    function = function_of(place.address.name)
    message, due_at = _timed(ports, place.address, message, timing)
    put = message_put(place.address.base, place.id, message.to_record(), due_at)
    stored = post(ports, put, wake_object(place.address, function, due_at))
    return CallRecord(message) if stored is None or stored.data is None else CallRecord.from_record(stored.data)


def _timed(ports: Ports, address: ObjectAddress, message: Message, timing: Timing) -> tuple[Message, datetime | None]:
    """Return the message with its time limit, and the time when it is due.

    Only a call with a timing reads the server's time.
    """
    if timing == AT_ONCE:
        return message, None
    now = ports.store.read(header_path(address.base), fields=())[0].read_time
    due_at = now + timedelta(seconds=timing.delay_seconds) if timing.delay_seconds else None
    if timing.not_after_seconds is not None:
        message = replace(message, not_after=now + timedelta(seconds=timing.not_after_seconds))
    return message, due_at


def get_call(ports: Ports, place: CallPlace) -> CallRecord:
    """Return a call as it is now. If the call was forwarded, return its record at the object that it was forwarded to.

    A call has as many forwards as its caller has chained results, and each forward has a new id, so they end.
    Raises `NotFound`.
    """
    call = _read_call(ports, place)
    while call.forwarded is not None:
        call = _read_call(ports, call.forwarded)
    return call


def _read_call(ports: Ports, place: CallPlace) -> CallRecord:
    [snapshot] = ports.store.read(message_path(place.address.base, place.id))
    if snapshot.data is None:
        raise NotFound("No such call is known: it never existed, or its receipt has expired.", field="call")
    return CallRecord.from_record(snapshot.data)


def result_by_hash(ports: Ports, place: CallPlace, sha256: str) -> bytes:
    """Return the large result of a call, if it has this hash. Raises `NotFound`, `NoPayload`, `PayloadUnread`."""
    outcome = get_call(ports, place).outcome
    return content_by_hash(ports, [outcome.result] if outcome else [], sha256)


def wait_for_call(ports: Ports, place: CallPlace, seconds: float) -> CallRecord:
    """Return a call when it has its outcome, or its present state after `seconds`. Raises `NotFound`."""
    return poll(ports.clock, lambda: get_call(ports, place), _has_outcome, seconds)


def wait_for_posted(ports: Ports, place: CallPlace, posted: CallRecord, seconds: float) -> CallRecord:
    """Wait for a call that has just been posted, like `wait_for_call`.

    The first read is made when the call's run may be over.
    """
    return poll_again(ports.clock, posted, lambda: get_call(ports, place), _has_outcome, seconds, POSTED_PAUSES_SECONDS)


def _has_outcome(call: CallRecord) -> bool:
    return call.outcome is not None


# --- calls whose callers wait ---


Called = dict[str, CallRecord | Exception]
"""For each id, the call as it is now, with or without an outcome, or the error that the caller receives instead."""


def call_together(
    ports: Ports, code: Code, address: ObjectAddress, calls: Mapping[str, Message], budget: Budget
) -> Called:
    """Make the calls of this process's waiting callers: apply them in one turn, or post them and take part in turns.

    For an id that is in use, the result has `OtherBody`. For a call whose outcome is unknown, it has `Unavailable`.
    """
    called: Called = {}
    try:
        calls = {id_: claimed_message(ports, CallPlace(address, id_), message) for id_, message in calls.items()}
    except Unavailable as error:
        return dict.fromkeys(calls, error)
    header, free = read_if_free(ports.store, address.base)
    if free:
        with suppress(Conflict, Unavailable):
            called |= _applied(ports, code, header, address, calls, budget())
    left = {id_: message for id_, message in calls.items() if id_ not in called}
    try:
        return called | (post_and_take_part(ports, code, address, left, budget(), behind=not free) if left else {})
    except AlreadyExists:  # a repeat, whose first process may have died in a turn
        return called | {id_: _posted(ports, code, CallPlace(address, id_), left[id_]) for id_ in left}
    except Unavailable as error:
        return called | dict.fromkeys(left, error)


def _posted(ports: Ports, code: Code, place: CallPlace, message: Message) -> CallRecord | Exception:
    try:
        return _post_call(ports, code.function_of, place, message)
    except (OtherBody, Unavailable) as error:
        return error


def post_and_take_part(
    ports: Ports,
    code: Code,
    address: ObjectAddress,
    calls: Mapping[str, Message],
    out_of_time: OutOfTime,
    *,
    behind: bool,
) -> Called:
    """Post calls, and apply the messages of the mailbox if no other process does so.

    Raises `AlreadyExists` or `Unavailable`.
    """
    wake, kept = wake_object(address, code.function), ports.store.new_id()
    posted = outbox.keep(ports, kept_posts(address, calls, kept), wake, kept)
    called: Called = {id_: CallRecord(message) for id_, message in calls.items()}
    with suppress(Unavailable):
        for number, pause in enumerate(TURN_PAUSES_SECONDS):
            if number or behind:
                ports.clock.sleep(pause * (0.5 + ports.clock.jitter()))
                called |= _read_calls(ports, address, calls)
            if not all(map(_has_ended, called.values())):
                with suppress(Conflict):
                    called |= _turn_of_callers(ports, code, address, calls, kept, out_of_time)
            if all(map(_has_ended, called.values())):
                return called
    outbox.enqueue_or_leave(ports, outbox.path_of(kept), [wake], posted.commit_time)
    return called


def _read_calls(ports: Ports, address: ObjectAddress, ids: Iterable[str]) -> dict[str, CallRecord]:
    snapshots = ports.store.read(*(message_path(address.base, id_) for id_ in ids))
    return {snapshot.id: CallRecord.from_record(snapshot.data) for snapshot in snapshots if snapshot.data is not None}


def _has_ended(call: CallRecord | Exception) -> bool:
    return isinstance(call, CallRecord) and call.outcome is not None


def _turn_of_callers(
    ports: Ports, code: Code, address: ObjectAddress, ids: Collection[str], kept: str, out_of_time: OutOfTime
) -> dict[str, CallRecord]:
    """Commit a turn if this process leads the mailbox (`leads`). Return the calls among `ids` that have ended.

    Raises `Conflict` if another process was faster, and `Unavailable`.
    """
    mailbox = read_mailbox(ports.store, address.base, MAILBOXES_LIMITS.mailbox_page)
    if not leads(mailbox.waiting, kept):
        return {}
    page = understood(code, address, mailbox, mailbox.waiting)
    turn, _ = committed(ports, code, address, mailbox, page, out_of_time)
    return {id_: turn.calls[id_] for id_ in ids if id_ in turn.changed}


# --- runs ---


def run(ports: Ports, code: Code, delivery: Delivery, budget: Budget) -> None:
    """Apply the messages that are due to an object. Raises `Unavailable` if the wake-up must be delivered again."""
    out_of_time, wake = budget(), delivery.wake
    next_wake = wake_object(ObjectAddress.of_base(wake.mailbox), code.function, wake.until)
    started: set[str] = set()

    def turn(mailbox: Mailbox) -> bool:
        return bool(mailbox.waiting) and _turn(ports, code, delivery, mailbox, started, out_of_time)

    def has_marked(_: Snapshot) -> bool:
        """Return whether this delivery has marked a call and not applied it.

        No other run may apply such a call for a while.
        """
        return bool(started)

    mailboxes.run(ports, delivery, next_wake, turn, has_marked)


def _turn(
    ports: Ports, code: Code, delivery: Delivery, mailbox: Mailbox, started: set[str], out_of_time: OutOfTime
) -> bool:
    """Commit one turn; return whether this run continues. Otherwise the remaining messages have their own wake-up.

    `started` contains the id of a message that this delivery has marked and not applied. Raises `Conflict` if another
    process was faster.
    """
    address = ObjectAddress.of_base(delivery.wake.mailbox)
    careful = delivery.deliveries >= LIMITS.careful_deliveries or Mark.from_record(mailbox.waiting[0].data) is not None
    page = understood(code, address, mailbox, page_of(mailbox, careful=careful))
    if careful:  # before a mark: older code must wait, however often it is woken
        with _opening(ports, address):
            code.check(address, state_of(mailbox.header))
    begun = marked(ports, delivery, mailbox, page[0], started) if careful else page[0]
    spent, page = begun is None, (begun or page[0], *page[1:])
    _, more = committed(ports, code, address, mailbox, page, out_of_time, spent=spent)
    started.clear()
    return careful and more and not out_of_time()


def committed(
    ports: Ports,
    code: Code,
    address: ObjectAddress,
    mailbox: Mailbox,
    page: tuple[StoredMessage, ...],
    out_of_time: OutOfTime,
    *,
    spent: bool = False,
) -> tuple[Turn, bool]:
    """Apply a page, commit the turn, and return the turn and whether messages are left.

    Raises `Conflict` or `Unavailable`.
    """
    turn = begin_turn(ports, address, mailbox, page)
    places = [(message.id, message.since) for message in page]
    with _opening(ports, address):
        taken = take_all(turn, places, code.apply, out_of_time, gave_up=spent)
    more = mailbox.more or taken < len(mailbox.waiting)
    versions = {message.id: message.version for message in page}
    with _opening(ports, address):
        failures = list(failures_of(code, turn, page[0])) if spent else []
    times = {"failed_at": SERVER_TIME, "recorded_at": SERVER_TIME}
    writes = [
        *(Put(failure_path(failure.id), failure.to_record() | times) for failure in failures),
        *TurnWrites(mailbox.header, {}, versions).writes(turn),
    ]
    notices = [task for failure in failures for task in failure_notice(failure)]
    effects = [*effects_of(turn, code.function_of, code.function, more=more), *notices]
    commit_turn(ports, writes, effects, turn.outgoing)
    return turn, more


def understood(
    code: Code, address: ObjectAddress, mailbox: Mailbox, page: tuple[StoredMessage, ...]
) -> tuple[StoredMessage, ...]:
    """Return a page up to the first call of a method that only a newer deployment may have.

    Raises `Unavailable` if the page begins with such a call. After a few minutes a call of an unknown method is
    applied, and its outcome is the error.
    """
    young = mailbox.read_time - timedelta(seconds=CORE_LIMITS.deployment_seconds)
    for number, stored in enumerate(page):
        message = CallRecord.from_record(stored.data).message
        if message.kind is Kind.CALL and stored.since > young and not code.knows(address, message):
            if not number:
                raise Unavailable("the call's method is unknown; a newer deployment may have it")
            return page[:number]
    return page


def page_of(mailbox: Mailbox, *, careful: bool) -> tuple[StoredMessage, ...]:
    """Return the messages of one turn. A careful turn has only the first message, which the delivery has marked."""
    return mailbox.waiting[:1] if careful else mailbox.waiting


def marked(
    ports: Ports, delivery: Delivery, mailbox: Mailbox, message: StoredMessage, started: set[str]
) -> StoredMessage | None:
    """Mark the start of a call and return it with its new version. Return None if it has been started too often.

    Raises `Unavailable` or `Conflict`.
    """
    before = Mark.from_record(message.data) or Mark()
    if has_started(delivery, message, before, started):
        return message
    mark = before.next(delivery.id, mailbox.read_time).to_record()
    if before.is_spent:
        ports.log.error("call given up", object=delivery.wake.mailbox, call=message.id)
        return None
    path = message_path(delivery.wake.mailbox, message.id)
    committed = ports.store.commit([Change(path, {("mark",): mark}, message.version)])
    started.add(message.id)
    return replace(message, version=committed.commit_time)


def has_started(delivery: Delivery, message: StoredMessage, mark: Mark, started: Collection[str]) -> bool:
    """Return whether this delivery has already marked a call and its turn lost a race.

    Then no new start is counted.
    """
    return message.id in started and mark.run == delivery.id


def failures_of(code: Code, turn: Turn, message: StoredMessage) -> Iterator[Failure]:
    """Iterate over the failure of a method's call that was given up.

    A retry of the failure calls the method again. It has its own copies of large arguments, as far as they can be read.
    """
    call = turn.calls[message.id]
    if call.message.kind is Kind.CALL and call.outcome and call.outcome.error:
        values = {name: _as_far_as_known(value) for name, value in call.message.arguments.items()}
        own = call.message.with_arguments(values)
        failure = failure_of(code.function, turn.address, message.id, own, call.outcome.error)
        payload, members = turn.outgoing.claimed_arguments(failure.call.payload, place_of_tasks(turn.now))
        yield replace(failure, call=replace(failure.call, payload=payload), context=Plain(members))


def _as_far_as_known(stored: Any) -> Any:
    try:
        return opened(stored)
    except PayloadUnread:
        return shown(stored)


def begin_turn(ports: Ports, address: ObjectAddress, mailbox: Mailbox, page: tuple[StoredMessage, ...]) -> Turn:
    """Return a turn before its first message. It reads the calls that messages follow and that are not on the page."""
    calls = {message.id: CallRecord.from_record(message.data) for message in page}
    targets = sorted(targets_of([call.message for call in calls.values()]) - calls.keys())
    paths = [message_path(address.base, target) for target in targets]
    for snapshot in ports.store.read(*paths) if paths else ():
        if snapshot.data is not None:
            calls[snapshot.id] = CallRecord.from_record(snapshot.data)
    revision = next_revision(revision_of(mailbox.header), mailbox.read_time)
    return Turn(address, state_of(mailbox.header), revision, mailbox.read_time, calls)


def take_all(
    turn: Turn,
    places: Sequence[tuple[str, datetime]],
    apply: Apply,
    out_of_time: OutOfTime,
    *,
    gave_up: bool = False,
) -> int:
    """Apply at least one message, and more while they fit and there is time. Return the number of applied messages.

    `places` has the id and the `since` of each message. Raises `Unavailable`.
    """
    taken = 0
    try:
        for id_, since in places:
            if (taken and out_of_time()) or not turn.take(id_, since, apply, gave_up=gave_up):
                break
            taken += 1
    except Unavailable:
        if not taken:
            raise
    return taken


# --- objects ---


def get_object(ports: Ports, address: ObjectAddress) -> ObjectStatus:
    """Return the status of an object. An object that was never called does not exist and has revision 0."""
    [header] = ports.store.read(header_path(address.base))
    waiting = ports.store.count(Query(collection_of(address.base), order_by=(Order(("since",)),)))
    return ObjectStatus(address, state_of(header), revision_of(header), waiting - (header.data is not None))


def state_by_hash(ports: Ports, address: ObjectAddress, sha256: str) -> bytes:
    """Return the large state of an object, if it has this hash. Raises `NoPayload`, `PayloadUnread`."""
    state, _ = read_state(ports.store, address)
    stored = [named.to_json()] if (named := named_state(state)) else []
    return content_by_hash(ports, stored, sha256, place_of_states(address))


def read_state(store: Store, address: ObjectAddress) -> tuple[str | None, datetime]:
    """Return an object's state after its last turn, as its record has it, and the server's time.

    The state is None if the object does not exist.
    """
    [header] = store.read(header_path(address.base))
    return state_of(header), header.read_time


def read_only(ports: Ports, code: Code, address: ObjectAddress, message: Message) -> CallOutcome:
    """Return the outcome of a read-only call, computed from the state after the last turn. Raises `Unavailable`."""
    state, now = read_state(ports.store, address)
    unclaimed = message.with_arguments({name: escaped(value) for name, value in message.arguments.items()})
    with _opening(ports, address):
        outcome = code.apply(address, state, unclaimed, now).outcome
    return replace(outcome, result=escaped(outcome.result))


def delete(ports: Ports, function_of: FunctionOf, address: ObjectAddress, id_: str | None = None) -> None:
    """Delete an object in its turn, after the messages that wait. A repeat with the same `id_` changes nothing."""
    post_call(ports, function_of, CallPlace(address, id_ or ports.store.new_id()), deletion())


def list_objects(ports: Ports, class_name: str, after_key: str | None = None, prefix: str = "") -> list[ObjectAddress]:
    """Return objects of a class whose keys begin with a prefix, in the order of their keys, starting after a key."""
    all_of_it = (Condition(ID, ">=", f"{class_name}~"), Condition(ID, "<", f"{class_name}{AFTER_KEYS}"))
    where = with_prefix(prefix, f"{class_name}~") or all_of_it
    after = () if after_key is None else (f"{class_name}~{after_key}",)
    query = Query(ObjectAddress.COLLECTION, where, limit=LIMITS.objects_listed_max, after=after)
    return [ObjectAddress(class_name, snapshot.id.split("~", 1)[1]) for snapshot in ports.store.query(query)]
