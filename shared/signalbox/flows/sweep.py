"""The flows' part of the sweeper, and the removal of flows.

The sweeper finds listings by `due_at`. It wakes a stuck flow every ten minutes, since a deployment may have fixed its
code, and removes a flow 32 days after its end, or after the longer retention in its header. Removals come last and have
a separate time budget, so that stuck flows do not wait for them. Every visit sets `due_at` to a time after now, also
one that failed and a removal that is not finished: then the others come first.

Tasks can be lost: a queue is purged, or a database is restored from a backup. So the sweeper finds listings of running
flows by `checked_at`, an hour after it last saw that they had a turn. If a flow had none since, a wake-up makes it
repeat its commands: tasks that still exist are not created again, since their names are taken. A flow that waits only
for events, updates, times and sub-flows is looked at once a day.

An ended flow with an archive is not removed before its archive is written. While it is not, the sweeper repeats the
task that writes it every ten minutes.

A removal deletes the messages, the log, and at last the header with the listing. After that the id is free. Late
messages for the removed flow have its execution id and are dropped; leases that they granted are released.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from signalbox.core import outbox
from signalbox.core.due_records import due_records
from signalbox.core.effects import Effect
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import are_payloads_stored
from signalbox.core.perform import pause
from signalbox.core.ports import (
    REMOVE,
    Budget,
    Change,
    Conflict,
    Delete,
    Must,
    OutOfTime,
    Ports,
    Query,
    Snapshot,
    Write,
    unlimited,
)
from signalbox.core.problems import Contended, NotInCatalogue, Problem, Unavailable
from signalbox.core.times import EPOCH, rfc3339
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import Batch, Lock, NextEvent, NextUpdate, RatePermits, Sleep, SubFlow
from signalbox.flows.machine.effects import (
    archive_effect,
    cancel_batch_effect,
    cancel_rate_effect,
    cancel_wait_effect,
    release_effect,
    repeat_flow,
    wake_flow,
)
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import CANCELLED, COMPLETED, FAILED, End, FlowHeader
from signalbox.flows.model.messages import Result, message_from_record, parent_key, payload_of, sub_flow_address
from signalbox.flows.model.payloads import place_of_run
from signalbox.flows.problems import FlowCancelled, FlowRunning, NoFlow, NotArchived
from signalbox.flows.service.messages import cancel
from signalbox.flows.storage.commits import end_messages, end_tasks, header_of, header_write
from signalbox.flows.storage.listings import DUE_AT, archive_due_at, lacks_archive, listing_writes
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.messages import HEADER, collection_of, header_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.payloads.service import removal

CHECKED_AT = "checked_at"

PATIENT = (NextEvent.kind, NextUpdate.kind, Sleep.kind, SubFlow.kind)
"""The kinds of commands that may take days."""

ENDED = (COMPLETED, FAILED, CANCELLED)

NEVER: OutOfTime = unlimited()


# --- the sweeper ---


def sweep(ports: Ports, budget: Budget = unlimited) -> int:
    """Wake the due and the silent flows within one time budget, then remove due runs within another.

    Return the number of visits.
    """
    out_of_time = budget()
    stuck, others = _sweep_those(ports, out_of_time, ended=False)
    silent = sweep_silent(ports, out_of_time)
    ended, _ = _sweep_those(ports, budget(), ended=True) if others else (0, 0)
    return stuck + silent + ended


def _sweep_those(ports: Ports, out_of_time: OutOfTime, *, ended: bool) -> tuple[int, int]:
    """Visit the due flows that have ended, or those that have not.

    Return the number of visits, and the number of the due flows that were left out.
    """
    visits = others = 0
    for listing in due_records(ports.store, FlowAddress.COLLECTION, DUE_AT, LIMITS.flows_sweep_page, out_of_time):
        if ((listing.data or {}).get("state") in ENDED) is ended:
            visits += 1
            _visit(ports, listing, out_of_time)
        else:
            others += 1
    return visits, others


def sweep_silent(ports: Ports, out_of_time: OutOfTime) -> int:
    """Check the running flows that have not been checked for an hour. Return their number."""
    visits, page_max = 0, LIMITS.flows_sweep_page
    for listing in due_records(ports.store, FlowAddress.COLLECTION, CHECKED_AT, page_max, out_of_time, _silent()):
        visits += 1
        try:
            check_silent(ports, listing, FlowAddress.of_base(listing.path))
        except (Conflict, Unavailable) as error:
            ports.log.info("flow left to a later sweep", flow=listing.path, reason=str(error))
        except Exception as error:  # noqa: BLE001 - a record that cannot be read must not keep the sweeper from the others
            ports.log.error("flow cannot be swept", flow=listing.path, exception=error)
            with suppress(Conflict, Unavailable):
                _set_checked(ports, listing, listing.read_time)
    return visits


def check_silent(ports: Ports, listing: Snapshot, address: FlowAddress) -> None:
    """Let a flow without a turn for an hour repeat its commands, and note the time of the check."""
    [read] = ports.store.read(header_path(address.base))
    header = header_of(read, address)
    if header is None or header.end or header.suspended or header.stuck:
        _set_checked(ports, listing, REMOVE)  # the listing is being changed
    elif read.update_time is not None and read.update_time > read.read_time - _silent():
        _set_checked(ports, listing, read.update_time)
    else:
        ports.queue.create(complete_wake_ups([repeat_flow(address.base, header.function)], read.read_time))
        ports.log.info("silent flow woken", **address.to_json())
        is_patient = header.begun and all(wait.signature.split()[0] in PATIENT for wait in header.pending.values())
        patience_seconds = LIMITS.flow_patient_seconds - LIMITS.flow_silent_seconds if is_patient else 0
        _set_checked(ports, listing, read.read_time + timedelta(seconds=patience_seconds))


def _set_checked(ports: Ports, listing: Snapshot, at: Any) -> None:
    ports.store.commit([Change(listing.path, {(CHECKED_AT,): at}, listing.guard or Must.EXIST)])


def _silent() -> timedelta:
    return timedelta(seconds=LIMITS.flow_silent_seconds)


def _visit(ports: Ports, listing: Snapshot, out_of_time: OutOfTime) -> None:
    try:
        address = FlowAddress.of_base(listing.path)
        is_done = sweep_flow(ports, listing, address, out_of_time)
    except NotInCatalogue as error:
        ports.log.error("flow cannot be swept", flow=listing.path, exception=error)
        _postpone(ports, listing, LIMITS.flow_stuck_seconds)
        return
    except (Conflict, Problem, Unavailable) as error:
        ports.log.info("flow left to a later sweep", flow=listing.path, reason=str(error))
        is_done = False
    except Exception as error:  # noqa: BLE001 - a record that cannot be read must not keep the sweeper from the others
        ports.log.error("flow cannot be swept", flow=listing.path, exception=error)
        _postpone(ports, listing, LIMITS.flow_stuck_seconds)
        return
    if not is_done:
        _postpone(ports, listing, 0)


def _postpone(ports: Ports, listing: Snapshot, seconds: float) -> None:
    """Queue a flow behind those that are due now, unless another commit has moved its time."""
    due_at = listing.read_time + timedelta(seconds=seconds)
    with suppress(Conflict, Unavailable):
        ports.store.commit([Change(listing.path, {(DUE_AT,): due_at}, listing.guard or Must.EXIST)])


def sweep_flow(ports: Ports, listing: Snapshot, address: FlowAddress, out_of_time: OutOfTime) -> bool:
    """Wake or remove a flow. Return whether its listing was deleted, or is now due later."""
    [read] = ports.store.read(header_path(address.base))
    header = header_of(read, address)
    if header and header.end and is_not_archived(ports, header):
        return archive_again(ports, listing, header, read.read_time)
    if header and header.end and read.read_time < header.kept_until:
        return True  # it has ended since its listing was read
    if header and header.end:
        return remove(ports, address, read, _of_one_removal(out_of_time))
    if header:
        due_at = read.read_time + timedelta(seconds=LIMITS.flow_stuck_seconds)
        ports.queue.create(complete_wake_ups([wake_flow(address.base, header.function)], read.read_time))
        ports.store.commit([Change(listing.path, {(DUE_AT,): due_at}, listing.guard or Must.EXIST)])
    else:
        ports.store.commit([Delete(listing.path, listing.guard)])
    return True


def is_not_archived(ports: Ports, header: FlowHeader) -> bool:
    """Return whether an ended run must wait for its archive. The listing is read only if the run has an archive."""
    return bool(header.archive) and lacks_archive(header, ports.store.read(header.address.base)[0])


def archive_again(ports: Ports, listing: Snapshot, header: FlowHeader, now: datetime) -> bool:
    """Enqueue the task of an archive again, and check later whether it has been written."""
    ports.queue.create([archive_effect(header, rfc3339(now))])
    ports.store.commit([Change(listing.path, {(DUE_AT,): archive_due_at(now)}, listing.guard or Must.EXIST)])
    return True


def _of_one_removal(out_of_time: OutOfTime) -> OutOfTime:
    """Return a condition that also ends a removal after its share of commits."""
    left = iter(range(LIMITS.flow_removal_commits_max - 1))
    return lambda: next(left, None) is None or out_of_time()


# --- removal ---

DELETED_WHILE_STUCK = "The flow was stuck, and was deleted."
"""The outcome of a stuck run that is deleted. Its parent receives it, and its header has it until the archive is
written.
"""


def delete(ports: Ports, address: FlowAddress) -> None:
    """Remove a flow that has ended, or end and remove one that is stuck.

    Raises `NoFlow`, `FlowRunning`, or `NotArchived` if its archive is not written yet.
    """
    read: Snapshot | None = _ended(ports, address, DELETED_WHILE_STUCK, stuck_only=True)
    for lost in range(CORE_LIMITS.rounds_max):
        header = header_of(read, address) if read else None
        if read is None or header is None:
            return
        _check_archived(ports, header)
        with suppress(Conflict):
            remove(ports, address, read)
            return
        pause(ports, lost)
        read = _still_ended(ports, header)
    raise Contended(f"{address.base} is being changed by too many processes at once")


def _still_ended(ports: Ports, before: FlowHeader) -> Snapshot | None:
    """Return the header of an ended run that has changed, or None if another process has removed the run.

    Raises `FlowRunning` if a retry continues it.
    """
    [read] = ports.store.read(header_path(before.address.base))
    header = header_of(read, before.address)
    if header is None or header.incarnation != before.incarnation:
        return None
    if header.end is None:
        raise FlowRunning("The run was retried and continues. Cancel it, or wait for its end.")
    return read


def end_or_remove(ports: Ports, read: Snapshot, header: FlowHeader, detail: str) -> None:
    """End the run whose header was read, as `terminate` does, or remove it if it has ended.

    Raises `NotArchived`, and `Conflict` if the header has changed.
    """
    if header.end is None:
        cancel_sub_flows(ports, header)
        end_at_once(ports, read, header, detail)
        return
    _check_archived(ports, header)
    remove(ports, header.address, read)


def _check_archived(ports: Ports, header: FlowHeader) -> None:
    """Raise `NotArchived` if the archive of an ended run is not written yet."""
    if is_not_archived(ports, header):
        raise NotArchived(f"The archive of {header.address.key!r} is not written yet: {header.archive}.")


def terminate(ports: Ports, address: FlowAddress, reason: str = "") -> None:
    """End a flow as cancelled, without running its code. An ended flow does not change. Raises `NoFlow`."""
    detail = reason[: CORE_LIMITS.error_letters_max] or "The flow was terminated."
    _ended(ports, address, detail, stuck_only=False)


def _ended(ports: Ports, address: FlowAddress, detail: str, *, stuck_only: bool) -> Snapshot:
    """Return the header of an ended flow. If the flow has not ended, end it and cancel its commands first."""
    for lost in range(CORE_LIMITS.rounds_max):
        [read] = ports.store.read(header_path(address.base))
        header = header_of(read, address)
        if header is None:
            raise NoFlow(f"There is no run {address.key!r} of {address.name}.", field="id")
        if header.end:
            return read
        if stuck_only and not header.stuck:
            raise FlowRunning("A running flow cannot be deleted. Cancel it, or wait for its end.")
        cancel_sub_flows(ports, header)
        try:
            end_at_once(ports, read, header, detail)
        except Conflict:
            pause(ports, lost)
    raise Contended(f"{address.base} is being changed by too many processes at once")


def cancel_sub_flows(ports: Ports, header: FlowHeader) -> None:
    """Cancel the sub-flows that a flow waits for, since no further turn will cancel them."""
    for wait in header.pending.values():
        if address := sub_flow_address(header.address, wait):
            with suppress(NoFlow):
                cancel(ports, address, parent=parent_key(header.address.base, wait))


def _cancels_of_commands(header: FlowHeader) -> Iterator[Effect]:
    """Iterate over the tasks that cancel the batches and the waits of a flow."""
    for wait in header.pending.values():
        kind, _, name = wait.signature.partition(" ")
        if kind == Batch.kind:
            yield cancel_batch_effect(header, wait)
        elif kind == Lock.kind:
            yield cancel_wait_effect(header, name, wait)
        elif kind == RatePermits.kind:
            yield cancel_rate_effect(header, name, wait)


def end_at_once(ports: Ports, read: Snapshot, header: FlowHeader, detail: str) -> None:
    """End a flow as cancelled: release its leases, and cancel its batches and its waits for locks.

    No turn has read the messages that wait. Their wake-ups end at the new header, or ran while the flow was stuck, so
    one more wake-up drops them and releases the leases in them.
    """
    outcome = CallOutcome.from_problem(FlowCancelled(detail))
    after = header.ended(End(CANCELLED, outcome, read.read_time))
    base, function = header.address.base, header.function
    releases = [release_effect(base, function, lease["granted"]) for lease in header.leases.values()]
    releases += _cancels_of_commands(header)
    writes = [header_write(read, after, read.read_time), *listing_writes(read, header, after), *end_messages(after)]
    outbox.commit(ports, writes, [*releases, *end_tasks(after), wake_flow(base, function)])


def remove(ports: Ports, address: FlowAddress, read: Snapshot, out_of_time: OutOfTime = NEVER) -> bool:
    """Remove the records of an ended flow, whose header was read; return False if time was over before the last commit.

    The header guards each commit. Once it is removed, the id may be in use again, and messages and log under it may
    belong to a new run. A removal of several commits first marks the header: a retry of the run would find only a part
    of its records. The sweeper completes a removal that was not finished. Raises `Conflict` if another process was
    faster.
    """
    header = header_of(read, address)
    assert header is not None, "only a flow that has ended is removed"
    if not header.removing:
        if (records := _few_records(ports, address)) is not None:
            messages, chunks = records
            deletes = [*(Delete(chunk.path) for chunk in chunks), Delete(read.path, read.guard), Delete(address.base)]
            writes: list[Write] = [*deletes, *payload_removals(header, messages)]
            delete_messages(ports, address, read, messages, *writes)
            return True
        read = mark_removing(ports, read, header)
    unchanged = Change(read.path, {}, read.guard)
    while messages := _messages(ports, collection_of(address.base)):
        delete_messages(ports, address, read, messages, unchanged)
        if out_of_time():
            return False
    while chunks := ports.store.query(Query(f"{address.base}/log", limit=LIMITS.flow_removal_page)):
        ports.store.commit([unchanged, *(Delete(chunk.path) for chunk in chunks)])
        if out_of_time():
            return False
    ports.store.commit([Delete(read.path, read.guard), Delete(address.base)])
    return True


def _few_records(ports: Ports, address: FlowAddress) -> tuple[list[Snapshot], Sequence[Snapshot]] | None:
    """Return the messages and the chunks of a run if one commit can delete them, else None."""
    messages = _messages(ports, collection_of(address.base))
    chunks_max = LIMITS.flow_removed_at_once_max - len(messages)
    chunks = ports.store.query(Query(f"{address.base}/log", limit=chunks_max + 1)) if chunks_max > 0 else ()
    return (messages, chunks) if 0 < chunks_max >= len(chunks) else None


def mark_removing(ports: Ports, read: Snapshot, header: FlowHeader) -> Snapshot:
    """Note in the header of an ended run that its removal has begun. Return the header as it is then.

    The header has no later revision, since nothing has read the mailbox: a turn must still drop what waits there.
    """
    put = header_write(read, replace(header, removing=True), EPOCH)
    committed = ports.store.commit([put, *payload_removals(header, all_read=False)])
    result, *_ = committed.results
    return Snapshot(read.path, put.data, committed.commit_time, result.update_time, read.create_time)


def payload_removals(header: FlowHeader, records: Sequence[Snapshot] = (), *, all_read: bool = True) -> list[Write]:
    """Return the write by which the payloads of a removed run are deleted, if its header or a message names any.

    If not `all_read`, the run has more messages than `records`, which may name some. The write is in the commit that
    removes the header or marks it: until then, the run may be retried.
    """
    messages = [message_from_record(record.data) for record in records if record.data is not None]
    named = header.has_payloads or any(map(payload_of, messages)) or (not all_read and are_payloads_stored())
    return [removal(place_of_run(header.address, header.incarnation))] if named else []


def _messages(ports: Ports, collection: str) -> list[Snapshot]:
    """Return a page of the records of a mailbox, without its header."""
    page = ports.store.query(Query(collection, limit=MAILBOXES_LIMITS.turn_tasks_max + 1))
    return [record for record in page if record.id != HEADER]


def delete_messages(
    ports: Ports, address: FlowAddress, read: Snapshot, records: Sequence[Snapshot], *with_them: Write
) -> None:
    """Delete as many messages as one commit can, and release the leases that they granted."""
    page = records[: MAILBOXES_LIMITS.turn_tasks_max]
    messages = [
        message_from_record(record.data) for record in page if record.data is not None and "since" in record.data
    ]
    leases = [message.lease for message in messages if isinstance(message, Result) and message.lease]
    header = header_of(read, address)
    assert header is not None, "only a flow that has ended is removed"
    effects = [release_effect(address.base, header.function, lease) for lease in leases if lease]
    outbox.commit(ports, [*with_them, *(Delete(record.path) for record in page)], effects)
